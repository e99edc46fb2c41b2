"""Draws have the resolution of float64, and repeat evidence to the last digit."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from marginals import MDMA, Evidence
from marginals.leaves.monotone import refined, solve
from marginals.leaves.neural import NeuralLeaves

FAMILIES: dict[str, dict[str, Any]] = {
    "ht": {"tensor": "ht", "width": 6},
    "neural": {"tensor": "cp", "width": 6, "leaves": "neural"},
    "copula": {"tensor": "copula", "width": 4},
    "mixture": {"effort": "quick"},
}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> MDMA:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=400), "z": rng.exponential(size=400)})
    options = FAMILIES[request.param]
    steps = {} if "effort" in options else {"max_steps": 20}
    return MDMA(**options, **steps, random_state=0).fit(frame)


def test_narrow_intervals_are_filled(model: MDMA) -> None:
    for width, least in ((1e-6, 1990), (1e-11, 1500)):
        given = {"x": (1, 1 + width)}
        x = model.sample(2000, given=given, random_state=0)["x"].to_numpy()
        assert len(np.unique(x)) >= least
        assert (x > 1).all()
        assert (x <= 1 + width).all()
        # The density is flat over so narrow an interval.
        assert stats.kstest((x - 1) / width, "uniform").pvalue > 1e-4


def test_free_draws_are_not_on_the_grid_of_float32(model: MDMA) -> None:
    drawn = model.sample(3000, random_state=0)
    for name in drawn:
        values = drawn[name].to_numpy()
        assert len(np.unique(values)) == 3000
        on_grid = values.astype(np.float32) == values
        assert on_grid.mean() < 0.01


def test_evidence_comes_back_to_the_last_digit(model: MDMA) -> None:
    given = {"x": 0.1, "z": 1.1}
    drawn = model.sample(5, given=given, random_state=0)
    assert (drawn["x"] == 0.1).all()
    assert (drawn["z"] == 1.1).all()
    rows = pd.DataFrame({"y": [0.1, np.nan, 0.3], "z": [1.7, 0.7, np.nan]})
    drawn = model.sample(2, given=rows, random_state=0)
    wanted = rows.loc[rows.index.repeat(2)]
    for name in rows:
        known = wanted[name].notna()
        assert (drawn[name][known] == wanted[name][known]).all()
        assert drawn[name].notna().all()


def test_rounded_columns_come_back_as_their_values() -> None:
    from marginals import Continuous

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"p": rng.gamma(2, 1, 200).round(1), "x": rng.normal(size=200)})
    kinds = {"p": Continuous(resolution=0.1)}
    model = MDMA(columns=kinds, width=4, max_steps=5, random_state=0).fit(frame)
    assert (model.sample(3, given={"p": 0.34}, random_state=0)["p"] == 0.3).all()


def test_solutions_are_refined() -> None:
    torch.manual_seed(0)
    leaves = NeuralLeaves(2, 3).float()
    network = leaves._network([0, 1])
    target = torch.linspace(-30, 30, 40, dtype=torch.float64).reshape(1, 40, 1).expand(2, 40, 3)
    exact = solve(network.to(torch.float64), target)
    found = solve(network, target)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, exact, rtol=1e-10, atol=1e-10)
    # A step that leads away is not taken.
    away = refined(network.to(torch.float64), target, exact)
    torch.testing.assert_close(away, exact, rtol=1e-14, atol=1e-14)


def test_complete_rows_stay_as_they_are() -> None:
    """Rows without gaps, drawn by copula components that share one pattern."""
    x = np.random.default_rng(0).normal(size=(30, 3))
    density = MDMA(tensor="copula", width=2, max_steps=2, random_state=0).fit(x).module_
    evidence = Evidence.exact(torch.tensor(x)).with_facts()
    assert evidence.complete
    drawn = density.sample_rows(density.checked(evidence), 2)
    np.testing.assert_allclose(drawn[:, 1].numpy(), x, rtol=1e-5)
