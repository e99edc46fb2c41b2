"""The fused contraction against the plain one in float64: values and every gradient."""

from typing import Any

import pytest
import torch

from marginals.numerics import host_free
from marginals.runtime import kernels
from marginals.structure import Tree, balanced, random
from marginals.tensors import HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TREES = {
    "one": Tree((0,)),
    "two": balanced(2),
    "six": balanced(6),
    "random": random(7, seed=3),
    "chain": Tree((0, (1, (2, (3, 4))))),
    "pools": Tree(((0, 1, 2), 3, (4, 5))),
}
# The relative error of a product's sum, see `kernels.product`.
ERRORS = {"full": 2e-6, "tf32": 2e-3, "bf16x3": 1e-4}


def made(tree: Tree, width: int, parametrisation: str = "softmax") -> HierarchicalTensor:
    torch.manual_seed(0)
    tensor = HierarchicalTensor(tree, width, parametrisation=parametrisation)
    with torch.no_grad():
        for parameter in tensor.parameters():
            parameter.add_(torch.randn_like(parameter))
    return tensor.to(DEVICE, torch.float32)


def twin(tensor: HierarchicalTensor) -> HierarchicalTensor:
    how: Any = tensor.parametrisation
    copy = HierarchicalTensor(tensor.tree, len(tensor.root), parametrisation=how).to(DEVICE)
    copy.load_state_dict(tensor.state_dict())
    return copy.double()


def values_of(tensor: HierarchicalTensor, rows: int, columns: Any = None) -> LeafValues:
    every = range(tensor.size[0]) if columns is None else columns
    order = tensor.order(every)
    logs = 5 * torch.randn(
        len(order), rows, len(tensor.root), dtype=tensor.root.dtype, device=DEVICE
    )
    return LeafValues(order, logs.requires_grad_())


def doubled(values: LeafValues) -> LeafValues:
    return LeafValues(values.columns, values.log_values.detach().double().requires_grad_())


def grads(out: Any, values: LeafValues, tensor: HierarchicalTensor) -> list[Any]:
    torch.manual_seed(2)
    weight = torch.rand(len(out), device=DEVICE).to(out.dtype)
    wanted = [values.log_values, *tensor.parameters()]
    return list(torch.autograd.grad(out, wanted, weight, allow_unused=True))


@pytest.mark.parametrize("precision", list(ERRORS))
@pytest.mark.parametrize("parametrisation", ["softmax", "softplus"])
@pytest.mark.parametrize(("width", "rows"), [(1, 3), (5, 1), (13, 6)])
@pytest.mark.parametrize("name", list(TREES))
def test_a_training_step(
    name: str, width: int, rows: int, parametrisation: str, precision: Any
) -> None:
    tensor = made(TREES[name], width, parametrisation)
    values, error = values_of(tensor, rows), ERRORS[precision]
    exact, same = twin(tensor), doubled(values)
    expected = exact.log_value(same)
    with kernels.fused(True), host_free(), kernels.training(precision):
        found = tensor.log_value(values)
    assert bool(((found - expected).abs() <= 3 * error * (1 + expected.abs())).all())
    for one, other in zip(grads(found, values, tensor), grads(expected, same, exact), strict=True):
        if other is not None:
            assert float((one - other).norm()) <= 10 * error * (1e-2 + float(other.norm()))


@pytest.mark.parametrize("columns", [(0,), (1, 4), (6, 2, 3), range(7)])
def test_a_query_of_some_columns(columns: Any) -> None:
    tensor = made(TREES["random"], 6)
    values = values_of(tensor, 4, columns)
    with kernels.fused(True), torch.no_grad():
        found = tensor.log_value(values)
    expected = twin(tensor).log_value(doubled(values))
    assert torch.allclose(found.double(), expected, atol=1e-5)


def test_a_query_whose_sums_underflow_is_exact() -> None:
    tensor = made(Tree(((0, 1), 2)), 4)
    values = values_of(tensor, 3)
    with torch.no_grad():
        tensor.raw.fill_(-200.0)
        tensor.raw[:, :, 0] = 0.0
        values.log_values[:2, :, 0] = -500.0  # all weight meets what is all but impossible
    expected = twin(tensor).log_value(doubled(values))
    with kernels.fused(True), torch.no_grad():
        found = tensor.log_value(values)
    assert torch.allclose(found.double(), expected, rtol=1e-6)


def test_a_step_whose_sums_underflow_has_a_finite_gradient() -> None:
    tensor = made(Tree(((0, 1), 2)), 4)
    values = values_of(tensor, 3)
    with torch.no_grad():
        tensor.raw.fill_(-200.0)
        tensor.raw[:, :, 0] = 0.0
        values.log_values[:2, :, 0] = -500.0
    with kernels.fused(True), host_free():
        out = tensor.log_value(values)
    assert bool(out.isfinite().all())
    assert all(bool(g.isfinite().all()) for g in grads(out, values, tensor))


def test_an_impossible_row_does_not_spoil_the_others() -> None:
    tensor = made(balanced(4), 5)
    values = values_of(tensor, 3)
    with torch.no_grad():
        values.log_values[0, 1] = -torch.inf
    with kernels.fused(True), host_free():
        out = tensor.log_value(values)
    found = grads(out, values, tensor)
    assert all(bool(g.isfinite().all()) for g in found[1:])
    assert bool(found[0][:, [0, 2]].isfinite().all())


def test_what_is_not_a_number_stays_so() -> None:
    tensor = made(balanced(4), 5)
    values = values_of(tensor, 3)
    with torch.no_grad():
        values.log_values[1, 2, 3] = torch.nan
    with kernels.fused(True), host_free():
        out = tensor.log_value(values)
    assert out.isnan().tolist() == [False, False, True]


def test_one_backward_pass_only() -> None:
    tensor = made(balanced(4), 3)
    values = values_of(tensor, 2)
    with kernels.fused(True), host_free():
        out = tensor.log_value(values)
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        out.sum().backward()
