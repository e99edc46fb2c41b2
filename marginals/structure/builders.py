"""Functions that build trees.

Shapes: D columns, G groups on one level.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginals.structure.correlation import absolute_correlation
from marginals.structure.tree import Nested, Tree

__all__ = ["balanced", "coupled", "flat", "from_data", "random"]

Array: TypeAlias = NDArray[np.float64]


def flat(columns: int) -> Tree:
    """Build a tree with a single group, which makes the tensor a CP decomposition.

    Args:
        columns: number of columns D.

    >>> flat(4)
    Tree(4 columns, pool 4, depth 1: (0 1 2 3))
    """
    return Tree(tuple(range(_at_least(1, columns, "columns"))))


def balanced(columns: int, pool: int = 2) -> Tree:
    """Build a tree by grouping neighbours, level by level; a leftover moves up unchanged.

    Args:
        columns: number of columns D.
        pool: number of children of a group.

    >>> balanced(5)
    Tree(5 columns, pool 2, depth 3: (((0 1) (2 3)) 4))
    >>> balanced(5, pool=3)
    Tree(5 columns, pool 3, depth 2: ((0 1 2) (3 4)))
    """
    return _stack(range(_at_least(1, columns, "columns")), pool)


def random(columns: int, pool: int = 2, seed: int = 0) -> Tree:
    """Build a balanced tree over randomly permuted columns.

    Args:
        columns: number of columns D.
        pool: number of children of a group.
        seed: seed for the permutation.

    >>> random(5, seed=1) == random(5, seed=1)
    True
    """
    count = _at_least(1, columns, "columns")
    return _stack(np.random.default_rng(seed).permutation(count).tolist(), pool)


def coupled(similarity: ArrayLike, pool: int = 2) -> Tree:
    """Build a tree that groups similar columns first.

    This is the adaptive coupling of Gilboa, Pakman and Vatter (https://arxiv.org/abs/2106.04741).
    Each level joins the two most similar free groups, then adds the free group most similar to
    both until there are `pool`, and repeats. A leftover group moves up unchanged. The similarity
    of two groups is the mean over their pairs of columns. Ties go to the lowest index, so equal
    similarities give the balanced tree.

    Args:
        similarity: similarity of the columns (D, D), symmetric and nonnegative, such as an
            absolute correlation. NaN counts as 0 and the diagonal is ignored.
        pool: number of children of a group.

    >>> coupled([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
    Tree(3 columns, pool 2, depth 2: ((0 2) 1))
    """
    _at_least(2, pool, "pool")
    sums = _checked(np.array(similarity, dtype=np.float64))  # (G, G), over pairs of columns
    sizes = np.ones(len(sums))  # (G,)
    level: list[Nested] = list(range(len(sums)))
    while len(level) > pool:
        groups = _couple(sums, sizes, pool)
        level = [_join([level[i] for i in group]) for group in groups]
        sums, sizes = coarsen(sums, sizes, groups)
    return Tree(tuple(level))


def from_data(x: ArrayLike, pool: int = 2, *, jitter: float = 0.0, seed: int = 0) -> Tree:
    """Build a tree that groups the most correlated columns of a table first.

    See `coupled` and `absolute_correlation`.

    Args:
        x: table (N, D), with NaN for missing cells.
        pool: number of children of a group.
        jitter: largest random amount added to a correlation, to vary the tree.
        seed: seed for choosing rows from a long table and for the jitter.

    >>> from_data([[1.0, 5.0, -1.0], [2.0, 3.0, -2.0], [3.0, 4.0, -3.5]])
    Tree(3 columns, pool 2, depth 2: ((0 2) 1))
    """
    similarity = absolute_correlation(x, seed=seed)
    if jitter:
        chance = jitter * np.random.default_rng(seed).random(similarity.shape)
        similarity = similarity + (chance + chance.T) / 2
    return coupled(similarity, pool)


def coarsen(sums: Array, sizes: Array, groups: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Add up the blocks of a matrix by group, so that means stay over pairs of columns."""
    order = [i for group in groups for i in group]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    blocks = np.add.reduceat(sums[np.ix_(order, order)], starts, axis=0)
    return np.add.reduceat(blocks, starts, axis=1), np.add.reduceat(sizes[order], starts)


def _at_least(least: int, value: int, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"Expected `{name}` to be an integer; got {value!r}. Give a count.")
    if value < least:
        raise ValueError(
            f"Expected `{name}` to be at least {least}; got {value}. Give a larger count."
        )
    return operator.index(value)


def _join(members: Sequence[Nested]) -> Nested:
    return tuple(members) if len(members) > 1 else members[0]


def _stack(level: Sequence[Nested], pool: int) -> Tree:
    _at_least(2, pool, "pool")
    while len(level) > pool:
        level = [_join(level[i : i + pool]) for i in range(0, len(level), pool)]
    return Tree(tuple(level))


def _checked(similarity: Array) -> Array:
    if similarity.ndim != 2 or len(set(similarity.shape)) > 1 or not similarity.size:
        raise ValueError(
            f"Expected `similarity` to be a square matrix; got shape {similarity.shape}. "
            "Give one row and one column per column of the table."
        )
    np.fill_diagonal(similarity, 0.0)
    similarity[np.isnan(similarity)] = 0.0
    wrong = np.argwhere((similarity < 0.0) | np.isinf(similarity))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(
            "Expected `similarity` to be nonnegative and finite; "
            f"got {similarity[i, j]} for columns {i} and {j}. Take absolute values."
        )
    skew = np.abs(similarity - similarity.T)
    if skew.max() > 1e-8 * similarity.max():  # more than rounding
        i, j = np.unravel_index(skew.argmax(), skew.shape)
        raise ValueError(
            f"Expected `similarity` to be symmetric; got {similarity[i, j]} and "
            f"{similarity[j, i]} for columns {i} and {j}. Average it with its transpose."
        )
    return 0.5 * similarity + 0.5 * similarity.T


def _couple(sums: Array, sizes: Array, pool: int) -> list[list[int]]:
    """Partition the groups on a level into lists of at most `pool`, most similar first."""
    free = set(range(len(sizes)))
    found: list[list[int]] = []
    for pair in _ranked_pairs(sums / np.outer(sizes, sizes)):
        if len(free) < 2:
            break
        if free.issuperset(pair):
            found.append(_grow(pair, free, sums, sizes, pool))
    return sorted([*found, *([i] for i in free)])


def _ranked_pairs(similarity: Array) -> Iterator[tuple[int, int]]:
    rows, columns = np.triu_indices(len(similarity), 1)
    # One stable sort per level keeps ties in index order and replaces a search per pair.
    ranked = np.argsort(-similarity[rows, columns], kind="stable")
    return zip(rows[ranked].tolist(), columns[ranked].tolist(), strict=True)


def _grow(pair: tuple[int, int], free: set[int], sums: Array, sizes: Array, pool: int) -> list[int]:
    """Extend a pair to at most `pool` groups, and remove them from `free`."""
    members = list(pair)
    free.difference_update(pair)
    while len(members) < pool and free:
        others = sorted(free)
        # The mean over pairs of columns, up to the members' total size, which all others share.
        affinity = sums[np.ix_(members, others)].sum(axis=0) / sizes[others]
        members.append(others[int(affinity.argmax())])
        free.remove(members[-1])
    return sorted(members)
