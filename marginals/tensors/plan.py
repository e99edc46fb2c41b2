"""Planning the contraction of a tree: which nodes are contracted together, level by level."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marginals.runtime.kernels.tree_levels import Level, Stage, Wiring
from marginals.structure import Tree


@dataclass(frozen=True)
class Plan:
    """The levels below the root, which leave the root's children in the pool."""

    levels: tuple[Level, ...]
    wiring: Wiring


def make_plan(
    tree: Tree, columns: Sequence[int], device: torch.device, keep_slots: bool = False
) -> Plan:
    """Plan the contraction of the given columns, in the tree's order; other subtrees are skipped.

    With `keep_slots` a child keeps its place among its siblings when some are skipped.

    >>> plan = make_plan(Tree(((0, 1), (2, 3))), (0, 1, 2, 3), torch.device("cpu"))
    >>> [level.children.tolist() for level in plan.levels]
    [[[0, 1], [2, 3]]]
    """
    levels, _ = _make_levels(tree, range(len(tree.nodes) - 1), columns, device, keep_slots)
    return Plan(tuple(levels), _make_wiring(levels, len(columns), device))


@dataclass(frozen=True)
class PartialPlan:
    """The levels of nodes without a requested column below.

    Args:
        levels: the levels, from the columns up.
        nodes: the pool after them: columns or, as in `Node`, D plus a node's place.
        groups: positions in the pool whose product one node takes, to be multiplied now.
    """

    levels: tuple[Level, ...]
    nodes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


def make_partial_plan(
    tree: Tree,
    columns: Sequence[int],
    requested: Sequence[int],
    device: torch.device,
    keep_slots: bool = False,
) -> PartialPlan:
    """Plan the contraction of the given columns up to where the requested ones come in.

    >>> plan = make_partial_plan(Tree(((0, 1), (2, 3))), (1, 2, 3), (0,), torch.device("cpu"))
    >>> plan.nodes, len(plan.levels)
    ((5, 1), 1)
    """
    wanted = set(requested)
    apart = [i for i, node in enumerate(tree.nodes[:-1]) if wanted.isdisjoint(node.columns)]
    levels, pool = _make_levels(tree, apart, columns, device, keep_slots)
    siblings: dict[int, list[int]] = {}
    parent = {child: i for i, node in enumerate(tree.nodes) for child in node.children}
    for position, node in enumerate(pool):
        # Children that keep their slots are not interchangeable.
        siblings.setdefault(position if keep_slots else parent[node], []).append(position)
    return PartialPlan(tuple(levels), tuple(pool), tuple(map(tuple, siblings.values())))


def _make_wiring(levels: Sequence[Level], columns: int, device: torch.device) -> Wiring:
    """Give every node a slot: the columns come first, then the nodes in order of contraction.

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


def _make_levels(
    tree: Tree,
    nodes: Iterable[int],
    columns: Sequence[int],
    device: torch.device,
    keep_slots: bool,
) -> tuple[list[Level], list[int]]:
    """Return the levels of some nodes by height, and the pool after them."""
    by_height: dict[int, list[int]] = {}
    for i in nodes:
        by_height.setdefault(tree.nodes[i].height, []).append(i)
    pool = list(columns)
    levels = []
    for height in sorted(by_height):
        level, pool = _make_level(tree, by_height[height], pool, device, keep_slots)
        if level is not None:
            levels.append(level)
    return levels, pool


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
    """Return a slice for consecutive numbers, which avoids a copy."""
    if index == list(range(index[0], index[0] + len(index))):
        return slice(index[0], index[0] + len(index))
    return torch.tensor(index, device=device)
