"""The fused contraction against the plain one in float64: values and every gradient."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from marginals.runtime.backend import Backend
from marginals.runtime.kernels import tree_contraction
from marginals.structure import Tree, balanced
from marginals.tensors import HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues
from tests.runtime.helpers import (
    FUSED,
    TREES,
    assert_same_gradients,
    doubled,
    gradients,
    tensor_of,
    twin,
    values_of,
)

pytest.importorskip("triton")
STEP = replace(FUSED, host_free=True)
# The relative error of a product's sum, see `product`.
ERRORS = {"full": 2e-6, "tf32": 2e-3, "bf16x3": 1e-4}
SIZES = [
    ("random", 1, 3),
    ("random", 5, 1),
    ("random", 13, 4),
    *((t, 5, 2) for t in TREES if t != "random"),
]


def compare_step(
    name: str, width: int, rows: int, parametrisation: str, precision: Any = "full"
) -> None:
    tensor, error = tensor_of(TREES[name], width, parametrisation).float(), ERRORS[precision]
    values = values_of(tensor, rows)
    exact, same = twin(tensor), doubled(values)
    expected = exact.log_value(same)
    found = tensor.log_value(values, replace(STEP, precision=precision))
    assert "_LogValue" in type(found.grad_fn).__name__
    assert bool(((found - expected).abs() <= 3 * error * (1 + expected.abs())).all())
    by_found = gradients(found, values.log_values, tensor)
    assert_same_gradients(by_found, gradients(expected, same.log_values, exact), error)


@pytest.mark.parametrize("parametrisation", ["softmax", "softplus"])
@pytest.mark.parametrize(("name", "width", "rows"), SIZES)
def test_a_training_step(name: str, width: int, rows: int, parametrisation: str) -> None:
    compare_step(name, width, rows, parametrisation)


@pytest.mark.parametrize("precision", ["tf32", "bf16x3"])
def test_a_training_step_in_lower_precision(precision: str) -> None:
    compare_step("random", 13, 2, "softplus", precision)


def test_a_training_step_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large weights go back in pieces of few nodes."""
    monkeypatch.setattr(tree_contraction, "_FEW_WEIGHTS", 0)
    for name in ("six", "random"):  # nodes as slices, and as indices
        compare_step(name, 5, 2, "softmax")


@pytest.mark.parametrize("columns", [(0,), (1, 4), (6, 2, 3), range(7)])
def test_a_query_of_some_columns(columns: Any) -> None:
    tensor = tensor_of(TREES["random"], 6).float()
    values = values_of(tensor, 4, columns)
    with torch.no_grad():
        found = tensor.log_value(values, FUSED)
    expected = twin(tensor).log_value(doubled(values))
    assert torch.allclose(found.double(), expected, atol=1e-5)


def underflowing() -> tuple[HierarchicalTensor, LeafValues]:
    """Return a tensor and values in which all weight meets what is almost impossible."""
    tensor = tensor_of(Tree(((0, 1), 2)), 4).float()
    values = values_of(tensor, 3)
    with torch.no_grad():
        tensor.raw.fill_(-200.0)
        tensor.raw[:, :, 0] = 0.0
        values.log_values[:2, :, 0] = -500.0
    return tensor, values


def test_sums_that_underflow() -> None:
    """A query computes them exactly; a training step gets finite values and gradients."""
    tensor, values = underflowing()
    with torch.no_grad():
        found = tensor.log_value(values, FUSED)
    assert torch.allclose(found.double(), twin(tensor).log_value(doubled(values)), rtol=1e-6)
    out = tensor.log_value(values, STEP)
    for part in (out, *gradients(out, values.log_values, tensor)):
        assert part is not None
        assert bool(part.isfinite().all())


def test_impossible_and_undefined_rows_do_not_spoil_the_others() -> None:
    tensor = tensor_of(balanced(4), 5).float()
    values = values_of(tensor, 3)
    with torch.no_grad():
        values.log_values[0, 1] = -torch.inf
    by_leaf, *by_weight = gradients(tensor.log_value(values, STEP), values.log_values, tensor)
    assert all(g is not None and bool(g.isfinite().all()) for g in by_weight)
    assert by_leaf is not None
    assert bool(by_leaf[:, [0, 2]].isfinite().all())
    with torch.no_grad():
        values.log_values[1, 2, 3] = torch.nan
    assert tensor.log_value(values, STEP).isnan().tolist() == [False, False, True]


@pytest.mark.parametrize("backend", [STEP, Backend(precision="full")], ids=["fused", "cpu"])
def test_a_second_backward_pass_is_refused(backend: Backend) -> None:
    tensor = tensor_of(balanced(4), 3).float()
    out = tensor.log_value(values_of(tensor, 2), backend).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        out.backward()
