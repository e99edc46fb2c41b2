"""Scoring rules against closed forms and sums by hand."""

import torch
from torch.distributions import Normal
from torch.testing import assert_close

from marginals.numerics.scoring_rules import brier_score, mass_crps, quantile_crps


def test_crps_of_a_normal() -> None:
    normal, y = Normal(0.0, 1.0), torch.linspace(-3, 3, 7).double()
    levels = (torch.arange(50, dtype=torch.float64) + 0.5) / 50
    found = quantile_crps(normal.icdf(levels)[:, None], levels, y)
    exact = y * (2 * normal.cdf(y) - 1) + 2 * normal.log_prob(y).exp() - torch.pi**-0.5
    assert_close(found, exact, rtol=2e-3, atol=0)


def test_crps_of_masses_is_that_of_their_quantiles() -> None:
    values = torch.tensor([-1.0, 0.5, 2.0, 7.0]).double()
    mass = torch.rand(4, 5).double()
    mass /= mass.sum(0)
    truth = torch.tensor([-3.0, -1.0, 0.6, 7.0, 9.0]).double()
    levels = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    place = torch.searchsorted(mass.cumsum(0).T.contiguous(), levels.expand(5, -1).contiguous())
    expected = quantile_crps(values[place.clamp_max(3)].T, levels, truth)
    assert_close(mass_crps(values, mass, truth), expected, rtol=0, atol=1e-4)


def test_brier_score_is_a_squared_distance() -> None:
    mass = torch.rand(3, 6).softmax(0)
    code = torch.randint(3, (6,))
    hit = torch.nn.functional.one_hot(code, 3).T
    assert_close(brier_score(mass, code), (mass - hit).square().sum(0))
