"""The copulas have the densities, rank correlations and tails that they are said to have."""

import numpy as np
import pytest

from experiments.copulas import truth
from experiments.copulas.models import gaussian, ranks
from experiments.copulas.truth import SETS, counted, draw_returns, gaussian_known

Q = (0.05, 0.1)


@pytest.mark.parametrize("name", ["gaussian", "clayton", "student"])
def test_draws_agree_with_what_is_known(name: str) -> None:
    levels = SETS[name].draw(40_000, np.random.default_rng(0))
    assert ((levels > 0) & (levels < 1)).all()
    found, known = counted(levels, Q), SETS[name].known(Q)
    np.testing.assert_allclose(found.tau, known.tau, atol=0.02)
    np.testing.assert_allclose(found.rho, known.rho, atol=0.02)
    np.testing.assert_allclose(found.lower, known.lower, atol=0.05)
    np.testing.assert_allclose(found.upper, known.upper, atol=0.05)


@pytest.mark.parametrize("name", ["gaussian", "clayton", "student"])
def test_densities_have_mass_one_and_are_those_of_the_draws(name: str) -> None:
    logpdf = SETS[name].logpdf
    assert logpdf is not None
    side = (np.arange(400) + 0.5) / 400
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    mass = np.exp(logpdf(grid)) / len(grid)
    assert mass.sum() == pytest.approx(1, abs=0.01)
    levels = SETS[name].draw(20_000, np.random.default_rng(1))
    corner = (grid < 0.25).all(1)
    assert mass[corner].sum() == pytest.approx((levels < 0.25).all(1).mean(), abs=0.02)


def test_gains_and_losses_of_returns_have_one_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "PATHS", 20)
    monkeypatch.setattr(truth, "DAYS", 300)
    cached = (truth.returns_known, truth._many_returns)
    try:
        known = SETS["returns"].known(Q)
    finally:
        for each in cached:
            each.cache_clear()
    assert known.lower == known.upper
    assert np.shape(known.lower) == (3, 2)
    # By the correlations 0.6, 0.3 and 0.4 of the pairs.
    assert known.tau[0] > known.tau[2] > known.tau[1] > 0.1


def test_a_gaussian_copula_is_found_from_ranks() -> None:
    levels = SETS["gaussian"].draw(20_000, np.random.default_rng(2))
    found = gaussian(levels**3, Q)  # ranks do not see margins
    known = gaussian_known(np.array([[1, 0.6], [0.6, 1]]), Q)
    np.testing.assert_allclose(found.known.tau, known.tau, atol=0.02)
    assert ranks(levels).min() == pytest.approx(0.5 / 20_000)


def test_returns_have_heavy_tails_and_volatility_that_lasts() -> None:
    days = draw_returns(4000, np.random.default_rng(3))
    first = days[:, 0] / days[:, 0].std()
    assert (first**4).mean() > 4
    size = np.abs(first)
    assert np.corrcoef(size[1:], size[:-1])[0, 1] > 0.05
    assert np.corrcoef(days.T)[0, 1] == pytest.approx(0.6, abs=0.1)
