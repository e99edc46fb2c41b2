"""The fused inversion of chosen leaves against the plain one in float64."""

import pytest
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.leaves import NeuralLeaves
from marginals.leaves.monotone import value_and_slope
from tests.leaves.cells import exact
from tests.runtime.helpers import DEVICE, FUSED, cells_of, leaves_of, twin

pytest.importorskip("triton")
# Columns, components, cells, layers, units: more than a tile of cells, three layers, one of all.
SHAPES = [(2, 10, 150, 1, 3), (1, 3, 12, 3, 2), (3, 1, 1, 1, 1)]


def free(columns: int, rows: int) -> Evidence:
    return exact(torch.full((columns, rows), torch.nan, dtype=torch.float64, device=DEVICE))


def levels(columns: int, width: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return log u and log(1 - u) out to 1e-30 on either side, and the leaf of each cell."""
    torch.manual_seed(2)
    u = torch.rand(columns, rows, dtype=torch.float64)
    u = torch.where(torch.rand_like(u) < 0.1, 1e-30 * u, u).to(DEVICE)
    log_u, log_1mu = u.log(), torch.log1p(-u)
    swap = torch.rand(columns, rows, device=DEVICE) < 0.5
    chosen = torch.randint(width, (columns, rows), device=DEVICE)
    return torch.where(swap, log_1mu, log_u), torch.where(swap, log_u, log_1mu), chosen


def invert(leaves: NeuralLeaves, bounds: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """Return the kernel's and the plain solutions, and the leaf of each cell."""
    rows, columns = bounds.lower.shape
    log_u, log_1mu, chosen = levels(columns, leaves.size[1], rows)
    parts = (log_u, log_1mu, chosen, bounds)
    return leaves.invert_chosen(*parts, FUSED), twin(leaves).invert_chosen(*parts), chosen


def logit(leaves: NeuralLeaves, x: Tensor, chosen: Tensor) -> Tensor:
    columns = range(len(x))
    location, scale = leaves._scaling(columns, x)
    return value_and_slope(leaves._network(columns, chosen), (x - location) / scale)[0]


def assert_solved(leaves: NeuralLeaves, bounds: Evidence, tolerance: float = 1e-5) -> Tensor:
    """Compare the levels reached, as logits, up to the rounding error of the networks."""
    found, expected, chosen = invert(leaves, bounds)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    wide = twin(leaves)
    z, goal = logit(wide, found, chosen), logit(wide, expected, chosen)
    same = (z - goal).abs() <= tolerance * (1 + goal.abs())
    # A steep leaf rises far between two neighbouring floats.
    near = 4 * torch.finfo(torch.float32).eps * (wide.scale[:, None] + expected.abs())
    exactly = (bounds.lower == bounds.upper).T
    assert bool(((same & ~exactly) | ((found - expected).abs() <= near)).all())
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_free_and_bounded_cells(shape: tuple[int, ...]) -> None:
    columns, width, rows, depth, hidden = shape
    leaves = leaves_of(columns, width, depth, hidden).float()
    assert_solved(leaves, free(columns, rows))
    bounds = cells_of("all", columns, min(rows, 30))
    found = assert_solved(leaves, bounds, tolerance=2e-4)
    lower, upper = bounds.by_column()
    assert bool(((found > lower) & (found <= upper))[lower < upper].all())


def test_exact_cells_keep_their_value() -> None:
    bounds = cells_of("gaps", 2, 20)
    found, expected, _ = invert(leaves_of(2, 4, 1, 3).float(), bounds)
    known = bounds.lower.T.isfinite()
    assert torch.equal(found[known], bounds.lower.T[known])
    assert torch.allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("weight", [-1.5, 30.0])
def test_flat_and_steep_leaves(weight: float) -> None:
    leaves = leaves_of(1, 6, 2, 2).float()
    with torch.no_grad():
        for raw in leaves.weights:
            raw.mul_(0.3).add_(weight)
        leaves.gates[0].copy_(torch.linspace(-12, 12, 6, device=DEVICE))
    assert_solved(leaves, free(1, 20))


def test_some_columns_in_another_order_and_none() -> None:
    leaves, bounds = leaves_of(4, 5, 1, 3).float(), free(2, 6).renamed([3, 1])
    parts = (*levels(2, 5, 6), bounds)
    expected = twin(leaves).invert_chosen(*parts)
    assert torch.allclose(leaves.invert_chosen(*parts, FUSED), expected, rtol=1e-4, atol=1e-4)
    none = torch.empty(2, 0, device=DEVICE)
    parts = (none, none, none.long(), exact(none))
    assert leaves.invert_chosen(*parts, FUSED).shape == (2, 0)
