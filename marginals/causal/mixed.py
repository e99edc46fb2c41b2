"""Graphs with directed and undirected edges, as networkx holds them.

A mixed graph is a `networkx.DiGraph`. A directed edge a -> b is the arc (a, b); an undirected one
is both arcs, (a, b) and (b, a), so that every tool for adjacency matrices reads it rightly.
"""

from collections.abc import Iterator
from typing import Any

import networkx as nx


def directed_edges(graph: nx.DiGraph) -> list[tuple[Any, Any]]:
    """Return the directed edges (a, b) of a mixed graph.

    >>> directed_edges(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")]))
    [('a', 'b')]
    """
    return [(a, b) for a, b in graph.edges if not graph.has_edge(b, a)]


def undirected_edges(graph: nx.DiGraph) -> list[tuple[Any, Any]]:
    """Return the undirected edges of a mixed graph, each once, in the order of its nodes.

    >>> undirected_edges(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")]))
    [('b', 'c')]
    """
    place = {node: i for i, node in enumerate(graph.nodes)}
    return [(a, b) for a, b in graph.edges if place[a] < place[b] and graph.has_edge(b, a)]


def arrows(graph: nx.Graph) -> Iterator[tuple[Any, Any]]:
    """Give the arcs of any networkx graph, those of an undirected edge both ways."""
    for a, b in graph.edges():
        yield a, b
        if not graph.is_directed():
            yield b, a
