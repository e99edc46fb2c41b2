"""Values that depend on parameters alone, kept from query to query while the parameters stay."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn

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
        self.frozen = False  # set by `freeze`: the parameters never change
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
        if not self._keeps(parameters):
            return make()
        copies, values = self._state
        if not self.frozen and not _are_equal(parameters, copies):
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

    def of_columns(
        self,
        columns: Sequence[int],
        count: int,
        parameters: Sequence[Tensor],
        make: Callable[[Sequence[int]], Value],
        pick: Callable[[Value, Sequence[int]], Value],
        key: Hashable = None,
    ) -> Value:
        """Return `make(columns)`; where values are kept, pick it from the value of all columns.

        Queries about ever other columns then derive nothing anew, and fill no memory.

        Args:
            columns: the columns.
            count: the number of all columns.
            parameters, key: as in `get`.
            make: computes the value of some columns.
            pick: returns the part of a value that belongs to some of its columns.
        """
        if not self._keeps(parameters):
            return make(columns)
        return pick(self.get(key, parameters, lambda: make(range(count))), columns)

    def _keeps(self, parameters: Sequence[Tensor]) -> bool:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        return self.frozen or _are_small(parameters)


def freeze(module: nn.Module) -> None:
    """Promise that the parameters of a module never change: its values are kept unchecked.

    Large parameters are then derived from as well, at the price of their memory. Only a copy that
    no one else holds can keep the promise.
    """
    module.requires_grad_(False)
    for part in module.modules():
        for made in vars(part).values():
            if isinstance(made, Derived):
                made.frozen = True


def _are_small(parameters: Sequence[Tensor]) -> bool:
    return all(p.is_cpu and p.numel() <= _MOST_NUMBERS for p in parameters)


def _are_equal(parameters: Sequence[Tensor], copies: Sequence[Tensor]) -> bool:
    return len(parameters) == len(copies) and all(
        p.dtype == copy.dtype and torch.equal(p, copy)
        for p, copy in zip(parameters, copies, strict=True)
    )
