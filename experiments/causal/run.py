"""PC with each test on each problem, and the distances of the graphs found."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
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


def run(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Yield a record for each problem and test; a seed is a graph."""
    for name, known in (("sets", (*MECHANISMS, "sachs")), ("methods", METHODS)):
        wrong = [each for each in getattr(settings, name) if each not in known]
        if wrong:
            raise SystemExit(f"Expected `{name}` to be among {', '.join(known)}; got {wrong[0]!r}.")
    names = [n for n in settings.sets if n != "sachs" or seed < settings.sachs_runs]
    context.bar.expect(len(names) * len(settings.methods))
    for name in names:
        problem = cache(lambda name=name: _problem(settings, seed, context, name))
        fitted = cache(lambda problem=problem: _fitted(settings, seed, problem().rows))
        for method in settings.methods:
            if context.todo(set=name, method=method):
                found = _record(settings, seed, method, problem(), fitted)
                if found is not None:
                    yield {"set": name, "method": method, **found}


def _problem(settings: Settings, seed: int, context: Context, name: str) -> Problem:
    if name == "sachs":
        return sachs(context.data)
    return draw(name, settings.columns, settings.rows, seed)


def _fitted(settings: Settings, seed: int, rows: pd.DataFrame) -> tuple[Any, float]:
    """Fit the models that test each row by others, once for all numbers of functions."""
    started = time.perf_counter()
    return cross_fit(rows, folds=settings.folds, random_state=seed), time.perf_counter() - started


def _record(
    settings: Settings,
    seed: int,
    method: str,
    problem: Problem,
    fitted: Callable[[], tuple[Any, float]],
) -> Record | None:
    rows, count, fit_s = problem.rows, len(problem.rows), 0.0
    options: dict[str, Any] = {}
    if method == "gaussian":
        tester: Any = gaussian(rows)
    elif method == "kci":
        some = rows.sample(min(count, settings.kci_rows), random_state=seed)
        tester, count = kernel(some, settings.kci_seconds), len(some)
    elif method == "oracle":
        possible = [oracle(list(rows), edges) for edges in problem.truths.values()]
        acyclic = [each for each in possible if each is not None]
        if not acyclic:
            return None
        tester, count = acyclic[0], 0
    else:
        tester, fit_s = fitted()
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
