"""The precision of products is the one in their docstring."""

from typing import Any

import pytest
import torch

from marginals.runtime.kernels.products import product
from tests.runtime.helpers import DEVICE


@pytest.mark.parametrize(
    ("precision", "error"), [("full", 2.0**-20), ("tf32", 2.0**-10), ("bf16x3", 2.0**-15)]
)
def test_the_relative_error_of_sums_of_nonnegative_terms(precision: Any, error: float) -> None:
    torch.manual_seed(0)
    left, right = (torch.rand(2, *size, device=DEVICE).float() for size in [(5, 33), (33, 7)])
    left[0] *= torch.rand(33, device=DEVICE) ** 20  # few terms that count
    expected = left.double() @ right.double()
    out = torch.empty(2, 5, 7, dtype=torch.float32, device=DEVICE)
    for found in (product(left, right, precision), product(left, right, precision, out=out)):
        assert float(((found - expected) / expected).abs().max()) <= error


def test_an_older_torch_raises_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnCuda(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(torch, "bmm", lambda left, right: left @ right)
    ones = torch.ones(1, 1, 1).as_subclass(OnCuda)
    with pytest.raises(ValueError, match=r"`products`.*'bf16x3'"):
        product(ones, ones, "bf16x3")
