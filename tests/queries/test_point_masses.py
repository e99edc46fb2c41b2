"""Lattices with atoms, and columns of few numbers: every query agrees with the masses."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import marginals
from marginals import MDMA, Continuous, Discrete, Integer

ROWS = 300
DAY = pd.Timestamp("2020")
KINDS: dict[Any, Any] = {
    "hours": Integer(lower=1, upper=99, atoms=(40, 99)),
    "cents": Continuous(lower=0, resolution=0.3, atoms=(0.0, 0.9)),
    "fine": Integer(atoms=(0,)),
    "paid": Integer(lower=0, atoms=(0,)),
    "term": Discrete(),
    "score": Discrete([0.1, 0.5, 0.7, 1.25]),
    "day": Discrete(),
}


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    hours = np.clip(np.rint(rng.normal(42, 15, ROWS)), 1, 99)
    term = rng.choice([36, 60], ROWS)
    days = rng.choice(4, ROWS)
    return pd.DataFrame(
        {
            "hours": np.where(rng.random(ROWS) < 0.4, 40, hours).astype(np.int64),
            "cents": np.where(rng.random(ROWS) < 0.5, 0, 0.3 * rng.poisson(4, ROWS)).round(1),
            "fine": np.where(rng.random(ROWS) < 0.3, 0, rng.integers(-9000, 9000, ROWS)),
            "paid": np.where(rng.random(ROWS) < 0.3, 0, rng.integers(1, 9000, ROWS)),
            "term": term,
            "score": np.where(term == 36, 0.1, rng.choice([0.5, 0.7, 1.25], ROWS)),
            "day": DAY + pd.to_timedelta(days**2, "D"),
            "z": rng.normal(size=ROWS) + term / 10,
        }
    )


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(columns=KINDS, width=6, max_steps=60, random_state=0).fit(make_frame())


VALUES: dict[str, Any] = {
    "hours": np.arange(1, 100),
    "cents": np.round(0.3 * np.arange(400), 1),
    "term": np.array([36, 60]),
    "score": np.array([0.1, 0.5, 0.7, 1.25]),
}
CLOSE = {"abs": 2e-5, "rel": 2e-4}


@pytest.mark.parametrize("given", [None, {"z": 4.0}, {"term": 36, "hours": (20, 60)}])
@pytest.mark.parametrize("name", VALUES)
def test_masses_agree_with_every_query(model: MDMA, name: str, given: Any) -> None:
    given = {key: value for key, value in (given or {}).items() if key != name}
    values = VALUES[name]
    mass = model.pdf(pd.DataFrame({name: values}), given=given)
    assert mass.sum() == pytest.approx(1, abs=1e-4)
    middle = len(values) // 2
    each = [model.prob({name: value}, given=given) for value in values[:4]]
    assert each == pytest.approx(mass[:4], **CLOSE)
    assert model.cdf({name: values[middle]}, given=given) == pytest.approx(
        mass[: middle + 1].sum(), **CLOSE
    )
    assert model.prob({name: (values[0], values[middle])}, given=given) == pytest.approx(
        mass[1 : middle + 1].sum(), **CLOSE
    )
    few = {values[0], values[-1]}
    assert model.prob({name: few}, given=given) == pytest.approx(mass[[0, -1]].sum(), **CLOSE)
    mean = (mass * values).sum()
    assert model.mean(name, given=given) == pytest.approx(mean, rel=1e-3)
    spread = np.sqrt((mass * (values - mean) ** 2).sum())
    assert model.std(name, given=given) == pytest.approx(spread, rel=5e-3)
    for level in (0.05, 0.3, 0.5, 0.9):
        at = int(np.searchsorted(values, model.ppf(level, name, given=given)))
        assert mass[:at].sum() - 1e-4 <= level <= mass[: at + 1].sum() + 1e-4


def test_atoms_start_at_their_frequencies_and_keep_them(model: MDMA) -> None:
    frame = make_frame()
    for name, value in (("hours", 40), ("cents", 0.0), ("fine", 0), ("paid", 0), ("term", 36)):
        share = (frame[name] == value).mean()
        assert model.prob({name: value}) == pytest.approx(share, abs=0.05)
    assert model.logpdf({"fine": 0}) == pytest.approx(np.log(model.prob({"fine": 0})), abs=0.01)
    assert model.logpdf({"paid": 0}) == pytest.approx(np.log(model.prob({"paid": 0})), abs=0.01)
    assert model.logpdf({"paid": 4000}) == pytest.approx(
        np.log(model.prob({"paid": 4000})), abs=0.02
    )


def test_draws_are_values_of_the_column(model: MDMA) -> None:
    drawn = model.sample(500, random_state=0)
    for name, values in VALUES.items():
        assert drawn[name].isin(values).all(), name
    assert drawn.dtypes.equals(make_frame().dtypes)
    assert drawn["day"].isin(make_frame()["day"].unique()).all()
    assert (
        model.sample(50, given={"score": (0.4, 0.8)}, random_state=0)["score"]
        .between(0.5, 0.7)
        .all()
    )
    assert (drawn["hours"] == 40).mean() == pytest.approx(0.42, abs=0.12)


def test_imputation_by_values(model: MDMA) -> None:
    frame = make_frame().head(30).astype({"term": "Int64", "hours": "Int64"})
    frame.loc[:9, ["term", "score", "hours", "cents"]] = None
    for method in ("median", "mode", "draw"):
        filled = model.impute(frame, method=method)
        for name, values in VALUES.items():
            assert filled[name].isin(values).all()
    assert model.impute(frame, method="mean")["term"].between(36, 60).all()
    ends = model.impute_interval(frame, level=0.8)
    assert set(ends["column"]) == {"term", "score", "hours", "cents"}


def test_plots(model: MDMA) -> None:
    plotting = pytest.importorskip("marginals.plotting")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for name in KINDS:
        plotting.marginal(model, name, data=make_frame())
    plotting.pairs(model, ["hours", "score", "fine"], data=make_frame())
    pyplot.close("all")


def test_files_keep_atoms_and_tables(model: MDMA, tmp_path: Path) -> None:
    model.save(tmp_path / "m.mdma")
    again = marginals.load(tmp_path / "m.mdma")
    assert again.schema_ == model.schema_
    row = make_frame().head(5)
    np.testing.assert_allclose(again.score_samples(row), model.score_samples(row), rtol=1e-5)


def test_values_outside_of_a_table_are_refused(model: MDMA) -> None:
    with pytest.raises(ValueError, match=r"'term' to hold one of 36, 60; got 48. Correct"):
        model.logpdf({"term": 48})
    with pytest.raises(ValueError, match="cannot happen"):
        model.prob({"z": (0, 1)}, given={"term": 48})
    assert model.prob({"term": (40, 50)}) == 0
    assert model.prob({"score": 0.2 + 0.3}) == model.prob({"score": 0.5})


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        (Continuous(resolution=0.5, atoms=(0.3,)), "`atoms` of column 'x' to lie on its grid; got"),
        (Discrete([1.0]), "'x' to hold one of 1.0; got 0.5 in row 0"),
        (Discrete([pd.Timestamp(0)]), "`values` of column 'x' to fit its dtype float64"),
    ],
)
def test_errors(kind: Any, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        MDMA(columns={"x": kind}).fit(pd.DataFrame({"x": [0.5, 1.0]}))
