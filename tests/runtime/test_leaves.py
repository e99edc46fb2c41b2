"""The fused leaves against the plain ones in float64: values and every gradient."""

from dataclasses import replace

import pytest
import torch

from marginals.cells import Evidence
from marginals.leaves import NeuralLeaves
from tests.leaves.cells import exact
from tests.runtime.helpers import (
    DEVICE,
    FUSED,
    assert_same_gradients,
    cells_of,
    gradients,
    leaves_of,
    twin,
)

pytest.importorskip("triton")
# Columns, components, rows, layers, units: more than a tile of components, one row, more rows than
# one program takes, three layers, one unit.
SHAPES = [(2, 10, 8, 1, 3), (1, 130, 1, 1, 3), (1, 3, 17, 3, 2), (3, 1, 7, 1, 1)]


def compare(leaves: NeuralLeaves, evidence: Evidence, error: float = 1e-5) -> None:
    wide = twin(leaves)
    expected, found = wide.log_values(evidence), leaves.log_values(evidence, FUSED)
    assert "_LogValues" in type(found.grad_fn).__name__
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    assert bool(((found.double() - expected).abs() <= error * (1 + expected.abs())).all())
    assert_same_gradients(gradients(found, leaves), gradients(expected, wide), error)


@pytest.mark.parametrize("kind", ["gaps", "all"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape: tuple[int, ...], kind: str) -> None:
    columns, width, rows, depth, hidden = shape
    compare(leaves_of(columns, width, depth, hidden).float(), cells_of(kind, columns, rows))


def test_extreme_cells_and_networks() -> None:
    """Rows far out, weights of e^-300, and gates at their ends."""
    far = torch.tensor([[-1e6, -50.0, 50.0, 1e4]], dtype=torch.float64, device=DEVICE)
    compare(leaves_of(1, 6, 1, 3).float(), exact(far))
    flat = leaves_of(1, 5, 2, 2).float()
    with torch.no_grad():
        for weight in flat.weights:
            weight.sub_(30.0)
    x = torch.linspace(-3, 3, 5, dtype=torch.float64, device=DEVICE)[None]
    compare(flat, exact(x))
    bent = leaves_of(1, 6, 1, 3).float()
    with torch.no_grad():
        bent.gates[0].copy_(torch.tensor([-12.0, -6.0, 0.0, 6.0, 12.0, 3.0], device=DEVICE))
    compare(bent, cells_of("all", 1, 8), error=5e-5)


def test_an_infinite_value_has_no_density() -> None:
    x = torch.tensor([[torch.inf, -torch.inf, 0.0]], dtype=torch.float64, device=DEVICE)
    leaves = leaves_of(1, 4, 1, 3).float()
    found = leaves.log_values(exact(x), FUSED)
    assert bool((found[:, :2] == -torch.inf).all())
    (grad,) = torch.autograd.grad(found[:, 2].sum() + 0 * found[:, 2].sum(), [leaves.biases[0]])
    assert bool(grad.isfinite().all())


def test_columns_and_cells_in_another_order() -> None:
    leaves, evidence = leaves_of(4, 5, 1, 3).float(), cells_of("all", 2, 6).renamed([3, 1])
    found = leaves.log_values(evidence, FUSED)
    assert torch.allclose(found.double(), twin(leaves).log_values(evidence), atol=1e-5)
    by_row = replace(evidence, lower=evidence.lower.contiguous())
    assert torch.equal(leaves.log_values(by_row, FUSED), found)


def test_no_rows() -> None:
    leaves, x = leaves_of(2, 4, 1, 3).float(), torch.empty(2, 0, device=DEVICE)
    found = leaves.log_values(exact(x), FUSED)
    assert found.shape == (2, 0, 4)
    assert all(g is not None and not g.any() for g in gradients(found, leaves))


def test_gradients_of_cells_take_the_plain_form() -> None:
    leaves = leaves_of(1, 3, 1, 3).float()
    x = torch.zeros(1, 2, device=DEVICE, requires_grad=True)
    (by_x,) = torch.autograd.grad(leaves.log_values(exact(x), FUSED).sum(), [x])
    assert bool(by_x.any())
