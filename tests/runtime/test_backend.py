"""What a backend chooses, what a query keeps, and what the environment turns off."""

import pytest
import torch

from marginals.runtime.backend import QUERY, Backend
from tests.runtime.helpers import TREES, tensor_of, values_of


@pytest.mark.parametrize("kernels", ["auto", "fused", "plain"])
@pytest.mark.parametrize("environment", [None, "plain"])
@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_kernels_take_float32_on_cuda(
    kernels: str, environment: str | None, cuda: bool, dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    class Like:
        is_cuda = cuda

    Like.dtype = dtype  # type: ignore[attr-defined]
    monkeypatch.setattr("marginals.runtime.backend._has_triton", lambda: True)
    monkeypatch.delenv("MARGINALS_KERNELS", raising=False)
    if environment is not None:
        monkeypatch.setenv("MARGINALS_KERNELS", environment)
    automatic = cuda and environment is None
    expected = {"auto": automatic, "fused": True, "plain": False}[kernels]
    found = Backend(kernels).fuses(Like())  # type: ignore[arg-type]
    assert found == (expected and dtype == torch.float32)
    monkeypatch.setattr("marginals.runtime.backend._has_triton", lambda: False)
    assert not Backend(kernels).fuses(Like())  # type: ignore[arg-type]


def test_a_query_normalises_the_weights_of_a_level_once() -> None:
    tensor = tensor_of(TREES["random"], 3)
    values = values_of(tensor, 2)
    expected = tensor.log_value(values)
    first, second = QUERY.for_query(), QUERY.for_query()
    assert torch.equal(tensor.log_value(values, first), expected)
    assert first.kept
    assert len(first.kept) == len(tensor._plan(values.columns, values.log_values.device).levels)
    with torch.no_grad():
        tensor.raw.add_(torch.randn_like(tensor.raw))
    # Kept within a query, and never from one query to the next.
    assert torch.equal(tensor.log_value(values, first), expected)
    assert torch.equal(tensor.log_value(values, second), tensor.log_value(values))
    assert not torch.allclose(tensor.log_value(values, second), expected)
    assert QUERY.kept is None
