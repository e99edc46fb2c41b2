"""The batches of nodes in which a tree is contracted; `tensors/plan.py` makes them.

The plain and CPU forms keep a *pool* of finished nodes, from which each `Level` takes its children.
The fused kernels give each node a fixed *slot* instead: a `Stage` is a level in terms of slots.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Level:
    """A batch of nodes whose children are all in the pool.

    Args:
        nodes: rows of the weights, one per node.
        count: the number n of nodes.
        children: positions of the children in the pool, (n, p); the pool's length means none.
        keep: positions that stay in the pool, after the new nodes; None if none do.
        whole: whether the children are the whole pool in order, so that nothing is gathered.
        size: the length of the pool before this level.
    """

    nodes: Tensor | slice
    count: int
    children: Tensor
    keep: Tensor | None
    whole: bool
    size: int

    @cached_property
    def numbers(self) -> list[int]:
        """The rows of the weights as a list."""
        if isinstance(self.nodes, slice):
            return list(range(self.nodes.start, self.nodes.stop))
        return self.nodes.tolist()

    def gather(self, pool: Tensor) -> Tensor:
        """Arrange the pool (P, B, M) by node and child, (n, p, B, M), 0 for no child."""
        shape = (*self.children.shape, *pool.shape[1:])
        if self.whole:
            return pool.reshape(shape)
        padded = torch.cat([pool, torch.zeros_like(pool[:1])])
        return padded.index_select(0, self.children.flatten()).reshape(shape)

    def scatter(self, children: Tensor, kept: Tensor) -> Tensor:
        """Undo `gather`: put (n, p, ...) and the kept entries back into a pool (P, ...)."""
        flat = children.flatten(0, 1)
        if self.whole:
            return flat
        pool = flat.new_zeros(self.size + 1, *flat.shape[1:])
        pool[self.children.flatten()] = flat
        if self.keep is not None:
            pool[self.keep] = kept
        return pool[: self.size]


@final
@dataclass(frozen=True, eq=False)
class Stage:
    """A level by slots: the leaves have the first slots, then the nodes in order of contraction.

    Args:
        nodes: rows of the weights, one per node.
        children: slots (m, p), -1 for no child.
        first: the number of nodes contracted before.
    """

    nodes: Tensor | slice
    children: Tensor
    first: int

    @property
    def last(self) -> int:
        """The number of nodes contracted after this stage."""
        return self.first + len(self.children)

    def pieces(self, most: int) -> Iterator[tuple[slice, Tensor | slice]]:
        """Yield pieces of at most `most` nodes: their places, and their rows of the weights."""
        size = max(1, most)
        for start in range(0, len(self.children), size):
            stop = min(start + size, len(self.children))
            if isinstance(self.nodes, slice):
                nodes: Tensor | slice = slice(self.nodes.start + start, self.nodes.start + stop)
            else:
                nodes = self.nodes[start:stop]
            yield slice(self.first + start, self.first + stop), nodes


@final
@dataclass(frozen=True, eq=False)
class Wiring:
    """All stages below the root, and the slots of the root's children, (1, p)."""

    stages: tuple[Stage, ...]
    root: Tensor

    @property
    def nodes(self) -> int:
        """The number of nodes below the root."""
        return self.stages[-1].last if self.stages else 0
