"""The fused inversion of chosen leaves against the plain one in float64."""

import pytest
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import Leaves, NeuralLeaves
from marginals.leaves.monotone import value_and_slope
from marginals.runtime import kernels
from marginals.structure import balanced
from marginals.tensors import HierarchicalTensor
from tests.leaves.cells import exact
from tests.runtime.test_leaves import DEVICE, cells_of, made, twin

pytest.importorskip("triton")
# Columns, components, cells, layers, units: sizes that are no multiples of a tile, and one cell.
SHAPES = [(2, 10, 150, 1, 3), (1, 130, 1, 1, 3), (2, 5, 9, 2, 4), (1, 3, 40, 3, 5), (3, 1, 4, 1, 1)]


def free(columns: int, rows: int) -> Evidence:
    return exact(torch.full((columns, rows), torch.nan, dtype=torch.float64, device=DEVICE))


def question(columns: int, width: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Levels out to 1e-30 on either side, and the leaves they are asked of."""
    torch.manual_seed(2)
    u = torch.rand(columns, rows, dtype=torch.float64)
    u = torch.where(torch.rand_like(u) < 0.1, 1e-30 * u, u).to(DEVICE)
    log_u, log_1mu = u.log(), torch.log1p(-u)
    swap = torch.rand(columns, rows, device=DEVICE) < 0.5
    chosen = torch.randint(width, (columns, rows), device=DEVICE)
    return torch.where(swap, log_1mu, log_u), torch.where(swap, log_u, log_1mu), chosen


def invert(leaves: NeuralLeaves, within: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """Return what the kernel and the plain form find, and the components asked for."""
    (rows, columns), width = within.lower.shape, leaves.size[1]
    log_u, log_1mu, chosen = question(columns, width, rows)
    parts = (log_u, log_1mu, chosen, within)
    with kernels.fused(True):
        found = leaves.invert_chosen(*parts)
    return found, twin(leaves).invert_chosen(*parts), chosen


def z_of(leaves: NeuralLeaves, x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    columns = range(len(x))
    location, scale = leaves._scaling(columns, x)
    z, log_slope = value_and_slope(leaves._network(columns, chosen), (x - location) / scale)
    return z, log_slope


def assert_solved(leaves: NeuralLeaves, within: Evidence, tolerance: float = 1e-5) -> None:
    """The same levels, by their logits, to a rounding error of the networks."""
    found, expected, chosen = invert(leaves, within)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    wide = twin(leaves)
    (z, _), (goal, _) = z_of(wide, found, chosen), z_of(wide, expected, chosen)
    same = (z - goal).abs() <= tolerance * (1 + goal.abs())
    # A steep leaf moves far between two neighbouring floats.
    near = 4 * torch.finfo(torch.float32).eps * (wide.scale[:, None] + expected.abs())
    exactly = (within.lower == within.upper).T
    assert bool(((same & ~exactly) | ((found - expected).abs() <= near)).all())


@pytest.mark.parametrize("shape", SHAPES)
def test_free_cells(shape: tuple[int, ...]) -> None:
    columns, width, rows, depth, hidden = shape
    assert_solved(made(columns, width, depth, hidden), free(columns, rows))


@pytest.mark.parametrize("kind", ["exact", "gaps"])
def test_exact_cells_stay_as_they_are(kind: str) -> None:
    cells = cells_of(kind, 2, 20)
    found, expected, _ = invert(made(2, 4, 1, 3), cells)
    known = cells.lower.T.isfinite()
    assert torch.equal(found[known], cells.lower.T[known])
    assert torch.allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_within_bounds(shape: tuple[int, ...]) -> None:
    columns, width, rows, depth, hidden = shape
    cells = cells_of("all", columns, rows)
    leaves = made(columns, width, depth, hidden)
    assert_solved(leaves, cells, tolerance=2e-4)
    found, _, _ = invert(leaves, cells)
    lower, upper = cells.by_column()
    assert bool(((found > lower) & (found <= upper))[lower < upper].all())


@pytest.mark.parametrize("weight", [-1.5, 30.0])
def test_flat_and_steep_leaves(weight: float) -> None:
    leaves = made(1, 6, 2, 3)
    with torch.no_grad():
        for raw in leaves.weights:
            raw.mul_(0.3).add_(weight)
        leaves.gates[0].copy_(torch.linspace(-12, 12, 6, device=DEVICE))
    assert_solved(leaves, free(1, 50))


def test_some_columns_in_another_order() -> None:
    leaves = made(4, 5, 1, 3)
    log_u, log_1mu, chosen = question(2, 5, 6)
    within = free(2, 6).renamed([3, 1])
    with kernels.fused(True):
        found = leaves.invert_chosen(log_u, log_1mu, chosen, within)
    expected = twin(leaves).invert_chosen(log_u, log_1mu, chosen, within)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_no_cells() -> None:
    leaves, nothing = made(2, 4, 1, 3), torch.empty(2, 0, device=DEVICE)
    with kernels.fused(True):
        found = leaves.invert_chosen(nothing, nothing, nothing.long(), exact(nothing))
    assert found.shape == (2, 0)


def test_samples_of_a_model_are_those_of_the_plain_form() -> None:
    columns, width = 4, 5
    leaves = Leaves([made(columns, width, 1, 3)], [tuple(range(columns))])
    model = TensorDensity(leaves, HierarchicalTensor(balanced(columns), width)).to(
        DEVICE, torch.float32
    )
    drawn = []
    for on in (True, False):
        seed = torch.Generator(DEVICE).manual_seed(3)
        with kernels.fused(on):
            drawn.append(model.sample(200, {1: (0.0, 1.0), 2: 0.3}, seed))
    assert drawn[0].shape == (200, columns)
    assert torch.allclose(*drawn, rtol=1e-3, atol=1e-3)
