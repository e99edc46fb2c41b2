"""The fused leaves against the plain ones in float64: values and every gradient."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.leaves import NeuralLeaves
from marginals.runtime import kernels
from tests.leaves.cells import cells, exact

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Columns, components, rows, layers, units: sizes that are no multiples of a tile, and one row.
SHAPES = [(2, 10, 7, 1, 3), (1, 130, 1, 1, 3), (2, 5, 9, 2, 4), (1, 3, 20, 3, 5), (3, 1, 4, 1, 1)]


def made(columns: int, width: int, depth: int, hidden: int, spread: float = 0.5) -> NeuralLeaves:
    torch.manual_seed(0)
    leaves = NeuralLeaves(columns, width, depth, hidden)
    with torch.no_grad():
        for parameter in leaves.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
        leaves.location.copy_(torch.randn(columns))
        leaves.scale.copy_(torch.rand(columns) + 0.5)
    return leaves.to(DEVICE, torch.float32)


def twin(leaves: NeuralLeaves) -> NeuralLeaves:
    copy = NeuralLeaves(**leaves.config()).to(DEVICE)
    copy.load_state_dict(leaves.state_dict())
    return copy.double()


def cells_of(kind: str, columns: int, rows: int) -> Evidence:
    """Exact cells, gaps, intervals of all lengths, open ends, or all of these at once."""
    torch.manual_seed(1)
    upper = 2 * torch.randn(columns, rows, dtype=torch.float64)
    lower = upper.clone()
    here = torch.arange(rows).expand(columns, -1)
    if kind in ("intervals", "all"):
        lower = torch.where(here % 3 == 0, upper - 10.0 ** (-(here % 5)), lower)
        lower = torch.where(here % 7 == 1, -torch.inf, lower)
        upper = torch.where(here % 7 == 4, torch.inf, upper)
    if kind in ("gaps", "all"):
        gone = (here + torch.arange(columns)[:, None]) % 3 == 1
        lower, upper = (torch.where(gone, torch.nan, side) for side in (lower, upper))
    lower, upper = lower.to(DEVICE), upper.to(DEVICE)
    if kind in ("exact", "gaps"):
        return exact(upper)
    return cells(lower, upper)


def parameters(leaves: NeuralLeaves) -> list[Tensor]:
    return [*leaves.weights, *leaves.biases, *leaves.gates]


def compare(leaves: NeuralLeaves, evidence: Evidence, tolerance: float = 1e-5) -> None:
    wide = twin(leaves)
    expected = wide.log_values(evidence)
    with kernels.fused(True):
        found = leaves.log_values(evidence)
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    rounding = tolerance * (1 + expected.abs())
    assert bool(((found.double() - expected).abs() <= rounding).all())
    grad = torch.randn(expected.shape, dtype=torch.float64, device=DEVICE)
    by_exact = torch.autograd.grad(expected, parameters(wide), grad)
    by_found = torch.autograd.grad(found, parameters(leaves), grad.float())
    for one, other in zip(by_found, by_exact, strict=True):
        assert float((one - other).norm()) <= 10 * tolerance * (1e-3 + float(other.norm()))


@pytest.mark.parametrize("kind", ["exact", "gaps", "intervals", "all"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(shape: tuple[int, ...], kind: str) -> None:
    columns, width, rows, depth, hidden = shape
    compare(made(columns, width, depth, hidden), cells_of(kind, columns, rows))


def test_far_out_there_is_a_value_and_a_gradient() -> None:
    x = torch.tensor([[-1e6, -50.0, 50.0, 1e4]], dtype=torch.float64, device=DEVICE)
    compare(made(1, 6, 1, 3), exact(x))


def test_an_infinite_value_has_no_density() -> None:
    x = torch.tensor([[torch.inf, -torch.inf, 0.0]], dtype=torch.float64, device=DEVICE)
    leaves = made(1, 4, 1, 3)
    with kernels.fused(True):
        found = leaves.log_values(exact(x))
    assert bool((found[:, :2] == -torch.inf).all())
    (grad,) = torch.autograd.grad(found[:, 2].sum() + 0 * found[:, 2].sum(), [leaves.biases[0]])
    assert bool(grad.isfinite().all())


def test_flat_networks_keep_their_slope() -> None:
    leaves = made(1, 5, 2, 3)
    with torch.no_grad():
        for weight in leaves.weights:
            weight.sub_(30.0)  # weights of e^-300 each
    x = torch.linspace(-3, 3, 5, dtype=torch.float64, device=DEVICE)[None]
    compare(leaves, exact(x))


def test_gates_at_their_ends() -> None:
    leaves = made(1, 6, 1, 3)
    with torch.no_grad():
        leaves.gates[0].copy_(torch.tensor([-12.0, -6.0, 0.0, 6.0, 12.0, 3.0], device=DEVICE))
    compare(leaves, cells_of("all", 1, 12), tolerance=5e-5)


def test_some_columns_in_another_order() -> None:
    leaves = made(4, 5, 1, 3)
    evidence = cells_of("gaps", 2, 6).renamed([3, 1])
    with kernels.fused(True):
        found = leaves.log_values(evidence)
    expected = twin(leaves).log_values(evidence)
    assert torch.allclose(found.double(), expected, atol=1e-5)


def test_cells_laid_out_by_row() -> None:
    leaves, by_column = made(3, 4, 1, 3), cells_of("all", 3, 8)
    by_row = replace(by_column, lower=by_column.lower.contiguous())
    with kernels.fused(True):
        assert torch.equal(leaves.log_values(by_row), leaves.log_values(by_column))


def test_no_rows() -> None:
    leaves = made(2, 4, 1, 3)
    x = torch.empty(2, 0, device=DEVICE)
    with kernels.fused(True):
        found = leaves.log_values(exact(x))
    assert found.shape == (2, 0, 4)
    assert all(not g.any() for g in torch.autograd.grad(found.sum(), parameters(leaves)))


def test_float64_and_gradients_of_cells_take_the_plain_form() -> None:
    leaves = made(1, 3, 1, 3)
    x = torch.zeros(1, 2, device=DEVICE, requires_grad=True)
    with kernels.fused(True):
        assert not kernels.use_fused(twin(leaves).biases[0])
        value = leaves.log_values(exact(x))
    (by_x,) = torch.autograd.grad(value.sum(), [x])
    assert bool(by_x.any())
