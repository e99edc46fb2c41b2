"""The kernels of training steps on a CPU, in blocks and compiled, against autograd's gradients."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.leaves import NeuralLeaves
from marginals.runtime import kernels
from marginals.runtime.kernels import compiled
from marginals.runtime.kernels import leaf_values_cpu as leaves_plain
from marginals.structure import Tree, balanced, random
from marginals.tensors import HierarchicalTensor
from marginals.tensors.component_tensor import LeafValues
from tests.leaves.cells import exact

TREES = {
    "one": Tree((0,)),
    "two": balanced(2),
    "random": random(7, seed=3),
    "chain": Tree((0, (1, (2, (3, 4))))),
    "pools": Tree(((0, 1, 2), 3, (4, 5))),
}


def leaves_of(depth: int, hidden: int, dtype: torch.dtype) -> NeuralLeaves:
    torch.manual_seed(0)
    leaves = NeuralLeaves(3, 7, depth, hidden).to(dtype)
    with torch.no_grad():
        for parameter in leaves.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        leaves.location.copy_(torch.randn(3))
        leaves.scale.copy_(torch.rand(3) + 0.5)
    return leaves


def cells(rows: int = 11) -> Evidence:
    torch.manual_seed(1)
    x = 3 * torch.randn(3, rows)
    x[0, 2], x[2, 5], x[1, 1] = torch.nan, 1e4, -50.0
    return exact(x)


def by_parameters(model: torch.nn.Module, value: Tensor) -> list[Any]:
    torch.manual_seed(2)
    grad = torch.randn_like(value)
    return list(torch.autograd.grad(value, list(model.parameters()), grad, allow_unused=True))


def same(found: list[Any], expected: list[Any], tolerance: float) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(
        (one is None or not one.numel())
        if other is None
        else float((one - other).norm()) <= tolerance * (1e-6 + float(other.norm()))
        for one, other in pairs
    )


@pytest.mark.parametrize("block", [1 << 18, 40])
@pytest.mark.parametrize(("depth", "hidden"), [(1, 3), (2, 4), (3, 5), (1, 1)])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_leaves_in_a_step(
    dtype: torch.dtype, error: float, depth: int, hidden: int, block: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(leaves_plain, "_BLOCK", block)
    leaves = leaves_of(depth, hidden, dtype)
    expected = leaves.log_values(cells().renamed([2, 0, 1]))
    with kernels.training():
        found = leaves.log_values(cells().renamed([2, 0, 1]))
    assert "_PlainLogValues" in type(found.grad_fn).__name__
    assert torch.allclose(found, expected, rtol=10 * error, atol=10 * error)
    assert same(by_parameters(leaves, found), by_parameters(leaves, expected), 10 * error)


def values_of(tensor: HierarchicalTensor, rows: int = 6) -> LeafValues:
    order = tensor.order(range(tensor.size[0]))
    logs = 5 * torch.randn(len(order), rows, len(tensor.root))
    return LeafValues(order, logs.requires_grad_())


def tensor_of(tree: Tree, parametrisation: Any, width: int = 5) -> HierarchicalTensor:
    torch.manual_seed(0)
    tensor = HierarchicalTensor(tree, width, parametrisation=parametrisation)
    with torch.no_grad():
        for parameter in tensor.parameters():
            parameter.add_(torch.randn_like(parameter))
    return tensor


@pytest.mark.parametrize("parametrisation", ["softmax", "softplus"])
@pytest.mark.parametrize("name", list(TREES))
def test_the_tree_in_a_step(name: str, parametrisation: str) -> None:
    tensor = tensor_of(TREES[name], parametrisation)
    values = values_of(tensor)
    expected = tensor.log_value(values)
    with kernels.training():
        found = tensor.log_value(values)
    assert "_LogValue" in type(found.grad_fn).__name__
    assert torch.allclose(found, expected, rtol=1e-12)
    assert same(by_parameters(tensor, found), by_parameters(tensor, expected), 1e-10)
    by_leaf = torch.autograd.grad(tensor.log_value(values).sum(), values.log_values)
    with kernels.training():
        mine = torch.autograd.grad(tensor.log_value(values).sum(), values.log_values)
    assert same(list(mine), list(by_leaf), 1e-10)


def test_sums_that_underflow_take_the_exact_form() -> None:
    tensor = tensor_of(Tree(((0, 1), 2)), "softmax", 4)
    values = values_of(tensor, 3)
    with torch.no_grad():
        tensor.raw.fill_(-900.0)
        tensor.raw[:, :, 0] = 0.0
        values.log_values[:2, :, 0] = -2000.0
    with kernels.training():
        found = tensor.log_value(values)
    assert torch.allclose(found, tensor.log_value(values), rtol=1e-12)
    assert "_LogValue" not in type(found.grad_fn).__name__


def test_weights_that_underflow_take_the_exact_form() -> None:
    tensor = tensor_of(Tree(((0, 1), 2)), "softplus", 4)
    values = values_of(tensor, 3)
    with torch.no_grad():
        tensor.raw.sub_(60.0)  # e^-1200
    with kernels.training():
        found = tensor.log_value(values)
    assert torch.allclose(found, tensor.log_value(values), rtol=1e-12)


def test_a_second_pass_is_refused() -> None:
    tensor = tensor_of(balanced(4), "softmax")
    with kernels.training():
        out = tensor.log_value(values_of(tensor)).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        out.backward()


# Compiled -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not compiled.has_compiler(), reason="There is no C++ compiler.")
def test_compiled_steps_are_the_same() -> None:
    leaves = leaves_of(1, 3, torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler's own
        with kernels.training(), compiled.compiling(True):
            found = leaves.log_values(cells())
            by_found = by_parameters(leaves, found)
    assert compiled._Broken.functions == set()
    expected = leaves.log_values(cells())
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert same(by_found, by_parameters(leaves, expected), 1e-4)


def test_what_fails_to_compile_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: Any) -> Any:
        raise RuntimeError("no compiler\nand more")

    def double(x: Tensor) -> Tensor:
        return 2 * x

    monkeypatch.setattr(compiled, "_compiled", broken)
    monkeypatch.setattr(compiled._Broken, "functions", set())
    with compiled.compiling(True):
        with pytest.warns(RuntimeWarning, match="Compiling double for the CPU failed.*no compiler"):
            assert float(compiled.call(double, torch.ones(()))) == 2.0
        assert not compiled.can_call(double)


def test_compiling_belongs_to_a_block() -> None:
    assert not compiled.is_compiling()
    with compiled.compiling(True):
        assert compiled.is_compiling() == compiled.has_compiler()
    assert not compiled.is_compiling()


def test_short_fits_are_not_compiled() -> None:
    large = 500 * 43 * 1000 * 3
    assert not compiled.worth_compiling(large, 20_000, seconds=10.0)
    assert not compiled.worth_compiling(1000, 20_000)
    assert compiled.worth_compiling(large, 20_000)
    assert compiled.worth_compiling(large, 20_000, seconds=600.0)
