"""Many tests of independence at the same rows."""

import pandas as pd
import pytest

from marginals import MDMA
from marginals.densities import Density


def test_each_test_is_that_of_the_model(model: MDMA, frame: pd.DataFrame) -> None:
    tester = model.independence_tester(seed=3)
    assert tester.names == list(frame)
    for x, y, given in [
        ("x", "count", None),
        ("count", "x", ["city"]),
        ("x", ["count", "wait"], ["city", "price"]),
        ("share", "grade", ["city"]),
    ]:
        found = tester.independence_test(x, y, given)
        alone = model.independence_test(x, y, given, seed=3)
        assert found.pvalue == pytest.approx(alone.pvalue, rel=1e-6)
        assert (found.degrees, found.n) == (alone.degrees, alone.n)


def test_what_is_prepared_is_not_made_again(model: MDMA, monkeypatch: pytest.MonkeyPatch) -> None:
    tester = model.independence_tester()
    tester.prepare(["x", "count", "share"], "city")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(type(model.module_), "univariates", refuse)
    assert isinstance(model.module_, Density)
    for x, y in [("x", "count"), ("count", "share"), ("share", "x")]:
        assert tester.independence_test(x, y, ["city"]).n == 200
    with pytest.raises(AssertionError, match="asked again"):
        tester.independence_test("x", "wait", ["city"])


def test_rows_and_options(model: MDMA, frame: pd.DataFrame) -> None:
    tester = model.independence_tester(data=frame[:50], q=(1, 2), ties="middle")
    one, two = tester.independence_test("x", "count")  # type: ignore[misc]
    assert (one.n, one.degrees, two.degrees) == (50, 1, 4)
    assert one.ties == "middle"


def test_errors_name_the_cause(model: MDMA) -> None:
    with pytest.raises(ValueError, match="Expected `data`, rows to test on"):
        model.marginal(["x", "count"]).independence_tester()
    with pytest.raises(ValueError, match="wealth"):
        model.independence_tester().independence_test("x", "wealth")
