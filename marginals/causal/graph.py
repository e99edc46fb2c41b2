"""Causal graphs by the PC algorithm, with one model for all tests."""

import time
from dataclasses import dataclass
from typing import Any, final

import networkx as nx
import numpy as np
import pandas as pd

from marginals.causal.adapters import NAME, register_causal_learn, required
from marginals.causal.files import write
from marginals.causal.knowledge import knowledge_of, node_names, settled
from marginals.causal.mixed import directed_edges, undirected_edges
from marginals.causal.pc_search import RecordedTests
from marginals.causal.testers import as_tester


@final
@dataclass(frozen=True, eq=False)
class CausalGraph:
    """What PC found: the graphs that explain the same independences, as one mixed graph.

    Args:
        graph: a `networkx.DiGraph`; an undirected edge, whose direction the tests leave open, is
            there both ways. Edges have the attributes `kind`, "directed" or "undirected", and
            `pvalue`, the largest of the tests that kept them.
        names: of the columns.
        tests: every test run: x, y, given, statistic, pvalue, n.
        alpha: the level of the tests.
        seconds: that the search took, without the fit.
    """

    graph: nx.DiGraph
    names: tuple[Any, ...]
    tests: pd.DataFrame
    alpha: float
    seconds: float

    @property
    def directed(self) -> list[tuple[Any, Any]]:
        """The directed edges (from, to)."""
        return directed_edges(self.graph)

    @property
    def undirected(self) -> list[tuple[Any, Any]]:
        """The undirected edges, each once."""
        return undirected_edges(self.graph)

    def plot(self, ax: Any = None) -> Any:
        """Draw the graph; see `marginals.plotting.graph`.

        Args:
            ax: matplotlib axes, by default new ones.
        """
        from marginals.plotting.network import graph

        return graph(self.graph, ax=ax)

    def save(self, path: Any) -> None:
        """Write the graph for other programs: .graphml, .json (node-link) or .dot by the suffix.

        Args:
            path: of the file.
        """
        write(self.graph, path)

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
    """Find the causal graph of columns by causal-learn's PC (stable), with a model's tests.

    One fit serves all tests, and each column is transformed once for each set of columns that it
    is tested given. Rows with missing cells count: see `incomplete` of the test for what is done
    where a column conditioned on is missing. The graph says what the data says only if all common
    causes are among the columns, and independences in the data come from the graph alone.

    Needs causal-learn: pip install "marginals[causal]".

    Args:
        model_or_df: a table, each of whose rows is tested under a model that was fitted to others,
            see `cross_fit`; a fitted model, tested at the rows it was fitted to or at `data`; or
            any object with `names` and `independence_test(x, y, given=...)`.
        alpha: the level of the tests: two columns are parted where a p-value is above it.
        max_cond_vars: the most columns conditioned on, by default as many as PC asks for.
        background_knowledge: a dict with lists of edges (from, to) under "required" and
            "forbidden", and lists of columns from the earliest to the latest under "tiers"; or
            causal-learn's `BackgroundKnowledge`. A required edge is kept whatever the tests say.
        data: rows to test at.
        options: of the tests, see `marginals.queries.independence_test`.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"Expected `alpha` to lie between 0 and 1; got {alpha}.")
    if max_cond_vars is not None and max_cond_vars < 0:
        raise ValueError(f"Expected `max_cond_vars` to be at least 0; got {max_cond_vars}.")
    search = required(
        "causallearn.search.ConstraintBased.PC", "causal-learn", '"marginals[causal]"'
    )
    register_causal_learn()
    tester = as_tester(model_or_df, data, **options)
    started = time.perf_counter()
    names = RecordedTests(tester).names
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
    seconds = time.perf_counter() - started
    return CausalGraph(graph, tuple(names), frame, alpha, seconds)


def _mixed(marks: Any, names: list[Any], tests: pd.DataFrame) -> nx.DiGraph:
    """Read causal-learn's matrix: marks[j, i] = 1 and marks[i, j] = -1 for i -> j."""
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    joined = np.asarray(marks) != 0
    tails = np.asarray(marks) == -1
    pairs = tests.groupby(["x", "y"], sort=False)  # names need have no order
    largest = {frozenset(pair): p for pair, p in pairs["pvalue"].max().items()}
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            # An edge whose both ends are arrows has no direction either.
            open_ = tails[i, j] == tails[j, i]
            if joined[i, j] and (open_ or tails[i, j]):
                told = (
                    {"pvalue": float(p)}
                    if (p := largest.get(frozenset((a, b)))) is not None
                    else {}
                )
                graph.add_edge(a, b, kind="undirected" if open_ else "directed", **told)
    return graph
