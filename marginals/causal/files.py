"""Files of mixed graphs that other programs read."""

import json
import os
from pathlib import Path
from typing import Any

import networkx as nx

from marginals.causal.mixed import directed_edges, undirected_edges

SUFFIXES = (".graphml", ".json", ".dot")


def write(graph: nx.DiGraph, path: str | os.PathLike[str]) -> None:
    """Write a mixed graph in the format of the file's suffix.

    Args:
        graph: the graph; an undirected edge is there both ways.
        path: ends in .graphml, .json (networkx's node-link form) or .dot (Graphviz).
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix == ".graphml":
        nx.write_graphml(_distinct(graph), target)
    elif suffix == ".json":
        content = json.dumps(node_link(graph), indent=1, ensure_ascii=False)
        target.write_text(content + "\n", encoding="utf-8")
    elif suffix == ".dot":
        target.write_text(dot(graph), encoding="utf-8")
    else:
        raise ValueError(
            f"Expected the file of a graph to end in one of {list(SUFFIXES)}; got {str(path)!r}."
        )


def node_link(graph: nx.DiGraph) -> dict[str, Any]:
    """Return the graph as `networkx.node_link_graph` reads it."""
    return nx.node_link_data(graph, edges="edges")


def dot(graph: nx.DiGraph) -> str:
    r"""Return the graph in the language of Graphviz, each undirected edge once.

    >>> print(dot(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")])), end="")
    digraph {
      "a"; "b"; "c";
      "a" -> "b";
      "b" -> "c" [dir=none];
    }
    """
    graph = _distinct(graph)
    lines = [f"  {_quoted(a)} -> {_quoted(b)};" for a, b in directed_edges(graph)]
    lines += [f"  {_quoted(a)} -> {_quoted(b)} [dir=none];" for a, b in undirected_edges(graph)]
    nodes = " ".join(f"{_quoted(node)};" for node in graph.nodes)
    return "\n".join(["digraph {", f"  {nodes}", *lines, "}"]) + "\n"


def _distinct(graph: nx.DiGraph) -> nx.DiGraph:
    """Return the graph with names that differ as text too; 1 and "1" become 1 and '1'."""
    if len({str(node) for node in graph.nodes}) == len(graph):
        return graph
    return nx.relabel_nodes(graph, {node: repr(node) for node in graph.nodes})


def _quoted(name: Any) -> str:
    text = str(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
