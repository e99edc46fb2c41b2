"""Values that depend on parameters alone, kept from query to query while the parameters stay."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, final

import torch
from torch import Tensor

Value = TypeVar("Value")

# Parameters with more numbers are not compared: computing from them is fast by comparison.
_MOST_NUMBERS = 1 << 18
# Values kept at a time, such as one for each set of columns.
_MOST_VALUES = 256


@final
class Derived:
    """Values derived from the same parameters, such as networks with constrained weights.

    A copy of the parameters is compared with them on every access, which takes a few microseconds.
    No way to change parameters, whether by training, loading or hand, leaves a stale value.
    Nothing is kept with gradients, on other devices than a CPU, or from large parameters.

    Args:
        most: the number of values to keep at a time.

    >>> raw, made = torch.zeros(2), Derived()
    >>> with torch.no_grad():
    ...     first = made.get("exp", [raw], raw.exp)
    ...     made.get("exp", [raw], raw.exp) is first, made.get("exp", [raw.add_(1)], raw.exp)
    (True, tensor([2.7183, 2.7183]))
    """

    def __init__(self, most: int = _MOST_VALUES) -> None:
        self._most = most
        # One attribute, replaced as a whole: threads see the values of one set of parameters.
        self._state: tuple[tuple[Tensor, ...], dict[Hashable, Any]] = ((), {})

    def __reduce__(self) -> tuple[type["Derived"], tuple[int]]:
        """Copy nothing: values may be views of the parameters of the original."""
        return Derived, (self._most,)

    def get(self, key: Hashable, parameters: Sequence[Tensor], make: Callable[[], Value]) -> Value:
        """Return `make()`, or what it returned for this key and these parameters before.

        Args:
            key: names the value.
            parameters: everything that the value depends on, the same tensors for all keys.
            make: computes the value; it must not be changed afterwards.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not _are_small(parameters):
            return make()
        copies, values = self._state
        if not _are_equal(parameters, copies):
            copies, values = tuple(p.detach().clone() for p in parameters), {}
            self._state = copies, values
        found: Value | None = values.get(key)
        if found is not None:
            return found
        # A value made for inference only could not be used anywhere else.
        with torch.inference_mode(False), torch.no_grad():
            made = make()
        if len(values) >= self._most:
            values.clear()
        values[key] = made
        return made


def _are_small(parameters: Sequence[Tensor]) -> bool:
    return all(p.is_cpu and p.numel() <= _MOST_NUMBERS for p in parameters)


def _are_equal(parameters: Sequence[Tensor], copies: Sequence[Tensor]) -> bool:
    return len(parameters) == len(copies) and all(
        p.dtype == copy.dtype and torch.equal(p, copy)
        for p, copy in zip(parameters, copies, strict=True)
    )
