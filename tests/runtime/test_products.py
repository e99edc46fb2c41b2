"""The precision of products is what their docstring states."""

import pytest
import torch

from marginals.runtime.kernels import precision_in_training, product, training
from marginals.runtime.kernels.products import _wide_product

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    ("precision", "error"), [("full", 2.0**-20), ("tf32", 2.0**-10), ("bf16x3", 2.0**-15)]
)
def test_the_relative_error_of_sums_of_nonnegative_terms(precision: str, error: float) -> None:
    torch.manual_seed(0)
    left, right = (torch.rand(2, *size, device=DEVICE).float() for size in [(5, 33), (33, 7)])
    left[0] *= torch.rand(33, device=DEVICE) ** 20  # few terms that count
    expected = left.double() @ right.double()
    out = torch.empty(2, 5, 7, dtype=torch.float32, device=DEVICE)
    for found in (
        product(left, right, precision),  # type: ignore[arg-type]
        product(left, right, precision, out=out),  # type: ignore[arg-type]
    ):
        assert float(((found - expected) / expected).abs().max()) <= error


def test_the_precision_belongs_to_a_block() -> None:
    assert precision_in_training() is None
    with training("tf32"):
        with training("bf16x3"):
            assert precision_in_training() == "bf16x3"
        assert precision_in_training() == "tf32"
    assert precision_in_training() is None


def test_an_older_torch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right

    monkeypatch.setattr(torch, "bmm", older)
    with pytest.raises(ValueError, match=r"`products`.*'bf16x3'"):
        _wide_product(torch.ones(1, 1, 1), torch.ones(1, 1, 1))
