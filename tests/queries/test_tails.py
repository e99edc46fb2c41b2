"""Tails beyond the data: moments are finite, plausible and like those of draws, or refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

import marginals
from marginals import MDMA, Continuous, Integer
from marginals.columns.schema import Column, Schema
from marginals.queries.table_density import TableView
from tests.laws.registry import build, names, smooth

DRAWS = 50_000
FAMILIES = {
    "quick": {"effort": "quick"},
    "default": {"effort": "fast", "max_seconds": 3},
    "neural": {"tensor": "ht", "leaves": "neural", "max_steps": 100},
    "logistic": {"tensor": "ht", "leaves": "logistic", "max_steps": 100},
    "normal": {"tensor": "cp", "leaves": "normal", "max_steps": 100},
    "copula": {"tensor": "copula", "max_steps": 100},
}
KINDS = {
    "sales": Integer(lower=0),
    "size": Continuous(lower=0),
    "debt": Continuous(upper=0),
    "paid": Continuous(lower=0, atoms=(0,)),
}


def heavy_table(rows=600, seed=0):
    """Integers of the order 1e8 and amounts, all with Pareto tails of index 1.3 or lognormal."""
    generator = np.random.default_rng(seed)
    z = generator.normal(size=rows)
    pareto = scipy.stats.norm.sf(z) ** (-1 / 1.3)
    paid = np.exp(2 * generator.normal(size=rows))
    return pd.DataFrame(
        {
            "sales": (5e7 * pareto).astype(np.int64),
            "size": np.exp(1.5 * (0.6 * z + 0.8 * generator.normal(size=rows))),
            "debt": -(generator.random(rows) ** (-1 / 1.5)),
            "paid": np.where(generator.random(rows) < 0.3, 0, paid),
        }
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_moments_of_heavy_columns_are_plausible(family, tmp_path):
    table = heavy_table()
    model = MDMA(columns=KINDS, random_state=0, progress=False, **FAMILIES[family]).fit(table)
    drawn = model.sample(DRAWS, random_state=0)
    gaps = table.head(4).astype(float).mask(np.eye(4, dtype=bool))
    filled = model.impute(gaps)
    assert (filled.abs() < 10 * table.abs().max()).all(axis=None)
    for name in table:
        mean, std = model.mean(name), model.std(name)
        # Like the draws, whose own mean has an error of std / sqrt(DRAWS).
        assert abs(mean - drawn[name].mean()) < 6 * std / DRAWS**0.5
        assert 0.5 < std / drawn[name].std() < 2
        # Like the data, whose deviation a tail of index 1.3 does not determine.
        assert 0.5 < mean / table[name].mean() < 2
        assert 0.2 < std / table[name].std() < 5
        far = 1e5 * float(table[name].abs().max())
        event = (None, -far) if name == "debt" else (far, None)
        assert model.prob({name: event}) < 1e-12
    model.save(tmp_path / "model.mdma")
    again = marginals.load(tmp_path / "model.mdma")
    assert again.mean("sales") == model.mean("sales")
    beyond = 3 * table.max().to_frame().T.astype({"sales": np.int64})
    assert (again.score_samples(beyond) == model.score_samples(beyond)).all()


def heavy_schema(count):
    """Columns whose model scale, of the order 1, is the logarithm of values around 1e8."""
    places = [
        (Integer(lower=0), "int64", {"location": 4.0, "knot": 6.0, "reference": 10**6}),
        (Continuous(lower=0), "float64", {"location": 18.0, "knot": 20.0}),
        (Continuous(upper=0), "float64", {"location": -18.0, "knot": 20.0}),
    ]
    columns = [
        Column(i, kind, dtype, "given", scale=0.6, **more)
        for i, (kind, dtype, more) in enumerate(places[i % 3] for i in range(count))
    ]
    return Schema(tuple(columns))


@pytest.mark.parametrize("name", names("univariates", smooth=1))
def test_every_density_has_moments(name):
    density = build(name)
    places = smooth(density)
    density = density.marginal(places)
    view = TableView(density, heavy_schema(len(places)))
    torch.manual_seed(0)
    drawn = view.sample(DRAWS, random_state=0)
    for column in range(len(places)):
        mean, std = view.mean(column), view.std(column)
        assert np.isfinite([mean, std]).all()
        assert abs(mean - drawn[column].astype(float).mean()) < 6 * std / DRAWS**0.5
        assert 0.5 < std / drawn[column].astype(float).std() < 2


@pytest.mark.filterwarnings("ignore::marginals.OutsideDataWarning")
def test_far_evidence_gives_finite_means():
    table = heavy_table()
    options = FAMILIES["copula"] | {"columns": KINDS, "random_state": 0, "progress": False}
    model = MDMA(**options).fit(table)
    given = {"sales": 10**14}
    assert np.isfinite([model.mean("size", given), model.std("size", given)]).all()
    assert model.mean("size", given) > 0 > model.mean("debt", given)


@pytest.mark.parametrize("tensor", ["ht", "copula"])
def test_moments_that_do_not_exist_are_refused(tensor):
    z = np.random.default_rng(0).normal(size=(200, 2))
    table = pd.DataFrame(z @ [[1, 1], [0, 1]], columns=["x", "y"])
    fitted = MDMA(tensor=tensor, max_steps=20, random_state=0, progress=False).fit(table)
    gap = pd.DataFrame({"x": [np.nan], "y": [1.0]})
    cauchy = fitted.with_margins({"x": scipy.stats.cauchy()})
    for ask in (
        lambda: cauchy.mean("x"),
        lambda: cauchy.std("x", given={"y": 1.0}),
        lambda: cauchy.impute(gap),
    ):
        with pytest.raises(ValueError, match=r"of column 'x' .*cauchy.* finite.*ppf"):
            ask()
    assert np.isfinite(cauchy.impute(gap, method="median")["x"]).all()
    heavy = fitted.with_margins({"x": scipy.stats.t(1.5)})
    assert abs(heavy.mean("x")) < 1e-3
    with pytest.raises(ValueError, match="standard deviation of column 'x'"):
        heavy.std("x")


@pytest.mark.parametrize("name", ["copula, 2 columns", "cp normal leaves, 2 columns"])
def test_rounding_takes_no_mean_beyond_its_bound(name):
    # In float32 weights sum to 1 up to 1e-7; almost all of the mass is within 1e-9 of the bound.
    density = build(name).float().marginal([0])
    drawn = density.sample(500).double()
    scale = 6 / float(drawn.std())
    places = {"location": -45 - scale * float(drawn.mean()), "scale": scale, "knot": 0.0}
    for bound in (0.1, 0.3, 0.7, 1234.5):
        column = Column("x", Continuous(lower=bound), "float64", "given", **places)
        mean = TableView(density, Schema((column,))).mean("x")
        assert bound <= mean < bound * (1 + 1e-6)
