"""PC with each test on each problem, and the distances of the graphs found."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import networkx as nx
import numpy as np
import pandas as pd

from experiments.causal.data import MECHANISMS, Edges, Problem, draw, sachs
from experiments.causal.testers import OutOfTimeError, gaussian, kernel, oracle
from experiments.context import Context
from experiments.registry import Record
from marginals import cross_fit
from marginals.causal import CausalGraph, causal_graph, shd

METHODS = ("gaussian", "ours", "ours_q3", "kci", "oracle")


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/causal.toml`."""

    sets: tuple[str, ...]
    methods: tuple[str, ...]
    columns: int
    rows: int
    folds: int
    alpha: float
    kci_rows: int
    kci_seconds: float
    sachs_runs: int


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each problem and test; a seed is a graph."""
    for name, known in (("sets", (*MECHANISMS, "sachs")), ("methods", METHODS)):
        wrong = [each for each in getattr(settings, name) if each not in known]
        if wrong:
            raise SystemExit(f"Expected `{name}` to be among {', '.join(known)}; got {wrong[0]!r}.")
    names = [n for n in settings.sets if n != "sachs" or seed < settings.sachs_runs]
    every = itertools.product(names, settings.methods)
    return [{"set": name, "method": method} for name, method in every]


def _problem(settings: Settings, seed: int, context: Context, name: str) -> Problem:
    if name == "sachs":
        return sachs(context.data)
    return draw(name, settings.columns, settings.rows, seed)


def _fitted(settings: Settings, seed: int, rows: pd.DataFrame) -> tuple[Any, float]:
    """Fit the models that test each row by others, once for all numbers of functions."""
    started = time.perf_counter()
    return cross_fit(rows, folds=settings.folds, random_state=seed), time.perf_counter() - started


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the graph that a search with one of the tests finds, and its distances."""
    name, method = job["set"], job["method"]
    problem = context.once(name, lambda: _problem(settings, seed, context, name))
    rows, count, fit_s = problem.rows, len(problem.rows), 0.0
    options: dict[str, Any] = {}
    if method == "gaussian":
        tester: Any = gaussian(rows)
    elif method == "kci":
        some = rows.sample(min(count, settings.kci_rows), random_state=seed)
        tester, count = kernel(some, settings.kci_seconds), len(some)
    elif method == "oracle":
        possible = [oracle(list(rows), edges) for edges in problem.truths.values()]
        tester, count = next(each for each in possible if each is not None), 0
    else:
        tester, fit_s = context.once((name, "fit"), lambda: _fitted(settings, seed, rows))
        options = {"q": 3} if method == "ours_q3" else {}
    started = time.perf_counter()
    try:
        graph = causal_graph(tester, alpha=settings.alpha, **options)
    except OutOfTimeError:
        graph = None
    return {
        "rows": count,
        "columns": list(rows),
        "fit_s": round(fit_s, 2),
        "search_s": round(time.perf_counter() - started, 2),
        "finished": graph is not None,
        "truths": {name: [list(edge) for edge in edges] for name, edges in problem.truths.items()},
        **({} if graph is None else _scored(graph, list(rows), problem.truths)),
    }


def _scored(graph: CausalGraph, names: Sequence[str], truths: dict[str, Edges]) -> Record:
    """Return the edges found and their distances from each truth, in both conventions."""
    scores = {name: distances(graph.graph, names, edges) for name, edges in truths.items()}
    return {
        "tests": len(graph.tests),
        "edges": len(graph.directed) + len(graph.undirected),
        "found": [list(edge) for edge in graph.graph.edges],
        "distances": scores,
    }


def distances(found: nx.DiGraph, names: Sequence[str], edges: Edges) -> dict[str, int]:
    """Return SHD(D) and SHD of the paper, and the distance of the skeletons."""
    truth = nx.DiGraph()
    truth.add_nodes_from(names)
    truth.add_edges_from(edges)
    joined = {frozenset(edge) for edge in found.edges}
    return {
        "directed": shd(found, truth, "cdt"),
        "usual": shd(found, truth),
        "skeleton": len(joined ^ {frozenset(edge) for edge in edges}),
    }


def empty(edges: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the distances of the graph without edges."""
    names = sorted(set(itertools.chain.from_iterable(edges)))
    nothing = nx.DiGraph()
    nothing.add_nodes_from(names)
    return distances(nothing, names, [(a, b) for a, b in edges])


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean, and the standard deviation of two or more."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
