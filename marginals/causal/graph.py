"""Causal graphs by the PC algorithm, with one model for all tests."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd

from marginals.causal.adapters import EXTRA, NAME, register_causal_learn
from marginals.causal.knowledge import knowledge_of, node_names, settled
from marginals.causal.pc_search import RecordedTests, as_tester, names_of
from marginals.runtime.extras import optional
from marginals.structure.mixed_graph import directed_edges, undirected_edges

if TYPE_CHECKING:
    import networkx as nx

SUFFIXES = (".graphml", ".json", ".dot")


@final
@dataclass(frozen=True, eq=False)
class CausalGraph:
    """Hold the result of PC: all graphs that explain the same independences, as one mixed graph.

    Args:
        graph: a `networkx.DiGraph`; an undirected edge, whose direction the tests leave open,
            appears both ways. Edges have the attributes `kind`, "directed" or "undirected", and
            `pvalue`, the largest p-value of the tests that kept them.
        names: names of the columns.
        tests: all tests that ran: x, y, given, statistic, pvalue, n.
        alpha: level of the tests.
        seconds: duration of the search, without the fit.
    """

    graph: "nx.DiGraph"
    names: tuple[Any, ...]
    tests: pd.DataFrame
    alpha: float
    seconds: float

    @property
    def directed(self) -> list[tuple[Any, Any]]:
        """Return the directed edges (from, to)."""
        return directed_edges(self.graph)

    @property
    def undirected(self) -> list[tuple[Any, Any]]:
        """Return the undirected edges, each once."""
        return undirected_edges(self.graph)

    def plot(self, ax: Any = None) -> Any:
        """Draw the graph; see `marginals.plotting.graph`.

        Args:
            ax: matplotlib axes; by default new ones.
        """
        from marginals.plotting import graph

        return graph(self.graph, ax=ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph for other programs, in the format of the file's suffix.

        Args:
            path: a file name ending in .graphml, .json (networkx's node-link form) or .dot
                (Graphviz).
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise ValueError(
                f"Expected the file of a graph to end in one of {list(SUFFIXES)}; got "
                f"{str(path)!r}."
            )
        if suffix == ".graphml":
            _networkx().write_graphml(_distinct(self.graph), target)
            return
        content = _networkx().node_link_data(self.graph, edges="edges")
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        target.write_text(text if suffix == ".json" else dot(self.graph), encoding="utf-8")

    def __str__(self) -> str:
        lines = [f"{a} -> {b}" for a, b in self.directed]
        lines += [f"{a} -- {b}" for a, b in self.undirected]
        return "\n".join(lines) or "no edges"


def causal_graph(
    model_or_df: Any,
    *,
    alpha: float = 0.01,
    max_cond_vars: int | None = None,
    background_knowledge: Any = None,
    data: Any = None,
    **options: Any,
) -> CausalGraph:
    """Find the causal graph of columns by causal-learn's stable PC, with a model's tests.

    One fit serves all tests, and each column is transformed once for each conditioning set. Rows
    with missing cells are used; the test option `incomplete` decides what happens if a column to
    condition on is missing. PC assumes that all common causes are among the columns, and that
    independences in the data come from the graph alone.

    Needs causal-learn: pip install "marginals[causal]".

    Args:
        model_or_df: a table, each row of which is tested under a model fitted to other rows, see
            `cross_fit`; a fitted model, tested on its fitted rows or on `data`; or any object with
            `names` and `independence_test(x, y, given=...)`.
        alpha: level of the tests: a p-value above it separates two columns.
        max_cond_vars: most columns to condition on; by default as many as PC needs.
        background_knowledge: a dict with lists of edges (from, to) under "required" and
            "forbidden", and lists of columns from the earliest to the latest under "tiers"; or
            causal-learn's `BackgroundKnowledge`. A required edge is kept whatever the tests find.
        data: rows to test on.
        options: options of the tests; see `marginals.queries.independence_test`.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"Expected `alpha` to lie between 0 and 1; got {alpha}.")
    if max_cond_vars is not None and max_cond_vars < 0:
        raise ValueError(f"Expected `max_cond_vars` to be at least 0; got {max_cond_vars}.")
    search = optional("causallearn.search.ConstraintBased.PC", EXTRA)
    register_causal_learn()
    tester = as_tester(model_or_df, data, **options)
    started = time.perf_counter()
    names = names_of(tester)
    knowledge = knowledge_of(background_knowledge, names)
    tests = RecordedTests(tester, alpha, settled(knowledge, names))
    found = search.pc(
        np.zeros((len(names) + 1, len(names))),  # the tests bring their own rows
        alpha,
        NAME,
        background_knowledge=knowledge,
        show_progress=False,
        node_names=node_names(names),
        max_k=max_cond_vars,
        tester=tests,
    )
    frame = tests.frame()
    graph = _mixed(found.G.graph, names, frame)
    return CausalGraph(graph, tuple(names), frame, alpha, time.perf_counter() - started)


def dot(graph: "nx.DiGraph") -> str:
    r"""Return a mixed graph in Graphviz's language, each undirected edge once.

    >>> import networkx as nx
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


def _mixed(marks: Any, names: list[Any], tests: pd.DataFrame) -> "nx.DiGraph":
    """Read causal-learn's matrix: marks[j, i] = 1 and marks[i, j] = -1 for i -> j."""
    graph = _networkx().DiGraph()
    graph.add_nodes_from(names)
    tails = np.asarray(marks) == -1
    pairs = tests.groupby(["x", "y"], sort=False)  # names of mixed types have no order
    largest = {frozenset(pair): p for pair, p in pairs["pvalue"].max().items()}
    for i, j in np.argwhere(np.asarray(marks) != 0):
        undirected = tails[i, j] == tails[j, i]  # arrows at both ends show no direction either
        if undirected or tails[i, j]:
            graph.add_edge(names[i], names[j], kind="undirected" if undirected else "directed")
            p = largest.get(frozenset((names[i], names[j])))
            if p is not None:
                graph.edges[names[i], names[j]]["pvalue"] = float(p)
    return graph


def _distinct(graph: "nx.DiGraph") -> "nx.DiGraph":
    """Return the graph with names that differ as text; 1 and "1" become 1 and '1'."""
    if len({str(node) for node in graph.nodes}) == len(graph):
        return graph
    return _networkx().relabel_nodes(graph, {node: repr(node) for node in graph.nodes})


def _networkx() -> Any:
    return optional("networkx", EXTRA)


def _quoted(name: Any) -> str:
    text = str(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
