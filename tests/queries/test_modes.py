"""The most likely value, and the probabilities of all values, of columns of every kind."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Continuous

GIVEN: list[Any] = [None, {"city": "Oslo"}, {"count": {1, 4}}]


@pytest.mark.parametrize("given", GIVEN)
def test_nothing_is_denser_than_the_mode(model: MDMA, frame: pd.DataFrame, given: Any) -> None:
    ends = {"x": (frame["x"].min(), frame["x"].max()), "share": (0, 1)}
    for name, (low, high) in ends.items():
        mode = model.mode(name, given=given)
        grid = pd.DataFrame({name: np.linspace(low, high, 2001)[1:-1]})
        best = model.pdf(grid, given=given).max()
        assert model.pdf({name: mode}, given=given) >= best * (1 - 1e-5)


@pytest.mark.parametrize("given", GIVEN)
def test_the_mode_of_discrete_columns_has_the_largest_probability(model: MDMA, given: Any) -> None:
    for name in ("count", "price", "city", "grade"):
        if given is not None and name in given:
            continue
        every = model.probabilities(name, given=given)
        mode = model.mode(name, given=given)
        assert every[mode] == every.max()
        assert every.sum() == pytest.approx(1, abs=1e-9)
        assert model.prob({name: mode}, given=given) == pytest.approx(every.max(), rel=1e-4)


def test_rows_have_one_answer_each(model: MDMA, frame: pd.DataFrame) -> None:
    rows = frame[["city", "x"]].iloc[:5]
    for name in ("grade", "count", "share", "day", "wait"):
        found = model.mode(name, given=rows)
        assert len(found) == len(rows)
        for i in range(2):
            alone = model.mode(name, given=rows.iloc[i].to_dict())
            if name in ("share", "wait"):
                assert found[i] == pytest.approx(alone, rel=1e-3)
            elif name == "day":
                assert abs(found[i] - alone) < pd.Timedelta("6h")
            else:
                assert found[i] == alone
    table = model.probabilities("grade", given=rows)
    assert table.index.equals(rows.index)
    assert list(table.columns) == list("abc")
    np.testing.assert_allclose(table.sum(axis=1), 1)
    one = model.probabilities("grade", given=rows.iloc[0].to_dict())
    np.testing.assert_allclose(table.iloc[0], one, rtol=1e-4)
    view = model.condition({"city": "Oslo"})
    assert view.mode("grade") == model.mode("grade", given={"city": "Oslo"})
    counts = model.probabilities("count", given=rows[["city"]])
    np.testing.assert_allclose(counts.sum(axis=1), 1)


def test_imputing_by_the_mode_gives_the_mode(model: MDMA, frame: pd.DataFrame) -> None:
    row = frame.iloc[[0]].assign(share=np.nan, grade=None)
    known = row.iloc[0].dropna().to_dict()
    done = model.impute(row, "mode").iloc[0]
    assert done["share"] == pytest.approx(model.mode("share", given=known), rel=1e-3)
    assert done["grade"] == model.mode("grade", given=known)


def test_two_peaks_and_an_atom() -> None:
    """A narrow peak of little mass is the mode; an atom is if it is as likely as what is around."""
    rng = np.random.default_rng(0)
    narrow = np.where(rng.random(800) < 0.2, rng.normal(5, 0.05, 800), rng.normal(0, 1, 800))
    zeros = np.where(rng.random(800) < 0.3, 0.0, rng.exponential(10, 800))
    few = np.where(rng.random(800) < 0.004, 50.0, rng.normal(20, 1, 800))
    frame = pd.DataFrame({"narrow": narrow, "zeros": zeros, "few": few})
    kinds: dict[Any, Any] = {
        "zeros": Continuous(lower=0, atoms=(0,)),
        "few": Continuous(atoms=(50,)),
    }
    model = MDMA(columns=kinds, width=8, max_steps=150, random_state=0).fit(frame)
    assert model.mode("narrow") == pytest.approx(5, abs=0.1)
    assert model.mode("zeros") == 0
    assert model.mode("few") == pytest.approx(20, abs=1)
    assert model.query("mode(zeros)").value == 0


def test_what_has_no_list_of_values_is_refused(model: MDMA) -> None:
    with pytest.raises(TypeError, match="got continuous column 'x'"):
        model.probabilities("x")
    with pytest.raises(ValueError, match="'x' in both"):
        model.mode("x", given={"x": 1.0})
