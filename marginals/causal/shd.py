"""The structural Hamming distance between graphs of directed and undirected edges."""

from typing import Any, Literal

import networkx as nx
import numpy as np
import pandas as pd

from marginals.causal.mixed import arrows

Convention = Literal["usual", "cdt"]


def shd(first: Any, second: Any, convention: Convention = "usual") -> int:
    """Count the edges by which two graphs of the same columns differ.

    "usual" counts pairs of columns that are joined otherwise in the two graphs: an edge that is
    missing, extra, reversed, or directed in one of them only counts one. "cdt" is SHD(D) of the
    Causal Discovery Toolbox with `double_for_anticausal`, which the paper of MDMA reports: it
    counts entries of the adjacency matrix, where an undirected edge has two. So a reversed edge
    counts two, a missing or extra undirected edge two as well, and all else one.

    Args:
        first, second: networkx graphs, `CausalGraph` or adjacency frames: [a, b] is true for the
            edge a -> b, and [b, a] too if it is undirected. The order of the columns is free.
        convention: "usual" or "cdt".

    >>> shd(nx.DiGraph([("a", "b")]), nx.DiGraph([("b", "a")]))
    1
    >>> shd(nx.DiGraph([("a", "b")]), nx.DiGraph([("b", "a")]), convention="cdt")
    2
    """
    if convention not in ("usual", "cdt"):
        raise ValueError(f"Expected `convention` to be 'usual' or 'cdt'; got {convention!r}.")
    one, other = adjacency(first, "first"), adjacency(second, "second")
    if set(one.index) != set(other.index):
        apart = sorted(map(str, set(one.index) ^ set(other.index)))
        raise ValueError(
            f"Expected both graphs to have the same columns; got {apart} in one only. Add them as "
            "nodes without edges, or leave them out."
        )
    differ = one.to_numpy() != other.loc[one.index, one.index].to_numpy()
    return int(differ.sum() if convention == "cdt" else np.triu(differ | differ.T).sum())


def adjacency(graph: Any, name: str = "graph") -> pd.DataFrame:
    """Return a graph as a frame of booleans: [a, b] for a -> b, [b, a] too if it is undirected.

    Args:
        graph: a networkx graph, a `CausalGraph` or such a frame.
        name: what the argument is called in errors.

    >>> adjacency(nx.DiGraph([("a", "b")])).astype(int).to_numpy().tolist()
    [[0, 1], [0, 0]]
    """
    graph = getattr(graph, "graph", graph) if not isinstance(graph, nx.Graph) else graph
    if isinstance(graph, nx.Graph):
        found = pd.DataFrame(False, index=list(graph.nodes), columns=list(graph.nodes))
        for a, b in arrows(graph):
            found.loc[a, b] = True
        return found
    if not isinstance(graph, pd.DataFrame):
        raise TypeError(
            f"Expected `{name}` to be a networkx graph, a CausalGraph or an adjacency frame; got "
            f"{type(graph).__name__}."
        )
    return _checked(graph, name)


def _checked(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    if set(frame.index) != set(frame.columns) or not frame.index.is_unique:
        raise ValueError(
            f"Expected `{name}` to name the same columns along both sides; got {list(frame.index)} "
            f"and {list(frame.columns)}."
        )
    square = frame.loc[:, list(frame.index)]
    if not bool(square.isin([0, 1]).all(axis=None)):
        raise ValueError(f"Expected `{name}` to hold 0 and 1; got other values.")
    return square.astype(bool)
