"""Trees: laws over random trees, errors, JSON and text."""

import copy
import json
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginals.structure import Node, Tree
from tests.examples import examples

EXAMPLE = Tree(((0, 1), (2, (3, 4))))
DEEP = 5_000


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draws any tree: joins random neighbours until one group is left."""
    level: list[Any] = draw(st.permutations(range(draw(st.integers(1, 17)))))
    if len(level) == 1:
        return Tree(level)
    while len(level) > 1:
        start = draw(st.integers(0, len(level) - 2))
        stop = draw(st.integers(start + 2, len(level)))
        level[start:stop] = [tuple(level[start:stop])]
    return Tree(level[0])


def chain(columns: int, *, leftmost: bool) -> Any:
    groups: Any = (0, 1)
    for column in range(2, columns):
        groups = (groups, column) if leftmost else (column, groups)
    return groups


def clusters(tree: Tree) -> set[frozenset[int]]:
    return {frozenset(node.columns) for node in tree.nodes}


# Nodes --------------------------------------------------------------------------------------------


def test_example_by_hand() -> None:
    assert EXAMPLE.columns == 5
    assert EXAMPLE.pool_size == 2
    assert EXAMPLE.depth == 3
    assert EXAMPLE.order == (0, 1, 2, 3, 4)
    assert EXAMPLE.groups == ((0, 1), (2, (3, 4)))
    assert EXAMPLE.nodes == (
        Node(height=1, children=(0, 1), columns=(0, 1)),
        Node(height=1, children=(3, 4), columns=(3, 4)),
        Node(height=2, children=(2, 6), columns=(2, 3, 4)),
        Node(height=3, children=(5, 7), columns=(0, 1, 2, 3, 4)),
    )
    single = Tree((0,))
    assert (single.columns, single.pool_size, single.depth, single.order) == (1, 1, 1, (0,))
    assert single.nodes == (Node(height=1, children=(0,), columns=(0,)),)


def test_nodes_of_one_height_go_left_to_right_whatever_their_depth() -> None:
    tree = Tree((((4, 5), 0), (2, 3), (1, 6)))
    scopes = [(4, 5), (2, 3), (1, 6), (4, 5, 0), (4, 5, 0, 2, 3, 1, 6)]
    assert [node.columns for node in tree.nodes] == scopes


@examples(60)
@given(trees())
def test_laws_of_nodes(tree: Tree) -> None:
    heights = [0] * tree.columns + [node.height for node in tree.nodes]
    columns = [(c,) for c in range(tree.columns)] + [node.columns for node in tree.nodes]
    for position, node in enumerate(tree.nodes):
        assert all(child < tree.columns + position for child in node.children)
        assert node.height == 1 + max(heights[child] for child in node.children)
        assert node.columns == sum((columns[child] for child in node.children), ())
    used = sorted(child for node in tree.nodes for child in node.children)
    assert used == list(range(tree.columns + len(tree.nodes) - 1))
    starts = [(node.height, tree.order.index(node.columns[0])) for node in tree.nodes]
    assert starts == sorted(starts)
    assert sorted(tree.order) == list(range(tree.columns))
    assert tree.depth == tree.nodes[-1].height
    assert tree.pool_size == max(len(node.children) for node in tree.nodes)


# Equality and copies ------------------------------------------------------------------------------


@examples(60)
@given(trees())
def test_round_trips(tree: Tree) -> None:
    for other in (
        Tree(tree.groups),
        Tree.from_json(tree.to_json()),
        pickle.loads(pickle.dumps(tree)),
        copy.deepcopy(tree),
    ):
        assert other == tree
        assert hash(other) == hash(tree)


def test_trees_are_frozen() -> None:
    groups: list[Any] = [[np.int64(0), 1], 2]
    tree = Tree(groups)
    groups.append(3)
    assert tree == Tree(((0, 1), 2))
    assert all(type(child) is int for node in tree.nodes for child in node.children)
    with pytest.raises(AttributeError):
        tree.columns = 3  # type: ignore[misc]


def test_the_order_of_children_tells_trees_apart() -> None:
    assert Tree(((0, 1), 2)) != Tree((2, (0, 1)))
    assert Tree((0, 1, 2)) != Tree(((0, 1), 2))
    assert len({Tree((0, 1)), Tree([0, 1]), Tree((1, 0))}) == 2


# Relabel and restrict --------------------------------------------------------------------------


@examples(60)
@given(trees(), st.randoms(use_true_random=False))
def test_relabel(tree: Tree, rng: Any) -> None:
    permutation = list(range(tree.columns))
    rng.shuffle(permutation)
    inverse = [permutation.index(column) for column in range(tree.columns)]
    relabelled = tree.relabel(permutation)
    assert relabelled.relabel(inverse) == tree
    assert relabelled.order == tuple(permutation[column] for column in tree.order)
    assert tree.relabel(np.arange(tree.columns)) == tree


@examples(60)
@given(trees(), st.data())
def test_restrict(tree: Tree, data: st.DataObject) -> None:
    columns = st.sampled_from(range(tree.columns))
    kept = data.draw(st.lists(columns, min_size=1, unique=True))
    restricted = tree.restrict(kept)
    assert restricted.columns == len(kept)
    # The columns keep their order and the groups are the old ones, cut to the kept columns.
    assert [kept[i] for i in restricted.order] == [c for c in tree.order if c in kept]
    cut = {cluster & set(kept) for cluster in clusters(tree)}
    expected = {cluster for cluster in cut if len(cluster) > 1} or {frozenset(kept)}
    assert {frozenset(kept[i] for i in cluster) for cluster in clusters(restricted)} == expected


def test_restrict_by_hand() -> None:
    assert EXAMPLE.restrict([0, 2, 4]) == Tree((0, (1, 2)))
    assert EXAMPLE.restrict([4, 3, 2]) == Tree((2, (1, 0)))
    assert EXAMPLE.restrict([3]) == Tree((0,))
    assert EXAMPLE.restrict(range(5)) == EXAMPLE


# Errors -------------------------------------------------------------------------------------------


ENDLESS: list[Any] = [0]
ENDLESS.insert(0, ENDLESS)


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        (ENDLESS, ValueError, "every group once"),
        (3, TypeError, "Expected `groups` to be a tuple or list; got 3"),
        (np.arange(3), TypeError, "Expected `groups` to be a tuple or list; got array"),
        ("01", TypeError, "Expected `groups` to be a tuple or list; got '01'"),
        ((0, 1.0), TypeError, "Expected `groups` to hold integers; got 1.0"),
        ((0, True), TypeError, "Expected `groups` to hold integers; got True"),
        ((0, "a"), TypeError, "Expected `groups` to hold integers; got 'a'"),
        ((), ValueError, r"groups of at least two children; got \(\)"),
        (((0, 1), ()), ValueError, r"groups of at least two children; got \(\)"),
        (((0,), 1), ValueError, r"groups of at least two children; got \(0,\)"),
        (((0, 1),), ValueError, r"groups of at least two children; got \(\(0, 1\),\)"),
        ((0, (1, 0)), ValueError, "got column 0 twice"),
        ((0, -1), ValueError, "columns 0..1; got column -1"),
        ((0, (1, 3)), ValueError, "columns 0..2; got column 3"),
        ((1,), ValueError, "columns 0..0; got column 1"),
    ],
)
def test_wrong_groups(groups: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tree(groups)


def test_wrong_labels() -> None:
    for permutation in ([0, 1], [0, 1, 2, 3, 3], [1, 2, 3, 4, 5]):
        with pytest.raises(ValueError, match=r"`permutation` to hold each of 0\.\.4 once"):
            EXAMPLE.relabel(permutation)
    for columns in ([], [0, 0], [5], [-1]):
        with pytest.raises(ValueError, match="Expected `columns` to hold distinct columns"):
            EXAMPLE.restrict(columns)
    with pytest.raises(TypeError, match=r"Expected `permutation` to hold integers; got 1\.5"):
        EXAMPLE.relabel([0, 1.5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="Expected `columns` to hold integers; got 'a'"):
        EXAMPLE.restrict("ab")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected `names` to hold 5 names; got 2"):
        EXAMPLE.draw(["a", "b"])


# JSON ---------------------------------------------------------------------------------------------


def test_json_by_hand() -> None:
    assert json.loads(EXAMPLE.to_json()) == {
        "format": "marginals.tree",
        "version": 1,
        "columns": 5,
        "groups": [[0, 1], [3, 4], [2, 6], [5, 7]],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, 'without "format"'),
        ({"version": 2}, "version 2 where this release reads 1"),
        ({"columns": None}, '"columns": None'),
        ({"columns": True}, '"columns": True'),
        ({"columns": 0}, '"columns": 0'),
        ({"columns": 10**15}, "do not join"),
        ({"groups": None}, '"groups": None'),
        ({"groups": []}, r'"groups": \[\]'),
        ({"groups": [[0, 1], 2]}, r'"groups": \[\[0, 1\], 2\]'),
        ({"groups": [[0, 1]]}, "do not join"),
        ({"groups": [[0, 1], [3, 3]]}, "the child 3, unknown or used twice"),
        ({"groups": [[0, 4], [3, 2]]}, "the child 4, unknown or used twice"),
        ({"groups": [[0, "1"], [3, 2]]}, "the child '1'"),
        ({"groups": [[0, [1]], [3, 2]]}, r"the child \[1\]"),
        ({"groups": [[0], [3, 1, 2]]}, "at least two children"),
    ],
)
def test_damaged_json(changes: dict[str, Any], message: str) -> None:
    data = json.loads(Tree(((0, 1), 2)).to_json())
    with pytest.raises(ValueError, match=message):
        Tree.from_json(json.dumps({**data, **changes}))


def test_foreign_json() -> None:
    for text in ["", "{", "[1, 2]", "null", "[" * 100_000, '"marginals.tree"']:
        with pytest.raises(ValueError, match="Expected `text` to be a tree"):
            Tree.from_json(text)


# Text ---------------------------------------------------------------------------------------------


def test_repr() -> None:
    assert repr(EXAMPLE) == "Tree(5 columns, pool 2, depth 3: ((0 1) (2 (3 4))))"
    assert str(Tree((0,))) == "Tree(1 column, pool 1, depth 1: (0))"


def test_repr_of_a_large_tree_is_short_and_cuts_no_number_in_two() -> None:
    for columns, leftmost in product([50, 1_000, DEEP], [True, False]):
        text = repr(Tree(chain(columns, leftmost=leftmost)))
        assert len(text) < 120
        assert " ... " in text
    text = repr(Tree(tuple(range(100, -1, -1))))
    numbers = text.partition(": (")[2].removesuffix("))").split()
    assert numbers[0] == "100"
    assert set(numbers) - {"..."} <= {str(column) for column in range(101)}
    assert numbers[-5:] == ["4", "3", "2", "1", "0"]


def test_draw() -> None:
    assert EXAMPLE.draw("abcde").splitlines() == [
        "5 columns",
        "├── 2 columns",
        "│   ├── a",
        "│   └── b",
        "└── 3 columns",
        "    ├── c",
        "    └── 2 columns",
        "        ├── d",
        "        └── e",
    ]
    assert Tree((1, 0)).draw() == "2 columns\n├── 1\n└── 0"
    assert Tree((0,)).draw() == "1 column\n└── 0"
    assert len(Tree(chain(1_500, leftmost=False)).draw().splitlines()) == 2 * 1_500 - 1


# Depth --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leftmost", [True, False])
def test_a_chain_of_columns_is_no_deeper_than_python_allows(leftmost: bool) -> None:
    tree = Tree(chain(DEEP, leftmost=leftmost))
    assert tree.columns == DEEP
    assert tree.depth == DEEP - 1
    assert sorted(tree.order) == list(range(DEEP))
    assert Tree(tree.groups) == tree
    assert Tree.from_json(tree.to_json()) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(copy.deepcopy(tree)) == hash(tree)
    assert tree.relabel(range(DEEP)[::-1]).relabel(range(DEEP)[::-1]) == tree
    assert tree.restrict(range(0, DEEP, 2)).depth == DEEP // 2 - 1
