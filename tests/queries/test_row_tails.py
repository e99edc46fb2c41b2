"""Tail probabilities of rows with gaps, against the chi-squared of a normal distribution."""

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


def holed(density: Gaussian, rows: int, rate: float, seed: int = 1) -> Tensor:
    """Draws with cells missing at random, at least one known in each."""
    generator = torch.Generator().manual_seed(seed)
    x = density.sample(rows, generator=generator)
    gone = torch.rand(x.shape, generator=generator) < rate
    gone[gone.all(1), 0] = False
    return x.masked_fill(gone, torch.nan)


def reference(density: Gaussian, rows: int = 2000) -> Evidence:
    return Evidence.exact(density.sample(rows, generator=torch.Generator().manual_seed(0)))


def exact_tails(density: Gaussian, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The exact tail of the log density of what is known, and the number of known cells."""
    rows, mask, covariance = density._known(Evidence.exact(x))
    distance = (rows[:, None] @ torch.linalg.solve(covariance, rows[..., None]))[:, 0, 0]
    known = mask.sum(1).numpy()
    return chi2.sf(distance.numpy(), known), known


@pytest.mark.parametrize(("columns", "rate"), [(5, 0.5), (7, 0.5), (12, 0.2), (12, 0.5)])
@pytest.mark.parametrize("views", [("joint",), ("joint", "alone", "tails")], ids=len)
def test_tails_are_uniform_for_any_number_of_gaps(
    columns: int, rate: float, views: tuple[str, ...]
) -> None:
    density = gaussian(columns, seed=1)
    x = holed(density, 3000, rate)
    tails = RowTails(density, reference(density), ~x.isnan().numpy(), views)
    found = np.exp(tails(Evidence.exact(x)))
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
    tails = RowTails(density, reference(density), ~x.isnan().numpy(), ("joint",))
    exact, _ = exact_tails(density, x)
    found = np.exp(tails(Evidence.exact(x)))
    assert np.abs(found - exact).mean() < (0.015 if rate == 0 else 0.035)
    assert np.corrcoef(found, exact)[0, 1] > 0.99


def test_far_rows_go_on_with_an_exponential_tail() -> None:
    density = gaussian(4, seed=0)
    tails = RowTails(density, reference(density), None, ("joint",))
    x = torch.linspace(1, 12, 12)[:, None] * density.sample(
        1, generator=torch.Generator().manual_seed(3)
    )
    exact, _ = exact_tails(density, x)
    found = tails(Evidence.exact(x))
    assert (np.diff(found) < 0).all()
    assert found[np.log(exact) < -20].max() < -10


def test_a_row_does_not_depend_on_the_others() -> None:
    density = gaussian(8, seed=0)
    x = holed(density, 300, 0.4)
    tails = RowTails(density, reference(density), ~x.isnan().numpy())
    every = tails(Evidence.exact(x))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(tails(Evidence.exact(x[order])), every[order.numpy()], rtol=1e-9)
    alone = np.concatenate([tails(Evidence.exact(x[[i]])) for i in range(0, 300, 30)])
    np.testing.assert_allclose(alone, every[::30], rtol=1e-9)


def test_rows_of_which_nothing_is_known_and_impossible_ones() -> None:
    density = gaussian(3, seed=0)
    tails = RowTails(density, reference(density))
    x = torch.tensor([[torch.nan] * 3, [1e200] * 3])
    assert tails(Evidence.exact(x)).tolist() == [0.0, -np.inf]


def test_memory_is_bounded() -> None:
    density = gaussian(8, seed=0, batch=500)
    x = holed(density, 1500, 0.5)
    RowTails(density, reference(density, 300))(Evidence.exact(x))
    assert density.largest <= 500


def test_each_view_sees_its_own() -> None:
    # Two columns that go together: a row between the axes is odd together, not alone.
    density = Gaussian(torch.tensor([[1.0, 0.95], [0.95, 1.0]]))
    rows = Evidence.exact(torch.tensor([[1.0, -1.0], [4.0, 4.0]]))
    found = {
        view: RowTails(density, reference(density), None, (view,))(rows)
        for view in ("joint", "alone", "tails")
    }
    assert found["joint"][0] < -10
    assert found["alone"][0] > -2
    assert found["tails"][0] > -2.5
    assert found["tails"][1] < -5
    most = RowTails(density, reference(density))(rows)
    assert (most < -4).all()


def test_of_a_mixture_the_members_are_averaged() -> None:
    data = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    members = [build(data, tensor="cp", width=width, seed=0) for width in (2, 4)]
    rows = Evidence.exact(data)
    both = RowTails(Mixture(members), rows)
    parts = [RowTails(member, rows)._seen(member.checked(rows)) for member in members]
    np.testing.assert_allclose(both._seen(members[0].checked(rows)), np.mean(parts, 0), atol=2e-4)


def test_log_tail_of_ties() -> None:
    drawn = np.repeat([0.0, 1.0, 2.0], [600, 300, 100])
    shares = np.exp(log_tail(np.array([0.0, 1.0, 2.0]), drawn))
    np.testing.assert_allclose(shares, [1.0, 0.4, 0.1], rtol=1e-3)
    assert log_tail(np.array([-np.inf, 5.0]), np.array([np.nan])).tolist() == [-np.inf, 0.0]
