"""The edges of a graph in which some directions are open.

A mixed graph is a `networkx.DiGraph`. A directed edge a -> b is the arc (a, b); an undirected edge
is both arcs, (a, b) and (b, a), so every tool for adjacency matrices reads it correctly.
"""

from typing import Any

__all__ = ["directed_edges", "undirected_edges"]


def directed_edges(graph: Any) -> list[tuple[Any, Any]]:
    """Return the directed edges (a, b) of a mixed graph.

    >>> import networkx as nx
    >>> directed_edges(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")]))
    [('a', 'b')]
    """
    return [(a, b) for a, b in graph.edges if not graph.has_edge(b, a)]


def undirected_edges(graph: Any) -> list[tuple[Any, Any]]:
    """Return the undirected edges of a mixed graph, each once, in the order of its nodes.

    >>> import networkx as nx
    >>> undirected_edges(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")]))
    [('b', 'c')]
    """
    place = {node: i for i, node in enumerate(graph.nodes)}
    return [(a, b) for a, b in graph.edges if place[a] < place[b] and graph.has_edge(b, a)]
