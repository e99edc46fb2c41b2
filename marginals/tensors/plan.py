"""The order of work on a tree: which nodes are contracted together, level by level."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marginals.runtime.kernels.tree_contraction import Stage, Wiring
from marginals.structure import Tree


@dataclass(frozen=True)
class Level:
    """One batch of nodes, each of which takes its children out of a pool of finished nodes.

    Args:
        nodes: rows of the weights, one per node.
        count: the number n of nodes.
        children: positions of the children in the pool, (n, p); the pool's length stands for none.
        keep: positions that stay in the pool, behind the new nodes; None if there are none.
        whole: the children are the whole pool, in order, p for each node: no gathering needed.
        size: the length of the pool before this level.
    """

    nodes: Tensor | slice
    count: int
    children: Tensor
    keep: Tensor | None
    whole: bool
    size: int

    def gather(self, pool: Tensor) -> Tensor:
        """Arrange the pool (P, B, M) by node and child, (n, p, B, M), 0 where there is none."""
        shape = (*self.children.shape, *pool.shape[1:])
        if self.whole:
            return pool.reshape(shape)
        padded = torch.cat([pool, torch.zeros_like(pool[:1])])
        return padded.index_select(0, self.children.flatten()).reshape(shape)

    def scatter(self, children: Tensor, kept: Tensor) -> Tensor:
        """Undo `gather`: put (n, p, ...) and what was kept back into a pool (P, ...)."""
        flat = children.flatten(0, 1)
        if self.whole:
            return flat
        pool = flat.new_zeros(self.size + 1, *flat.shape[1:])
        pool[self.children.flatten()] = flat
        if self.keep is not None:
            pool[self.keep] = kept
        return pool[: self.size]


@dataclass(frozen=True)
class Plan:
    """The levels below the root. What is left in the pool after them are the root's children."""

    levels: tuple[Level, ...]
    wiring: Wiring


def make_plan(
    tree: Tree, columns: Sequence[int], device: torch.device, keep_slots: bool = False
) -> Plan:
    """Plan the contraction of the given columns, in the tree's order; other subtrees are skipped.

    With `keep_slots` a child stays the first, second, ... of its node when siblings are skipped.

    >>> plan = make_plan(Tree(((0, 1), (2, 3))), (0, 1, 2, 3), torch.device("cpu"))
    >>> [level.children.tolist() for level in plan.levels]
    [[[0, 1], [2, 3]]]
    """
    pool = list(columns)
    levels = []
    heights = sorted({node.height for node in tree.nodes[:-1]})
    below = len(tree.nodes) - 1
    for height in heights:
        ids = [i for i in range(below) if tree.nodes[i].height == height]
        level, pool = _make_level(tree, ids, pool, device, keep_slots)
        if level is not None:
            levels.append(level)
    return Plan(tuple(levels), _make_wiring(levels, len(columns), device))


@dataclass(frozen=True)
class PartialPlan:
    """The levels of the nodes that have no asked column below.

    Args:
        levels: from the columns at hand up.
        nodes: what is left in the pool after them, columns or, as in `Node`, D plus a node's place.
        groups: positions in the pool that one node multiplies, to be multiplied at once.
    """

    levels: tuple[Level, ...]
    nodes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


def make_partial_plan(
    tree: Tree,
    columns: Sequence[int],
    asked: Sequence[int],
    device: torch.device,
    keep_slots: bool = False,
) -> PartialPlan:
    """Plan the contraction of the given columns up to where the asked ones come in.

    >>> plan = make_partial_plan(Tree(((0, 1), (2, 3))), (1, 2, 3), (0,), torch.device("cpu"))
    >>> plan.nodes, len(plan.levels)
    ((5, 1), 1)
    """
    pool = list(columns)
    levels = []
    wanted = set(asked)
    apart = [i for i, node in enumerate(tree.nodes[:-1]) if wanted.isdisjoint(node.columns)]
    for height in sorted({tree.nodes[i].height for i in apart}):
        ids = [i for i in apart if tree.nodes[i].height == height]
        level, pool = _make_level(tree, ids, pool, device, keep_slots)
        if level is not None:
            levels.append(level)
    siblings: dict[int, list[int]] = {}
    parent = {child: i for i, node in enumerate(tree.nodes) for child in node.children}
    for position, node in enumerate(pool):
        # Children that keep their slots are not alike: each stays by itself.
        siblings.setdefault(position if keep_slots else parent[node], []).append(position)
    return PartialPlan(tuple(levels), tuple(pool), tuple(map(tuple, siblings.values())))


def _make_wiring(levels: Sequence[Level], columns: int, device: torch.device) -> Wiring:
    """Give every node a slot of its own: the columns come first, then the nodes as they are done.

    >>> plan = make_plan(Tree(((0, 1), 2)), (0, 1, 2), torch.device("cpu"))
    >>> plan.wiring.stages[0].children.tolist(), plan.wiring.root.tolist()
    ([[0, 1]], [[3, 2]])
    """
    pool = torch.arange(columns)  # the slot at each position
    stages = []
    done = 0
    for level in levels:
        slots = torch.cat([pool, torch.tensor([-1])])[level.children.cpu()]
        stages.append(Stage(level.nodes, slots.int().to(device), done))
        new = torch.arange(columns + done, columns + done + level.count)
        done += level.count
        pool = new if level.keep is None else torch.cat([new, pool[level.keep.cpu()]])
    return Wiring(tuple(stages), pool[None].int().to(device))


def _make_level(
    tree: Tree, ids: list[int], pool: list[int], device: torch.device, keep_slots: bool
) -> tuple[Level | None, list[int]]:
    place = {node: position for position, node in enumerate(pool)}
    none = len(pool)
    children = {i: [place.get(c, none) for c in tree.nodes[i].children] for i in ids}
    children = {i: slots for i, slots in children.items() if min(slots) < none}
    if not children:
        return None, pool
    if not keep_slots:
        children = {i: [s for s in slots if s < none] for i, slots in children.items()}
    most = max(len(slots) for slots in children.values())
    grid = [slots + [none] * (most - len(slots)) for slots in children.values()]
    taken = {position for slots in children.values() for position in slots}
    keep = [position for position in range(len(pool)) if position not in taken]
    level = Level(
        nodes=_slice_of(list(children), device),
        count=len(children),
        children=torch.tensor(grid, device=device),
        keep=torch.tensor(keep, device=device) if keep else None,
        whole=[position for row in grid for position in row] == list(range(len(pool))),
        size=len(pool),
    )
    return level, [tree.columns + i for i in children] + [pool[position] for position in keep]


def _slice_of(index: list[int], device: torch.device) -> Tensor | slice:
    """Return a slice for consecutive numbers, which needs no copy."""
    if index == list(range(index[0], index[0] + len(index))):
        return slice(index[0], index[0] + len(index))
    return torch.tensor(index, device=device)
