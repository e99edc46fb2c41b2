"""How a contraction runs: one object, passed from a fit or a query down to the numerics."""

import importlib.util
import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Literal, final

import torch
from torch import Tensor

from marginals.runtime.kernels.products import Precision


@final
@dataclass(frozen=True, repr=False)
class Backend:
    """The choices that decide how a contraction is computed, but not what it computes.

    Args:
        kernels: "fused" Triton kernels, "plain" tensor operations, or "auto": fused for float32 on
            a CUDA device, unless the environment sets `MARGINALS_KERNELS=plain`.
        precision: the precision of matrix products in a training step, which promises a single
            first-order backward pass; None outside training.
        host_free: never branch on numbers of the device, as a recorded CUDA graph requires.
        compiled: run the hand-written CPU kernels of a training step through `torch.compile`.
        kept: normalised weights kept for the rest of one query; None keeps nothing.

    >>> Backend(precision="tf32", host_free=True)
    Backend(precision='tf32', host_free=True)
    """

    kernels: Literal["auto", "fused", "plain"] = "auto"
    precision: Precision | None = None
    host_free: bool = False
    compiled: bool = False
    kept: dict[Hashable, Tensor] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        chosen = [f for f in fields(self) if f.compare and getattr(self, f.name) != f.default]
        return f"Backend({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in chosen)})"

    def fuses(self, like: Tensor) -> bool:
        """Return whether tensors like this one go to the fused kernels.

        On a CPU, "fused" needs Triton's interpreter.

        >>> Backend().fuses(torch.zeros(1))
        False
        """
        if self.kernels == "plain" or like.dtype != torch.float32 or not _has_triton():
            return False
        if self.kernels == "fused":
            return True
        return like.is_cuda and os.environ.get("MARGINALS_KERNELS") != "plain"

    def for_query(self) -> "Backend":
        """Return a backend that keeps weights for the batches of one query, with none kept yet."""
        return replace(self, kept={})

    def keep(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return `make()`, computed once per key and query if weights are kept."""
        if self.kept is None:
            return make()
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]


QUERY = Backend()
"""The default: exact, differentiable any number of times, on any device."""


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
