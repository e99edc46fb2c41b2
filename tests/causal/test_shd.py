"""The structural Hamming distance in both conventions, by hand."""

from typing import Any

import networkx as nx
import pandas as pd
import pytest

from marginals.causal import adjacency, shd

NODES = list("abcd")


def graph(*edges: str) -> nx.DiGraph:
    """Build a mixed graph from words such as "a>b" and "a-b"."""
    found = nx.DiGraph()
    found.add_nodes_from(NODES)
    for a, mark, b in edges:
        found.add_edge(a, b)
        if mark == "-":
            found.add_edge(b, a)
    return found


@pytest.mark.parametrize(
    ("first", "second", "usual", "cdt"),
    [
        (["a>b"], ["a>b"], 0, 0),
        (["a>b"], [], 1, 1),
        (["a>b"], ["b>a"], 1, 2),  # reversed
        (["a>b"], ["a-b"], 1, 1),  # directed in one only
        (["a-b"], ["a-b"], 0, 0),
        (["a-b"], [], 1, 2),
        (["a>b", "b>c", "c>d"], ["b>a", "b-c", "a>d"], 4, 5),
        (["a>b", "b>c"], ["c>b", "a>c"], 3, 4),
    ],
)
def test_by_hand(first: list[str], second: list[str], usual: int, cdt: int) -> None:
    one, other = graph(*first), graph(*second)
    assert shd(one, other) == shd(other, one) == usual
    assert shd(one, other, convention="cdt") == shd(other, one, convention="cdt") == cdt


@pytest.mark.parametrize("convention", ["usual", "cdt"])
def test_kinds_of_graphs_agree(convention: Any) -> None:
    one, other = graph("a>b", "b-c"), graph("b>a", "c>d")
    frames = adjacency(one), adjacency(other).loc[::-1, ["c", "d", "a", "b"]].astype(int)
    expected = shd(one, other, convention)
    assert shd(*frames, convention) == shd(one, frames[1], convention) == expected


def test_undirected_graphs() -> None:
    plain = nx.Graph([("a", "b"), ("b", "c")])
    plain.add_node("d")
    assert shd(plain, graph("a-b", "b-c")) == 0
    assert shd(plain, graph("a>b", "c>b"), convention="cdt") == 2


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (nx.DiGraph([("a", "b")]), ValueError, r"same columns; got \['c', 'd'\] in one only"),
        ([[0, 1], [0, 0]], TypeError, "`second` to be a networkx graph"),
        (pd.DataFrame(0, index=NODES, columns=list("abce")), ValueError, "along both sides"),
        (pd.DataFrame(2, index=NODES, columns=NODES), ValueError, "to hold 0 and 1"),
    ],
)
def test_errors_name_the_cause(bad: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        shd(graph(), bad)
    with pytest.raises(ValueError, match="'usual' or 'cdt'; got 'double'"):
        shd(graph(), graph(), "double")  # type: ignore[arg-type]
