"""The tree of column groups over which a tensor is contracted."""

import json
import operator
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias, TypeVar, final

__all__ = ["Groups", "Node", "Tree"]

Groups: TypeAlias = "Sequence[int | Groups]"
Nested: TypeAlias = "int | tuple[Nested, ...]"
T = TypeVar("T")

FORMAT = "marginals.tree"
VERSION = 1


@final
@dataclass(frozen=True)
class Node:
    """Hold one group of a tree.

    Args:
        height: number of group levels from here down to the farthest column.
        children: children from left to right. With D columns, a child below D is that column and
            child D + i is the node at position i of `Tree.nodes`.
        columns: columns below, from left to right.

    >>> Tree(((0, 1), 2)).nodes[0]
    Node(height=1, children=(0, 1), columns=(0, 1))
    """

    height: int
    children: tuple[int, ...]
    columns: tuple[int, ...]


@final
@dataclass(frozen=True, init=False, repr=False)
class Tree:
    """Hold a tree of column groups.

    Two trees are equal if their groups are equal, including the order of children.

    Args:
        groups: nested tuples or lists. The outermost is the root and the innermost items are the
            columns 0, ..., D - 1, each once. A group has at least two children, except the root
            over a single column.

    >>> tree = Tree(((0, 1), (2, (3, 4))))
    >>> tree
    Tree(5 columns, pool 2, depth 3: ((0 1) (2 (3 4))))
    >>> [node.children for node in tree.nodes]
    [(0, 1), (3, 4), (2, 6), (5, 7)]
    """

    columns: int
    # The children of each group, bottom-up. Flat, because comparing, hashing, printing and
    # pickling nested tuples recurse, and a chain of columns is as deep as it is long.
    _children: tuple[tuple[int, ...], ...]

    def __init__(self, groups: Groups) -> None:
        found = _collect(groups)
        columns = [_column(item) for group in found for item in group if not _is_group(item)]
        _check_columns(columns)
        object.__setattr__(self, "columns", len(columns))
        object.__setattr__(self, "_children", _flatten(found, len(columns)))

    @property
    def groups(self) -> tuple[Nested, ...]:
        """Return the tree as nested tuples.

        >>> Tree([[0, 1], 2]).groups
        ((0, 1), 2)
        """
        return self._nest(range(self.columns))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return the groups by height, then from left to right; the root is last.

        Children precede their parents and nodes of one height are contiguous, so a tensor
        contracts the tree one height at a time.

        >>> [node.height for node in Tree(((0, 1), (2, (3, 4)))).nodes]
        [1, 1, 2, 3]
        """
        heights = [0] * self.columns
        scopes: list[tuple[int, ...]] = [(column,) for column in range(self.columns)]
        for children in self._children:
            heights.append(1 + max(heights[child] for child in children))
            scopes.append(tuple(chain.from_iterable(scopes[child] for child in children)))
        return tuple(map(Node, heights[self.columns :], self._children, scopes[self.columns :]))

    @property
    def pool_size(self) -> int:
        """Return the largest number of children of a group.

        >>> Tree(((0, 1, 2), 3)).pool_size
        3
        """
        return max(map(len, self._children))

    @property
    def depth(self) -> int:
        """Return the number of group levels on the longest path to a column.

        >>> Tree(((0, 1), (2, (3, 4)))).depth
        3
        """
        return self._fold([0] * self.columns, lambda heights: 1 + max(heights))

    @property
    def order(self) -> tuple[int, ...]:
        """Return the columns from left to right.

        >>> Tree(((3, 1), (0, 2))).order
        (3, 1, 0, 2)
        """
        return self.nodes[-1].columns

    def relabel(self, permutation: Iterable[int]) -> "Tree":
        """Replace each column c by `permutation[c]`.

        Args:
            permutation: new columns, a permutation of 0, ..., D - 1.

        >>> Tree(((0, 1), 2)).relabel([2, 0, 1]).groups
        ((2, 0), 1)
        """
        labels = [_column(label, "permutation") for label in permutation]
        if sorted(labels) != list(range(self.columns)):
            raise ValueError(
                f"Expected `permutation` to hold each of 0..{self.columns - 1} once; "
                f"got {reprlib.repr(labels)}. Give one new label per column."
            )
        return Tree(self._nest(labels))

    def restrict(self, columns: Iterable[int]) -> "Tree":
        """Keep some columns and collapse the groups left with one child.

        Args:
            columns: columns to keep; `columns[i]` becomes column i.

        >>> Tree(((0, 1), (2, (3, 4)))).restrict([4, 0, 2]).groups
        (1, (2, 0))
        """
        kept = [_column(column, "columns") for column in columns]
        unknown = [column for column in kept if not 0 <= column < self.columns]
        if unknown or not kept or len(set(kept)) < len(kept):
            raise ValueError(
                f"Expected `columns` to hold distinct columns among 0..{self.columns - 1}, at "
                f"least one; got {reprlib.repr(unknown or kept)}. Name each column to keep once."
            )
        labels: list[Nested | None] = [None] * self.columns
        for label, column in enumerate(kept):
            labels[column] = label
        root = self._fold(labels, _prune)
        return Tree(root if isinstance(root, tuple) else (0,))

    def to_json(self) -> str:
        """Return the tree as JSON: the children of every node, bottom-up.

        The lists are flat, because JSON readers limit nesting.

        >>> Tree(((0, 1), 2)).to_json()
        '{"format": "marginals.tree", "version": 1, "columns": 3, "groups": [[0, 1], [3, 2]]}'
        """
        header = {"format": FORMAT, "version": VERSION}
        return json.dumps({**header, "columns": self.columns, "groups": self._children})

    @classmethod
    def from_json(cls, text: str) -> "Tree":
        """Read the output of `to_json`.

        Args:
            text: JSON text.

        >>> tree = Tree(((0, 1), 2))
        >>> Tree.from_json(tree.to_json()) == tree
        True
        """
        return cls(_read(text))

    def draw(self, names: Iterable[object] | None = None) -> str:
        """Draw the tree as text, one line per group and per column.

        Args:
            names: names of the columns 0, ..., D - 1; None shows their numbers.

        >>> print(Tree(((0, 1), 2)).draw(["age", "income", "city"]))
        3 columns
        ├── 2 columns
        │   ├── age
        │   └── income
        └── city
        """
        labels = [str(name) for name in (range(self.columns) if names is None else names)]
        if len(labels) != self.columns:
            raise ValueError(
                f"Expected `names` to hold {self.columns} names; got {len(labels)}. "
                "Give one name per column."
            )
        labels += [_count(len(node.columns)) for node in self.nodes]
        lines = []
        stack = [(len(labels) - 1, "", "")]
        while stack:
            item, lead, indent = stack.pop()
            lines.append(lead + labels[item])
            if item >= self.columns:
                *others, last = self._children[item - self.columns]
                stack.append((last, indent + "└── ", indent + "    "))
                stack += [(child, indent + "├── ", indent + "│   ") for child in others[::-1]]
        return "\n".join(lines)

    def __getstate__(self) -> dict[str, object]:
        # Copies drop the cached nodes: those of a chain of D columns hold D^2 / 2 numbers.
        return {"columns": self.columns, "_children": self._children}

    def __repr__(self) -> str:
        text = _shorten(_write(self._children, self.columns))
        return f"Tree({_count(self.columns)}, pool {self.pool_size}, depth {self.depth}: {text})"

    def _fold(self, leaves: Iterable[T], join: Callable[[tuple[T, ...]], T]) -> T:
        values = list(leaves)
        for children in self._children:
            values.append(join(tuple(values[child] for child in children)))
        return values[-1]

    def _nest(self, labels: Iterable[int]) -> tuple[Nested, ...]:
        leaves: list[Nested] = list(labels)
        root = self._fold(leaves, tuple)
        assert isinstance(root, tuple)
        return root


# Nested groups ----------------------------------------------------------------------------------


def _is_group(item: object) -> bool:
    return isinstance(item, tuple | list)


def _collect(root: Groups) -> list[Groups]:
    """List every group after checking it, children before parents and left before right."""
    if not _is_group(root):
        raise TypeError(
            f"Expected `groups` to be a tuple or list; got {reprlib.repr(root)}. "
            "Nest the columns in tuples, such as ((0, 1), 2)."
        )
    found: list[Groups] = []
    seen: set[int] = set()
    stack: list[Any] = [root]
    while stack:
        group = stack.pop()
        single_column = group is root and len(group) == 1 and not _is_group(group[0])
        if len(group) < 2 and not single_column:
            raise ValueError(
                "Expected `groups` to hold groups of at least two children; "
                f"got {reprlib.repr(group)}. Merge it into its parent."
            )
        # A group met twice repeats its columns; a list inside itself would never end.
        if id(group) in seen:
            raise ValueError(
                f"Expected `groups` to hold every group once; got {reprlib.repr(group)} twice. "
                "Remove one of them."
            )
        seen.add(id(group))
        found.append(group)
        stack.extend(item for item in group if _is_group(item))
    # Parents were met before children and right before left: the reverse is the post-order.
    return found[::-1]


def _column(item: object, name: str = "groups") -> int:
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise TypeError(
            f"Expected `{name}` to hold integers; got {reprlib.repr(item)}. "
            "Give columns by number, from 0."
        )
    return operator.index(item)


def _check_columns(columns: Sequence[int]) -> None:
    repeated = [column for column, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(
            f"Expected `groups` to hold every column once; got column {repeated[0]} twice. "
            "Remove one of them."
        )
    # Distinct columns inside the range leave no gap.
    outside = [column for column in columns if not 0 <= column < len(columns)]
    if outside:
        raise ValueError(
            f"Expected `groups` to hold columns 0..{len(columns) - 1}; got column "
            f"{outside[0]} among {len(columns)}. Number the columns from 0 without gaps."
        )


def _flatten(found: Sequence[Groups], columns: int) -> tuple[tuple[int, ...], ...]:
    """Order groups by height, then left to right, and number them from `columns` on."""
    # Look up groups by identity, because the hash of nested tuples recurses.
    heights: dict[int, int] = {}
    for group in found:
        heights[id(group)] = 1 + max(heights.get(id(item), 0) for item in group)
    ranked = sorted(found, key=lambda group: heights[id(group)])
    position = {id(group): columns + i for i, group in enumerate(ranked)}
    return tuple(
        tuple(position[id(item)] if _is_group(item) else _column(item) for item in group)
        for group in ranked
    )


def _prune(children: "tuple[Nested | None, ...]") -> "Nested | None":
    kept = tuple(child for child in children if child is not None)
    return kept if len(kept) > 1 else next(iter(kept), None)


# Text -------------------------------------------------------------------------------------------


def _count(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _write(groups: Sequence[Sequence[int]], columns: int) -> str:
    words: list[str] = []
    stack: list[int | str] = [columns + len(groups) - 1]
    while stack:
        item = stack.pop()
        if isinstance(item, str) or item < columns:
            words.append(str(item))
        else:
            inner = [word for child in groups[item - columns] for word in (" ", child)][1:]
            stack.extend([")", *reversed(inner), "("])
    return "".join(words)


def _shorten(text: str, head: int = 40, tail: int = 24) -> str:
    if len(text) <= head + tail:
        return text
    # Cut at blanks, so that no number is cut in two.
    start = text[:head].rpartition(" ")[0] or text[:8]
    end = text[-tail:].partition(" ")[2] or text[-8:]
    return f"{start} ... {end}"


# JSON -------------------------------------------------------------------------------------------


def _damaged(cause: str) -> ValueError:
    return ValueError(
        f"Expected `text` to be a tree written by `Tree.to_json`; got {cause}. "
        "Write the tree again with `Tree.to_json`."
    )


def _read(text: str) -> Groups:
    """Return the nested groups of a tree in JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"text that is not JSON ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise _damaged(f'JSON without "format": "{FORMAT}"')
    if data.get("version") != VERSION:
        raise _damaged(f"version {data.get('version')!r} where this release reads {VERSION}")
    columns, groups = data.get("columns"), data.get("groups")
    if type(columns) is not int or columns < 1:
        raise _damaged(f'"columns": {reprlib.repr(columns)}')
    if not isinstance(groups, list) or not groups or {type(group) for group in groups} != {list}:
        raise _damaged(f'"groups": {reprlib.repr(groups)}')
    # Every column, and every group except the root, is the child of one group.
    if sum(map(len, groups)) != columns + len(groups) - 1:
        raise _damaged(f"{len(groups)} groups that do not join {columns} columns")
    orphans: dict[int, Any] = dict(enumerate(range(columns)))  # no parent so far
    for group in groups:
        members = []
        for child in group:
            if type(child) is not int or child not in orphans:
                raise _damaged(f"the child {reprlib.repr(child)}, unknown or used twice")
            members.append(orphans.pop(child))
        orphans[columns] = tuple(members)
        columns += 1
    (root,) = orphans.values()
    return root
