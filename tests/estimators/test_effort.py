"""The estimator's default: a search within its seconds, or one model as asked."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import marginals
from marginals import MDMA


def make(count: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=count)
    frame = pd.DataFrame({"a": a, "b": a**2 + rng.normal(size=count), "n": rng.poisson(3, count)})
    frame["c"] = np.where(a > 0, "up", "down")
    frame.loc[::9, "a"] = np.nan
    return frame


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(max_seconds=2, random_state=0).fit(make())


def test_the_default_is_a_mixture_that_answers(model: MDMA) -> None:
    assert len(model.members_) == 3
    assert sum(member["weight"] for member in model.members_) == pytest.approx(1)
    assert 0 < model.prob({"a": (0, None)}, given={"c": "up"}) <= 1
    assert np.isfinite(model.score(make()))
    assert not model.impute(make()).isna().any().any()
    assert np.isfinite(model.mean("b", given={"a": 1.0}))
    level = model.cdf({"b": model.ppf(0.3, "b", given={"a": 1.0})}, given={"a": 1.0})
    assert level == pytest.approx(0.3, abs=1e-3)


def test_a_mixture_is_one_file(model: MDMA, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = marginals.load(tmp_path / "m")
    assert isinstance(again, MDMA)
    np.testing.assert_array_equal(again.score_samples(make()), model.score_samples(make()))
    assert again.members_ == model.members_


def test_an_option_of_one_model_fits_one() -> None:
    one = MDMA(tensor="copula", rank=1, width=3, max_steps=10, random_state=0).fit(make())
    assert one.members_ == []
    assert type(one.module_).__name__ == "CoupledDensity"
    tree = MDMA(width=3, max_steps=10, random_state=0).fit(make())
    assert type(tree.module_).__name__ == "TensorDensity"


def test_a_quick_fit_answers_as_well() -> None:
    quick = MDMA(effort="quick", random_state=0).fit(make())
    assert {member["steps"] for member in quick.members_} == {0}
    assert sum(member["weight"] for member in quick.members_) == pytest.approx(1)
    assert 0 < quick.prob({"a": (0, None)}, given={"c": "up"}) <= 1
    assert not quick.impute(make()).isna().any().any()
    words = make()[["c"]].assign(d=["u", "v", "v"] * 50)  # nothing to couple: trained trees
    assert np.isfinite(MDMA(effort="quick", random_state=0).fit(words).score(words))


def test_unknown_efforts_are_refused() -> None:
    with pytest.raises(ValueError, match="`effort`"):
        MDMA(effort="most").fit(make())


def test_one_row_and_constant_columns() -> None:
    one = pd.DataFrame({"x": [1.0], "y": ["a"]})
    assert np.isfinite(MDMA(max_seconds=0.5, random_state=0).fit(one).score(one))
    flat = pd.DataFrame({"x": [2.0] * 20, "y": np.arange(20.0)})
    assert np.isfinite(MDMA(max_seconds=0.5, random_state=0).fit(flat).score(flat))


def test_a_quick_fit_counts_rows_by_their_weight() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["x", "y"])
    frame["x"] += np.where(np.arange(400) < 200, -3.0, 3.0)
    heavy = np.where(np.arange(400) < 200, 9.0, 1.0)
    model = MDMA(effort="quick", random_state=0).fit(frame, sample_weight=heavy)
    assert model.prob({"x": (None, 0)}) == pytest.approx(0.9, abs=0.03)
    assert model.mean("x") == pytest.approx(np.average(frame["x"], weights=heavy), abs=0.2)
    with pytest.raises(ValueError, match="`sample_weight`"):
        MDMA(effort="quick").fit(frame, sample_weight=-heavy)


def test_a_quick_fit_of_one_row() -> None:
    one = pd.DataFrame({"x": [1.0], "y": [2.0]})
    assert np.isfinite(MDMA(effort="quick", random_state=0).fit(one).score(one))
