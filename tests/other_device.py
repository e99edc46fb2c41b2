"""A device that is not the CPU, for machines without one: a tensor there mixes with no CPU tensor.

Its tensors hold their values on the CPU and say that they are elsewhere. Operations on tensors of
both places are refused, as on a GPU; single numbers may mix, as there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

# A place that every build of torch knows, and that no kernel of ours is written for.
ELSEWHERE = torch.device("meta")
# These take no single number of another place either.
_STRICT = ("aten::clamp", "aten::clamp_min", "aten::clamp_max", "aten::cat", "aten::stack")
# Index tensors on the CPU may index a tensor elsewhere, and copies go from place to place.
_MIXED = ("aten::_to_copy", "aten::copy_", "aten::index", "aten::index_put", "aten::index_put_")


class Elsewhere(Tensor):
    """A tensor elsewhere."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Elsewhere":
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=ELSEWHERE,
            requires_grad=False,
        )
        self.held = held
        return self

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Elsewhere({self.held})"

    def __deepcopy__(self, memo: Any) -> "Elsewhere":
        made = Elsewhere(self.held.clone())
        made._is_param = getattr(self, "_is_param", False)  # as torch marks a parameter
        return made

    def tolist(self) -> Any:
        """Return the values as Python numbers, as any device does."""
        return self.held.tolist()

    def new_tensor(self, data: Any, *, dtype: Any = None) -> Tensor:
        """Return new values on this device."""
        return self.held.new_tensor(data, dtype=dtype).to(ELSEWHERE)

    def __getitem__(self, index: Any) -> Tensor:
        return super().__getitem__(_moved_lists(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_moved_lists(index), value)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # In inference mode composite functions arrive whole, with devices among their arguments.
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:
                found = func.decompose(*args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name
    tensors = [part for part in tree_flatten((args, kwargs))[0] if isinstance(part, Tensor)]
    away = [part for part in tensors if isinstance(part, Elsewhere)]
    here = [part for part in tensors if not isinstance(part, Elsewhere)]
    if name == "aten::_local_scalar_dense":
        return func(tensors[0].held if away else tensors[0])
    mixed = here if name in _STRICT else [part for part in here if part.ndim]
    if away and name not in _MIXED and mixed:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices: "
            f"{name} of {[tuple(part.shape) for part in tensors]}"
        )
    target = kwargs.get("device")
    goes = bool(away) if target is None else torch.device(target) == ELSEWHERE
    if name == "aten::copy_":
        goes = isinstance(args[0], Elsewhere)
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner = tree_map(
        lambda part: part.held if isinstance(part, Elsewhere) else part, (args, kwargs)
    )
    found = func(*inner[0], **inner[1])
    if not goes:
        return found
    if name.endswith("_") and isinstance(found, Tensor):
        return args[0]  # changed in place
    if "out" in kwargs:
        return kwargs["out"]
    return tree_map(lambda part: Elsewhere(part) if isinstance(part, Tensor) else part, found)


def _moved_lists(index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    moved_parts = tuple(
        _tensor(part, dtype=None if part else torch.long, device=ELSEWHERE)
        if isinstance(part, list)
        else part
        for part in parts
    )
    return moved_parts if isinstance(index, tuple) else moved_parts[0]


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """Make the device exist, within a block."""
    values = patch.object(torch, "tensor", _tensor)
    # Tensors of this kind have no views in inference mode.
    plain = patch.object(torch, "inference_mode", lambda mode=True: torch.no_grad())
    random = patch.object(torch, "Generator", _Generator)
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with _Mode(), values, plain, random:
            yield ELSEWHERE
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


class _Generator(torch.Generator):
    """A source of randomness for any device."""

    def __new__(cls, device: Any = None) -> "_Generator":
        return super().__new__(cls)


_here = torch.tensor


def _tensor(data: Any, *, device: Any = None, **options: Any) -> Tensor:
    """Make a tensor; torch itself would make one without values."""
    made = _here(data, **options)
    return made if device is None else made.to(device)


def moved(module: torch.nn.Module) -> torch.nn.Module:
    """Put a module's parameters and buffers elsewhere, in place."""
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                part._parameters[name] = torch.nn.Parameter(
                    Elsewhere(value.detach()), requires_grad=False
                )
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = Elsewhere(buffer)
    return module
