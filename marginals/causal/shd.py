"""The structural Hamming distance between graphs with directed and undirected edges."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from marginals.causal.adapters import EXTRA
from marginals.runtime.extras import optional

Convention = Literal["usual", "cdt"]


def shd(first: Any, second: Any, convention: Convention = "usual") -> int:
    """Count the edges by which two graphs over the same columns differ.

    "usual" counts pairs of columns whose edge differs: an edge that is missing, extra, reversed, or
    directed in only one graph counts one. "cdt" is SHD(D) of the Causal Discovery Toolbox with
    `double_for_anticausal`, which the MDMA paper reports. It counts entries of the adjacency
    matrix, where an undirected edge has two: a reversed edge counts two, as does a missing or extra
    undirected edge, and everything else counts one.

    Args:
        first, second: networkx graphs, `CausalGraph` or adjacency frames: [a, b] is true for the
            edge a -> b, and [b, a] too if it is undirected. Columns may come in any order.
        convention: "usual" or "cdt".

    >>> import networkx as nx
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
    """Return a graph as a frame of booleans: [a, b] for a -> b, and [b, a] too if undirected.

    Args:
        graph: a networkx graph, a `CausalGraph` or a frame in this form.
        name: name of the argument in errors.

    >>> import networkx as nx
    >>> adjacency(nx.DiGraph([("a", "b")])).astype(int).to_numpy().tolist()
    [[0, 1], [0, 0]]
    """
    nx = optional("networkx", EXTRA)
    graph = graph if isinstance(graph, nx.Graph) else getattr(graph, "graph", graph)
    if isinstance(graph, nx.Graph):
        return nx.to_pandas_adjacency(graph, weight=None).astype(bool)
    if not isinstance(graph, pd.DataFrame):
        raise TypeError(
            f"Expected `{name}` to be a networkx graph, a CausalGraph or an adjacency frame; got "
            f"{type(graph).__name__}."
        )
    if set(graph.index) != set(graph.columns) or not graph.index.is_unique:
        raise ValueError(
            f"Expected `{name}` to name the same columns along both sides; got {list(graph.index)} "
            f"and {list(graph.columns)}."
        )
    square = graph.loc[:, list(graph.index)]
    if not bool(square.isin([0, 1]).all(axis=None)):
        raise ValueError(f"Expected `{name}` to hold 0 and 1; got other values.")
    return square.astype(bool)
