"""Builders of trees, by hand and against a slow search."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from marginals.structure import (
    Tree,
    absolute_correlation,
    balanced,
    coupled,
    flat,
    from_data,
    random,
)
from marginals.structure.builders import coarsen

COLUMNS = range(1, 18)
POOLS = (2, 3, 5)
Array = NDArray[np.float64]


def similarity(columns: int, seed: int = 0) -> Array:
    upper = np.triu(np.random.default_rng(seed).random((columns, columns)), 1)
    return upper + upper.T + np.eye(columns)


def symmetric(columns: int, **entries: float) -> Array:
    """Fill a matrix from entries such as s01=0.5, for columns 0 and 1."""
    matrix = np.eye(columns)
    for name, value in entries.items():
        i, j = int(name[1]), int(name[2])
        matrix[i, j] = matrix[j, i] = value
    return matrix


def normal(rows: int, columns: int) -> Array:
    return np.random.default_rng(0).normal(size=(rows, columns))


BUILDERS: dict[str, Callable[[int, int], Tree]] = {
    "balanced": balanced,
    "random": lambda columns, pool: random(columns, pool, seed=1),
    "flat": lambda columns, pool: flat(columns),
    "coupled": lambda columns, pool: coupled(similarity(columns), pool),
    "coupled, no similarity": lambda columns, pool: coupled(np.full((columns,) * 2, np.nan), pool),
    "from_data": lambda columns, pool: from_data(normal(20, columns), pool),
    "from_data, jitter": lambda columns, pool: from_data(normal(20, columns), pool, jitter=0.2),
    "from_data, no rows": lambda columns, pool: from_data(np.empty((0, columns)), pool),
}


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("pool", POOLS)
def test_every_builder_gives_a_valid_tree(pool: int, builder: str) -> None:
    for columns in COLUMNS:
        tree = BUILDERS[builder](columns, pool)
        assert sorted(tree.order) == list(range(columns))
        assert Tree(tree.groups) == tree
        if builder == "flat":
            assert tree.depth == 1
        else:
            assert tree.pool_size <= pool
            assert pool ** (tree.depth - 1) < max(columns, 2) <= pool**tree.depth


@pytest.mark.parametrize(
    ("columns", "pool", "groups"),
    [
        (1, 2, (0,)),
        (2, 2, (0, 1)),
        (3, 2, ((0, 1), 2)),
        (5, 2, (((0, 1), (2, 3)), 4)),
        (7, 2, (((0, 1), (2, 3)), ((4, 5), 6))),
        (4, 3, ((0, 1, 2), 3)),
        (5, 3, ((0, 1, 2), (3, 4))),
        (3, 5, (0, 1, 2)),
    ],
)
def test_balanced_by_hand(columns: int, pool: int, groups: Any) -> None:
    assert balanced(columns, pool) == Tree(groups)


def test_balanced_over_a_power_of_the_pool_is_perfect() -> None:
    tree = balanced(27, 3)
    assert tree.depth == 3
    assert [len(node.children) for node in tree.nodes] == [3] * 13


def test_random_depends_on_the_seed_alone() -> None:
    tree = random(17, 3, seed=4)
    assert tree == random(17, 3, seed=4)
    assert len({random(17, 3, seed=seed) for seed in range(10)}) == 10
    assert balanced(17, 3).relabel(tree.order) == tree


def test_flat_by_hand() -> None:
    assert flat(1) == Tree((0,))
    assert flat(4) == Tree((0, 1, 2, 3))


@pytest.mark.parametrize("builder", [balanced, random, flat])
def test_wrong_columns(builder: Callable[..., Tree]) -> None:
    with pytest.raises(ValueError, match="Expected `columns` to be at least 1; got 0"):
        builder(0)
    with pytest.raises(TypeError, match=r"Expected `columns` to be an integer; got 2\.0"):
        builder(2.0)


@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("builder", ["balanced", "random", "coupled"])
def test_wrong_pool(builder: str, columns: int) -> None:
    with pytest.raises(ValueError, match="Expected `pool` to be at least 2; got 1"):
        BUILDERS[builder](columns, 1)
    with pytest.raises(TypeError, match="Expected `pool` to be an integer; got True"):
        BUILDERS[builder](columns, True)


# Coupling ---------------------------------------------------------------------------------------


def slow_coupled(similarity: Array, pool: int) -> Tree:
    """Couple by the definition: search all pairs of groups, average over all columns."""

    def mean(first: Any, second: Any) -> float:
        return float(similarity[np.ix_(leaves(first), leaves(second))].mean())

    level: list[Any] = list(range(len(similarity)))
    while len(level) > pool:
        free, joined = list(level), []
        while len(free) > 1:
            pairs = [(a, b) for i, a in enumerate(free) for b in free[i + 1 :]]
            members = list(max(pairs, key=lambda pair: mean(*pair)))
            free = [group for group in free if group not in members]
            while free and len(members) < pool:
                members.append(max(free, key=lambda group: mean(tuple(members), group)))
                free.remove(members[-1])
            joined.append(tuple(sorted(members, key=level.index)))
        firsts = {group: level.index(group) for group in free}
        firsts.update({group: level.index(group[0]) for group in joined})
        level = sorted(firsts, key=lambda group: firsts[group])
    return Tree(tuple(level))


def leaves(group: Any) -> list[int]:
    return [group] if isinstance(group, int) else [leaf for item in group for leaf in leaves(item)]


@pytest.mark.parametrize("pool", POOLS)
def test_coupled_against_a_slow_search(pool: int) -> None:
    for columns in [*COLUMNS, 40]:
        matrix = similarity(columns, seed=columns)
        assert coupled(matrix, pool) == slow_coupled(matrix, pool)


def test_the_most_similar_pair_comes_first_even_at_a_loss() -> None:
    # Pairing 0 with 2 and 1 with 3 would have the larger total.
    matrix = symmetric(4, s01=0.9, s02=0.8, s13=0.8, s23=0.1)
    assert coupled(matrix) == Tree(((0, 1), (2, 3)))


def test_a_level_is_coarsened_by_means_over_columns() -> None:
    matrix = symmetric(5, s01=0.9, s23=0.8, s02=0.2, s03=0.2, s12=0.2, s13=0.4)
    matrix += symmetric(5, s04=0.5, s14=0.1, s24=0.4, s34=0.0) - np.eye(5)
    # (0 1) and (2 3): 1.0 / 4 = 0.25; (0 1) and 4: 0.6 / 2 = 0.3; (2 3) and 4: 0.4 / 2 = 0.2.
    assert coupled(matrix) == Tree((((0, 1), 4), (2, 3)))
    sums, sizes = coarsen(matrix, np.ones(5), [[0, 1], [2, 3], [4]])
    np.testing.assert_allclose(sizes, [2, 2, 1])
    means = sums / np.outer(sizes, sizes)
    np.testing.assert_allclose(means[np.triu_indices(3, 1)], [0.25, 0.3, 0.2])


def test_coarsening_weighs_groups_by_their_size() -> None:
    # Level 1 couples (0 1), (2 3), (4 5), (6 7); level 2 ((0 1) 8) and ((2 3) (4 5)).
    matrix = symmetric(9, s01=1.0, s23=1.0, s45=1.0, s67=1.0, s08=0.9, s18=0.9)
    matrix += symmetric(9, s24=0.8, s25=0.8, s34=0.8, s35=0.8) - np.eye(9)
    matrix[8, 6:8] = matrix[6:8, 8] = 0.6
    matrix[2:6, 6:8] = matrix[6:8, 2:6] = 0.25
    # Level 3: ((0 1) 8) and (6 7) have the mean 1.2 / 6 = 0.2 over columns, below 0.25;
    # the mean of the means, (0 + 0.6) / 2 = 0.3, would be above.
    assert coupled(matrix) == Tree((((0, 1), 8), (((2, 3), (4, 5)), (6, 7))))


def test_a_larger_pool_adds_the_group_nearest_to_all_members() -> None:
    # 2 is nearest to 0 alone, but 3 is nearer to (0 1): 0.35 against 0.3.
    matrix = symmetric(5, s01=0.9, s02=0.5, s12=0.1, s03=0.3, s13=0.4)
    assert coupled(matrix, pool=3) == Tree(((0, 1, 3), (2, 4)))


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("pool", POOLS)
def test_ties_give_the_balanced_tree(pool: int, value: float) -> None:
    for columns in COLUMNS:
        assert coupled(np.full((columns, columns), value), pool) == balanced(columns, pool)


def test_nan_counts_as_zero_and_the_diagonal_is_ignored() -> None:
    matrix = symmetric(4, s03=0.2, s12=0.1)
    expected = Tree(((0, 3), (1, 2)))
    assert coupled(np.where(matrix == 0, np.nan, matrix)) == expected
    np.fill_diagonal(matrix, [np.nan, -1.0, np.inf, 5.0])
    before = matrix.copy()
    assert coupled(matrix) == expected
    np.testing.assert_array_equal(matrix, before)


def test_coupled_follows_the_columns() -> None:
    matrix = similarity(16)
    permutation = np.random.default_rng(1).permutation(16)
    shuffled = np.empty_like(matrix)
    shuffled[np.ix_(permutation, permutation)] = matrix

    def clusters(tree: Tree) -> set[frozenset[int]]:
        return {frozenset(node.columns) for node in tree.nodes}

    assert clusters(coupled(shuffled)) == clusters(coupled(matrix).relabel(permutation))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones(3), r"square matrix; got shape \(3,\)"),
        (np.ones((2, 3)), r"square matrix; got shape \(2, 3\)"),
        (np.ones((0, 0)), r"square matrix; got shape \(0, 0\)"),
        (symmetric(3, s12=-0.5), "got -0.5 for columns 1 and 2"),
        (symmetric(3, s02=np.inf), "got inf for columns 0 and 2"),
        (np.triu(np.ones((3, 3))), "symmetric; got 1.0 and 0.0 for columns 0 and 1"),
    ],
)
def test_wrong_similarity(matrix: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coupled(matrix)


@pytest.mark.parametrize("pool", [2, 10])
def test_a_thousand_columns_take_seconds(pool: int) -> None:
    matrix = similarity(1_000)
    start = time.perf_counter()
    tree = coupled(matrix, pool)
    assert time.perf_counter() - start < 5.0
    assert tree.columns == 1_000


def test_from_data_couples_by_absolute_correlation() -> None:
    x = normal(200, 4)
    x[:, 3] = -x[:, 0] + 0.1 * x[:, 3]
    x[:, 1] += 0.9 * x[:, 0]
    assert from_data(x) == Tree(((0, 3), (1, 2)))
    x = np.exp(3.0 * normal(300, 9))
    x[::7, 2] = np.nan
    assert from_data(x, 3) == coupled(absolute_correlation(x), 3)
    assert len({from_data(x, jitter=0.9, seed=seed) for seed in range(5)}) > 1
