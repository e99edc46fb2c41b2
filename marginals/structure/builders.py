r"""Functions that build trees.

Shapes: D columns, G groups of one level.
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
    r"""Builds the tree of one group, under which the tensor is a CP decomposition.

    Arguments:
        columns: The number of columns :math:`D`.

    Example:
        >>> flat(4)
        Tree(4 columns, pool 4, depth 1: (0 1 2 3))
    """
    return Tree(tuple(range(_at_least(1, columns, "columns"))))


def balanced(columns: int, pool: int = 2) -> Tree:
    r"""Builds a tree by grouping neighbours, level by level.

    A level that leaves one group over carries it up as it is.

    Arguments:
        columns: The number of columns :math:`D`.
        pool: The number of children of a group.

    Example:
        >>> balanced(5)
        Tree(5 columns, pool 2, depth 3: (((0 1) (2 3)) 4))
        >>> balanced(5, pool=3)
        Tree(5 columns, pool 3, depth 2: ((0 1 2) (3 4)))
    """
    return Tree(_stack(list(range(_at_least(1, columns, "columns"))), pool))


def random(columns: int, pool: int = 2, seed: int = 0) -> Tree:
    r"""Builds a balanced tree over randomly permuted columns.

    Arguments:
        columns: The number of columns :math:`D`.
        pool: The number of children of a group.
        seed: The seed of the permutation.

    Example:
        >>> random(5, seed=1) == random(5, seed=1)
        True
    """
    count = _at_least(1, columns, "columns")
    return Tree(_stack(np.random.default_rng(seed).permutation(count).tolist(), pool))


def coupled(similarity: ArrayLike, pool: int = 2) -> Tree:
    r"""Builds a tree that groups similar columns first.

    Each level couples the two most similar groups that are not yet coupled, adds the group
    most similar to both until there are `pool`, and repeats until at most one group is left
    over, which is carried up. The similarity of two groups :math:`I` and :math:`J` is the
    mean over their pairs of columns

    .. math:: s_{IJ} = \frac{1}{|I| |J|} \sum_{i \in I} \sum_{j \in J} s_{ij}

    Ties go to the lowest index, so that equal similarities give the balanced tree.

    References:
        | Marginalizable Density Models (Gilboa, Pakman & Vatter, 2021), adaptive coupling
        | https://arxiv.org/abs/2106.04741

    Arguments:
        similarity: The similarity of the columns, :math:`(D, D)`, symmetric and nonnegative,
            such as an absolute correlation. NaN counts as 0 and the diagonal is not read.
        pool: The number of children of a group.

    Example:
        >>> coupled([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
        Tree(3 columns, pool 2, depth 2: ((0 2) 1))
    """
    _at_least(2, pool, "pool")
    sums = _check_similarity(np.array(similarity, dtype=np.float64))  # (G, G), over column pairs
    sizes = np.ones(len(sums))  # (G,)
    level: list[Nested] = list(range(len(sums)))
    while len(level) > pool:
        groups = _couple(sums, sizes, pool)
        level = [_join([level[i] for i in group]) for group in groups]
        sums, sizes = _coarsen(sums, sizes, groups)
    return Tree(tuple(level))


def from_data(
    x: ArrayLike,
    pool: int = 2,
    *,
    rank: bool = False,
    max_rows: int | None = 100_000,
    jitter: float = 0.0,
    seed: int = 0,
) -> Tree:
    r"""Builds a tree that groups the most correlated columns of a table first.

    See :func:`coupled` and :func:`marginals.structure.absolute_correlation`.

    Arguments:
        x: The table, :math:`(N, D)`, with NaN for missing cells.
        pool: The number of children of a group.
        rank: Whether to correlate ranks instead of values.
        max_rows: The number of rows to draw from a longer table; all if None.
        jitter: The most that chance adds to a correlation, for trees that vary.
        seed: The seed of that draw, and of the jitter.

    Example:
        >>> from_data([[1.0, 5.0, -1.0], [2.0, 3.0, -2.0], [3.0, 4.0, -3.5]])
        Tree(3 columns, pool 2, depth 2: ((0 2) 1))
    """
    similarity = absolute_correlation(x, rank=rank, max_rows=max_rows, seed=seed)
    if jitter:
        chance = jitter * np.random.default_rng(seed).random(similarity.shape)
        similarity = similarity + (chance + chance.T) / 2
    return coupled(similarity, pool)


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


def _stack(level: Sequence[Nested], pool: int) -> tuple[Nested, ...]:
    _at_least(2, pool, "pool")
    while len(level) > pool:
        level = [_join(level[i : i + pool]) for i in range(0, len(level), pool)]
    return tuple(level)


def _check_similarity(similarity: Array) -> Array:
    if similarity.ndim != 2 or len(set(similarity.shape)) > 1 or not similarity.size:
        raise ValueError(
            f"Expected `similarity` to be a square matrix; got shape {similarity.shape}. "
            "Give one row and one column per column of the table."
        )
    np.fill_diagonal(similarity, 0.0)
    similarity[np.isnan(similarity)] = 0.0
    _check_entries(similarity)
    return 0.5 * similarity + 0.5 * similarity.T


def _check_entries(similarity: Array) -> None:
    wrong = np.argwhere((similarity < 0.0) | np.isinf(similarity))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(
            "Expected `similarity` to be nonnegative and finite; "
            f"got {similarity[i, j]} for the columns {i} and {j}. Take absolute values."
        )
    # Rounding may break the symmetry, a wrong matrix breaks it by more.
    skew = np.abs(similarity - similarity.T)
    if skew.max() > 1e-8 * similarity.max():
        i, j = np.unravel_index(skew.argmax(), skew.shape)
        raise ValueError(
            f"Expected `similarity` to be symmetric; got {similarity[i, j]} and "
            f"{similarity[j, i]} for the columns {i} and {j}. Average it with its transpose."
        )


def _couple(sums: Array, sizes: Array, pool: int) -> list[list[int]]:
    """Partitions the groups of a level into lists of at most `pool`, most similar first."""
    free = set(range(len(sizes)))
    coupled: list[list[int]] = []
    for pair in _ranked_pairs(sums / np.outer(sizes, sizes)):
        if len(free) < 2:
            break
        if free.issuperset(pair):
            coupled.append(_grow(pair, free, sums, sizes, pool))
    return sorted([*coupled, *([i] for i in free)])


def _ranked_pairs(similarity: Array) -> Iterator[tuple[int, int]]:
    rows, columns = np.triu_indices(len(similarity), 1)
    # One stable sort per level: ties stay in index order, and couplings cost no search.
    ranked = np.argsort(-similarity[rows, columns], kind="stable")
    return zip(rows[ranked].tolist(), columns[ranked].tolist(), strict=True)


def _grow(pair: tuple[int, int], free: set[int], sums: Array, sizes: Array, pool: int) -> list[int]:
    """Extends a pair to a group of at most `pool`, and takes its members out of `free`."""
    members = list(pair)
    free.difference_update(pair)
    while len(members) < pool and free:
        nearest = _nearest(members, sorted(free), sums, sizes)
        members.append(nearest)
        free.remove(nearest)
    return sorted(members)


def _nearest(members: list[int], others: list[int], sums: Array, sizes: Array) -> int:
    # The mean over column pairs, up to the members' total size, which all others share.
    affinity = sums[np.ix_(members, others)].sum(axis=0) / sizes[others]
    return others[int(affinity.argmax())]


def _coarsen(sums: Array, sizes: Array, groups: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Adds up the blocks of the matrix: means are taken over column pairs, not over means."""
    order = [i for group in groups for i in group]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    blocks = np.add.reduceat(sums[np.ix_(order, order)], starts, axis=0)
    return np.add.reduceat(blocks, starts, axis=1), np.add.reduceat(sizes[order], starts)
