"""Tail probabilities of rows with gaps, against the chi-squared of a normal distribution."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities import Mixture, build
from marginals.queries.row_tails import RowTails, log_tail
from tests.queries.oracle import Gaussian, gaussian

LEVELS = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9])


def holed(density: Gaussian, rows: int, rate: float) -> Tensor:
    """Draws with cells missing at random, at least one observed in each."""
    generator = torch.Generator().manual_seed(1)
    x = density.sample(rows, generator=generator)
    gone = torch.rand(x.shape, generator=generator) < rate
    gone[gone.all(1), 0] = False
    return x.masked_fill(gone, torch.nan)


def tails_of(density: Gaussian, x: Tensor | None = None, rows: int = 2000, **options: Any) -> Any:
    """Tails among draws of the density, with the patterns of x, as a function of tensors."""
    drawn = density.sample(rows, generator=torch.Generator().manual_seed(0))
    patterns = None if x is None else ~x.isnan().numpy()
    tails = RowTails(density, Evidence.exact(drawn), patterns, **options)
    return lambda x: tails(Evidence.exact(x))


def exact_tails(density: Gaussian, x: Tensor) -> Any:
    """The exact tail of the log density of the observed cells."""
    rows, mask, covariance = density.exact(Evidence.exact(x))
    distance = (rows[:, None] @ torch.linalg.solve(covariance, rows[..., None]))[:, 0, 0]
    return chi2.sf(distance.numpy(), mask.sum(1).numpy())


@pytest.mark.parametrize(("columns", "rate"), [(5, 0.5), (7, 0.5), (12, 0.2), (12, 0.5)])
@pytest.mark.parametrize("views", [("joint",), ("near",), ("joint", "tails", "near")], ids="-".join)
def test_tails_are_uniform_for_any_number_of_gaps(
    columns: int, rate: float, views: tuple[str, ...]
) -> None:
    density = gaussian(columns, seed=1)
    x = holed(density, 3000, rate)
    found = np.exp(tails_of(density, x, views=views)(x))
    known = (~x.isnan()).sum(1).numpy()
    for count in np.unique(known):
        here = found[known == count]
        if len(here) < 200:
            continue
        shares = (here[:, None] <= LEVELS).mean(0)
        # Four standard errors of a share, and what is not known of a pattern from so few rows.
        error = 4 * np.sqrt(LEVELS * (1 - LEVELS) / len(here)) + 0.02
        assert (np.abs(shares - LEVELS) < error).all(), (count, shares)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_tails_of_the_joint_are_those_of_chi_squared(rate: float) -> None:
    density = gaussian(8, seed=2)
    x = holed(density, 2000, rate)
    exact, found = exact_tails(density, x), np.exp(tails_of(density, x, views=("joint",))(x))
    assert np.abs(found - exact).mean() < (0.015 if rate == 0 else 0.035)
    assert np.corrcoef(found, exact)[0, 1] > 0.99


def test_far_empty_and_impossible_rows() -> None:
    density = gaussian(4, seed=0)
    direction = density.sample(1, generator=torch.Generator().manual_seed(3))
    x = torch.linspace(1, 12, 12)[:, None] * direction
    found = tails_of(density, views=("joint",))(x)
    assert (np.diff(found) < 0).all()
    assert found[np.log(exact_tails(density, x)) < -20].max() < -10
    edge = torch.tensor([[torch.nan] * 4, [1e200] * 4])
    assert tails_of(density)(edge).tolist() == [0.0, -np.inf]


def test_a_row_does_not_depend_on_the_others_and_memory_is_bounded() -> None:
    density = gaussian(8, seed=0, batch=500)
    x = holed(density, 300, 0.4)
    tails = tails_of(density, x)
    every = tails(x)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(tails(x[order]), every[order.numpy()], rtol=1e-9)
    alone = np.concatenate([tails(x[[i]]) for i in range(0, 300, 30)])
    np.testing.assert_allclose(alone, every[::30], rtol=1e-9)
    tails(holed(density, 1500, 0.5))
    assert density.largest <= 500


def test_each_view_sees_its_own() -> None:
    # Two columns that go together: a row between the axes is odd together, not alone.
    density = Gaussian(torch.tensor([[1.0, 0.95], [0.95, 1.0]]))
    rows = torch.tensor([[1.0, -1.0], [4.0, 4.0]])
    joint, tails, near = (tails_of(density, views=(v,))(rows) for v in ("joint", "tails", "near"))
    assert joint[0] < -10
    assert tails[0] > -2.5
    assert (near < -5).all()
    assert tails[1] < -5
    assert (tails_of(density)(rows) < -4).all()


def test_members_of_a_mixture_have_views_of_their_own() -> None:
    data = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    members = [build(data, tensor="cp", width=width, seed=0) for width in (2, 4)]
    rows = Evidence.exact(data)
    both = RowTails(Mixture(members), rows)._seen(members[0].checked(rows))
    first, second = (RowTails(member, rows)._seen(member.checked(rows)) for member in members)
    np.testing.assert_allclose(both[:, :2], np.stack([first[:, 0], second[:, 0]], 1), atol=2e-4)
    np.testing.assert_allclose(both[:, 2:], (first[:, 1:] + second[:, 1:]) / 2, atol=2e-4)


def test_odd_in_several_views_counts_more_than_in_one() -> None:
    density = Gaussian(torch.tensor([[1.0, 0.8], [0.8, 1.0]]))
    found = tails_of(density)(torch.tensor([[1.2, -1.2], [3.0, -3.0], [30.0, -30.0]]))
    assert (np.diff(found) < -1).all()


def test_log_tail_of_ties() -> None:
    drawn = np.repeat([0.0, 1.0, 2.0], [600, 300, 100])
    shares = np.exp(log_tail(np.array([0.0, 1.0, 2.0]), drawn))
    np.testing.assert_allclose(shares, [1.0, 0.4, 0.1], rtol=1e-3)
    assert log_tail(np.array([-np.inf, 5.0]), np.array([np.nan])).tolist() == [-np.inf, 0.0]
