"""Averaged conditionals are means of the members' conditionals, whatever the evidence."""

import pytest
import torch
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.averaged import Averaged, averaged
from marginals.densities.mixture import Mixture
from tests.densities.test_mixture import WEIGHTS, members, weighted
from tests.laws.statistics import assert_uniform


@pytest.fixture
def both() -> tuple[Averaged, Mixture]:
    mixture = Mixture(members(), WEIGHTS)
    return Averaged(mixture), mixture


def test_conditionals_are_means(both: tuple[Averaged, Mixture]) -> None:
    mean, mixture = both
    x, given = torch.randn(5, 1), {1: 2, 2: 0.3}
    parts = [m.logpdf(x, [0], given) for m in mixture.densities]
    assert_close(mean.logpdf(x, [0], given), weighted(parts))
    rows = Evidence.exact(torch.tensor([[2.0, 0.3]] * 5), [1, 2])
    assert_close(mean.univariates(rows, [0]).logpdf(x)[:, 0], weighted(parts))
    level = mean.cdf(x, [0], given)
    assert_close(torch.stack([mean.ppf(u, 0, given) for u in level]), x[:, 0], rtol=1e-4, atol=1e-4)


def test_the_joint_is_the_mixtures(both: tuple[Averaged, Mixture]) -> None:
    mean, mixture = both
    x = torch.tensor([[0.1, 1.0, -0.4], [torch.nan, 2.0, 0.3]])
    assert_close(mean.logpdf(x), mixture.logpdf(x))
    assert_close(mean.univariates().logpdf(x[:1]), mixture.univariates().logpdf(x[:1]))


def test_hidden_cells_given_the_others(both: tuple[Averaged, Mixture]) -> None:
    x = torch.tensor([[0.1, 1.0, -0.4], [0.2, 2.0, 0.3]])
    hidden = torch.tensor([[True, False, False], [False, True, True]])
    for density in both:
        first = density.logpdf(x[:1, :1], [0], Evidence.exact(x[:1, 1:], [1, 2]))
        second = density.logpdf(x[1:, 1:], [1, 2], Evidence.exact(x[1:, :1], [0]))
        found = density.log_gain(Evidence.exact(x), hidden)
        assert_close(found, torch.cat([first, second]), rtol=1e-4, atol=1e-5)


def test_draws_follow_the_mean(both: tuple[Averaged, Mixture]) -> None:
    mean, _ = both
    generator = torch.Generator().manual_seed(0)
    drawn = mean.sample(2000, {1: 2, 2: 0.3}, generator)
    assert_uniform(mean.cdf(drawn[:, :1], [0], {1: 2, 2: 0.3}).detach())


def test_other_densities_stay_as_they_are() -> None:
    member = members()[0]
    assert averaged(member) is member
