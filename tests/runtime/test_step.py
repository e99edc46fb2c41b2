"""A whole training step by fused kernels against autograd in float64."""

import pytest
import torch

from marginals import Evidence, build
from marginals.densities.tensor_density import TensorDensity
from marginals.runtime.backend import Backend
from marginals.runtime.kernels.leaf_values import is_recomputed
from tests.runtime.helpers import DEVICE, assert_same_gradients, gradients

pytest.importorskip("triton")
STEP = Backend("fused", precision="full", host_free=True)


def rows(columns: int) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(4, columns, device=DEVICE)
    x[::3, 0] = torch.nan
    return x.float()


def model_of(x: torch.Tensor, dtype: torch.dtype, init: str) -> TensorDensity:
    model = build(x, width=6, tree="random", init=init, dtype=dtype)  # type: ignore[arg-type]
    assert isinstance(model, TensorDensity)
    return model


@pytest.mark.parametrize(("columns", "init"), [(2, "paper"), (4, "data")])
def test_a_step_equals_autograd(columns: int, init: str) -> None:
    x = rows(columns)
    model, exact = (model_of(x, dtype, init) for dtype in (torch.float32, torch.float64))
    exact.load_state_dict(model.state_dict())
    expected = exact.contract(Evidence.exact(x.double()))
    found = model.contract(Evidence.exact(x), STEP)
    assert torch.allclose(found.double(), expected, atol=1e-4, rtol=1e-5)
    assert_same_gradients(gradients(found, model), gradients(expected, exact), 1e-5)


def test_gradients_overwrite_values_that_are_recomputed() -> None:
    x = rows(3)
    model = model_of(x, torch.float32, "data")
    values = model._values(Evidence.exact(x), range(3), STEP)
    assert is_recomputed(values.log_values)
    out = model.tensor.log_value(values, STEP)
    assert out.grad_fn is not None
    assert out.grad_fn.overwrites
    before = values.log_values.detach().clone()
    out.sum().backward()
    assert not torch.equal(values.log_values, before)
