"""Index tensors, made once per device.

A list used as an index is copied to the device each time, and each copy waits for all earlier work.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def index_of(positions: Sequence[int], device: torch.device) -> Tensor:
    """Return positions as an index tensor on a device, the same one each time.

    >>> index_of([2, 0], torch.device("cpu"))
    tensor([2, 0])
    """
    return _index(tuple(positions), device)


@lru_cache(maxsize=4096)
def _index(positions: tuple[int, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # it serves training too
        return torch.tensor(positions, dtype=torch.long, device=device)


def table_of(sets: Sequence[Sequence[int]], count: int, device: torch.device) -> Tensor:
    """Return which of `count` positions each distinct set holds, the same tensor each time.

    >>> table_of([(0, 2), ()], 3, torch.device("cpu"))
    tensor([[False, False, False],
            [ True, False,  True]])
    """
    return _table(frozenset(map(tuple, sets)), count, device)


@lru_cache(maxsize=64)
def _table(sets: frozenset[tuple[int, ...]], count: int, device: torch.device) -> Tensor:
    rows = [[position in own for position in range(count)] for own in sorted(sets)]
    with torch.inference_mode(False):
        return torch.tensor(rows, dtype=torch.bool, device=device)


def select(x: Tensor, positions: Sequence[int], dim: int = 0) -> Tensor:
    """Return some slices along a dim; the tensor itself if they are all of them in order.

    >>> select(torch.arange(3), [2, 0])
    tensor([2, 0])
    """
    if list(positions) == list(range(x.shape[dim])):
        return x
    return x.index_select(dim, index_of(positions, x.device))
