"""The hand-written CPU kernels of a training step, eager and compiled, against autograd."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.runtime.backend import Backend
from marginals.runtime.kernels import compiled, leaf_values_cpu
from marginals.structure import Tree
from tests.leaves.cells import exact
from tests.runtime.helpers import (
    DEVICE,
    TREES,
    assert_same_gradients,
    gradients,
    leaves_of,
    tensor_of,
    values_of,
)

STEP = Backend("plain", precision="full")


def some_cells() -> Evidence:
    torch.manual_seed(1)
    x = 3 * torch.randn(3, 11)
    x[0, 2], x[2, 5], x[1, 1] = torch.nan, 1e4, -50.0
    return exact(x.to(DEVICE), [2, 0, 1])


def compare_leaves(leaves: Any, backend: Backend, error: float) -> None:
    expected = leaves.log_values(some_cells())
    found = leaves.log_values(some_cells(), backend)
    assert "_LogValues" in type(found.grad_fn).__name__
    assert torch.allclose(found, expected, rtol=10 * error, atol=10 * error)
    assert_same_gradients(gradients(found, leaves), gradients(expected, leaves), error)


@pytest.mark.parametrize("block", [1 << 18, 40])
@pytest.mark.parametrize(("depth", "hidden"), [(1, 3), (2, 4), (3, 5), (1, 1)])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_leaves(
    dtype: torch.dtype, error: float, depth: int, hidden: int, block: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(leaf_values_cpu, "_BLOCK", block)
    leaves = leaves_of(3, 7, depth, hidden).to(dtype)
    compare_leaves(leaves, STEP, error)
    compare_leaves(leaves, Backend("plain", precision="full", host_free=True), error)


@pytest.mark.parametrize("parametrisation", ["softmax", "softplus"])
@pytest.mark.parametrize("name", list(TREES))
def test_tree(name: str, parametrisation: str) -> None:
    tensor = tensor_of(TREES[name], 5, parametrisation)
    values = values_of(tensor, 6)
    expected, found = tensor.log_value(values), tensor.log_value(values, STEP)
    assert "_LogValue" in type(found.grad_fn).__name__
    assert torch.allclose(found, expected, rtol=1e-12)
    both = [gradients(out, values.log_values, tensor) for out in (found, expected)]
    assert_same_gradients(*both, 1e-11)


@pytest.mark.parametrize("parametrisation", ["softmax", "softplus"])
def test_sums_and_weights_that_underflow_take_the_exact_form(parametrisation: str) -> None:
    tensor = tensor_of(Tree(((0, 1), 2)), 4, parametrisation)
    values = values_of(tensor, 3)
    with torch.no_grad():
        if parametrisation == "softplus":
            tensor.raw.sub_(60.0)  # all weights are e^-1200
        else:
            tensor.raw.fill_(-900.0)
            tensor.raw[:, :, 0] = 0.0
            values.log_values[:2, :, 0] = -2000.0
    found = tensor.log_value(values, STEP)
    assert torch.allclose(found, tensor.log_value(values), rtol=1e-12)
    assert "_LogValue" not in type(found.grad_fn).__name__


# Compiled -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not compiled.has_compiler(), reason="There is no C++ compiler.")
def test_compiled_steps_are_the_same() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        backend = Backend("plain", precision="full", compiled=True)
        compare_leaves(leaves_of(3, 7, 1, 3).float(), backend, 1e-5)
    assert not compiled._FAILED


def test_what_fails_to_compile_runs_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: Any) -> Any:
        raise RuntimeError("no compiler\nand more")

    def double(x: Tensor) -> Tensor:
        return 2 * x

    monkeypatch.setattr(compiled, "_compiled", broken)
    monkeypatch.setattr(compiled, "_FAILED", set())
    with pytest.warns(RuntimeWarning, match="Could not compile double for the CPU.*no compiler"):
        assert float(compiled.call(double, torch.ones(()), compiled=True)) == 2.0
    assert not compiled.compiles(double)
    assert float(compiled.call(double, torch.ones(()), compiled=True)) == 2.0


def test_short_fits_are_not_compiled() -> None:
    large = 500 * 43 * 1000 * 3
    assert not compiled.worth_compiling(large, 20_000, seconds=10.0)
    assert not compiled.worth_compiling(1000, 20_000)
    assert compiled.worth_compiling(large, 20_000)
    assert compiled.worth_compiling(large, 20_000, seconds=600.0)
