"""Index tensors that are made once, and steps that never wait for the device.

A list used as an index is copied to the device each time, and each copy waits for all work before
it. So do decisions that the host takes by a number of the device. Both are kept out of training
steps on a GPU, which are recorded once and replayed (see `training/graphed.py`).
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor

_LOCAL = threading.local()


@contextmanager
def host_free() -> Iterator[None]:
    """Forbid decisions of the host in this thread: numerics take a form that needs none."""
    before = is_host_free()
    _LOCAL.on = True
    try:
        yield
    finally:
        _LOCAL.on = before


def is_host_free() -> bool:
    """Say whether the host must not look at the device's numbers."""
    return bool(getattr(_LOCAL, "on", False))


def index_of(positions: Sequence[int], device: torch.device) -> Tensor:
    """Return positions as an index tensor on a device, the same one each time.

    >>> index_of([2, 0], torch.device("cpu"))
    tensor([2, 0])
    """
    return _index(tuple(positions), device)


@lru_cache(maxsize=4096)
def _index(positions: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(positions, dtype=torch.long, device=device)


def table_of(sets: Sequence[Sequence[int]], count: int, device: torch.device) -> Tensor:
    """Return which of `count` positions each of the distinct sets holds, the same tensor each time.

    >>> table_of([(0, 2), ()], 3, torch.device("cpu"))
    tensor([[False, False, False],
            [ True, False,  True]])
    """
    return _table(frozenset(map(tuple, sets)), count, device)


@lru_cache(maxsize=64)
def _table(sets: frozenset[tuple[int, ...]], count: int, device: torch.device) -> Tensor:
    rows = [[position in own for position in range(count)] for own in sorted(sets)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


def select(x: Tensor, positions: Sequence[int], dim: int = 0) -> Tensor:
    """Return some slices along a dim; the tensor itself if it is all of them in order.

    >>> select(torch.arange(3), [2, 0])
    tensor([2, 0])
    """
    if list(positions) == list(range(x.shape[dim])):
        return x
    return x.index_select(dim, index_of(positions, x.device))
