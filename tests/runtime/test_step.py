"""A whole training step by fused kernels against autograd's in float64."""

import pytest
import torch

from marginals import Evidence, build
from marginals.densities.tensor_density import TensorDensity
from marginals.numerics import host_free
from marginals.runtime import kernels
from marginals.runtime.kernels.leaf_values import is_recomputed

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rows(columns: int) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(9, columns, device=DEVICE)
    x[::3, 0] = torch.nan
    return x.float()


def made(x: torch.Tensor, dtype: torch.dtype, init: str) -> TensorDensity:
    model = build(x, width=6, tree="random", init=init, dtype=dtype)  # type: ignore[arg-type]
    assert isinstance(model, TensorDensity)
    return model


@pytest.mark.parametrize("init", ["data", "paper"])
@pytest.mark.parametrize("columns", [2, 5, 7])
def test_a_step_is_that_of_autograd(columns: int, init: str) -> None:
    x = rows(columns)
    model, exact = (made(x, dtype, init) for dtype in (torch.float32, torch.float64))
    exact.load_state_dict(model.state_dict())
    expected = exact.contract(Evidence.exact(x.double()))
    by_exact = torch.autograd.grad(expected.sum(), list(exact.parameters()), allow_unused=True)
    with kernels.fused(True), host_free(), kernels.training("full"):
        found = model.contract(Evidence.exact(x))
    by_found = torch.autograd.grad(found.sum(), list(model.parameters()), allow_unused=True)
    assert torch.allclose(found.double(), expected, atol=1e-4, rtol=1e-5)
    for one, other in zip(by_found, by_exact, strict=True):
        if one is not None and other is not None:
            assert float((one - other).norm()) <= 1e-4 * (1e-3 + float(other.norm()))


def test_gradients_take_the_place_of_values_that_are_not_needed() -> None:
    x = rows(4)
    model = made(x, torch.float32, "data")
    with kernels.fused(True), host_free(), kernels.training("full"):
        values = model._values(Evidence.exact(x), range(4))
        assert is_recomputed(values.log_values)
        out = model.tensor.log_value(values)
    assert out.grad_fn is not None
    assert out.grad_fn.overwrites
    before = values.log_values.detach().clone()
    out.sum().backward()
    assert not torch.equal(values.log_values, before)
