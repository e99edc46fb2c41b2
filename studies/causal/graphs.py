"""PC with each test on random DAGs and Sachs: the distances of the graphs found."""

import itertools
import time
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from marginals import cross_fit
from marginals.causal import CausalGraph, causal_graph, shd
from studies.causal.dags import MECHANISMS, Edges, Problem, draw, sachs
from studies.harness.available import check_choice
from studies.harness.drawing import panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, spread, table
from studies.models.testers import OutOfTimeError, gaussian, kernel, oracle

METHODS = ("gaussian", "ours", "ours_q3", "kci", "oracle")


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return each problem and test; a seed is a graph."""
    names = [n for n in settings.sets if n != "sachs" or seed < settings.sachs_runs]
    every = itertools.product(names, settings.methods)
    return [{"set": name, "method": method} for name, method in every]


def _problem(settings: Settings, seed: int, context: Context, name: str) -> Problem:
    check_choice("`sets`", name, (*MECHANISMS, "sachs"))
    if name == "sachs":
        return sachs(context)
    return draw(name, settings.columns, settings.rows, seed)


def _fitted(settings: Settings, seed: int, rows: pd.DataFrame) -> tuple[Any, float]:
    """Fit the models that test each row by others, once for all numbers of functions."""
    started = time.perf_counter()
    return cross_fit(rows, folds=settings.folds, random_state=seed), time.perf_counter() - started


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the graph that a search with one of the tests finds, and its distances."""
    name, method = job["set"], check_choice("`methods`", job["method"], METHODS)
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


# Tables -------------------------------------------------------------------------------------------

LABELS = {
    "gaussian": "PC, Gaussian test",
    "ours": "PC, ours (q = 1)",
    "ours_q3": "PC, ours (q = 3)",
    "kci": "PC, KCI",
    "oracle": "PC, perfect tests",
}
TITLES = {"sigmoidal": "Sigmoidal DAGs", "polynomial": "Polynomial DAGs", "sachs": "Sachs"}
KEYS = ("directed", "usual", "skeleton")
HEADS = ["", "SHD(D)", "SHD", "skeleton", "edges", "rows", "tests", "fit s", "search s", "runs"]


def tables(records: Records, paper: Paper) -> str:
    """Return a table for each problem and each graph that it is compared with."""
    parts = [
        "SHD(D) follows the Causal Discovery Toolbox: a reversed edge counts two and an undirected "
        "edge of the CPDAG at least one. SHD counts each pair of columns once, which is the usual "
        "convention and the toolbox's without double counting. Both compare the CPDAG with the "
        'DAG. "Skeleton" ignores directions. Means over graphs, ± standard deviation.'
    ]
    for name in [name for name in TITLES if any(r["set"] == name for r in records)]:
        own = pick(records, set=name)
        paired = _paired(own)
        for truth in own[0]["truths"]:
            first = truth == next(iter(own[0]["truths"]))
            reported = paper.get(name, {}) if first else {}
            parts += [f"{TITLES[name]}, against {truth}:", _table(own, truth, reported)]
        if paired:
            told = (
                f"{TITLES[name]}, graph by graph: how much larger the distance of PC with the "
                "Gaussian test is, mean ± standard error over the graphs that both finished."
            )
            parts += [told, paired]
    return "\n\n".join(parts)


def _paired(records: Records) -> str:
    """Return differences within graphs, which differ far more among themselves."""
    truth = next(iter(records[0]["truths"]))
    found = {(r["method"], r["seed"]): r["distances"][truth] for r in records if r["finished"]}
    lines = []
    for method in [method for method in METHODS if method not in ("gaussian", "oracle")]:
        seeds = [seed for each, seed in found if each == method and ("gaussian", seed) in found]
        if len(seeds) > 1:
            cells = []
            for key in KEYS:
                off = [found["gaussian", seed][key] - found[method, seed][key] for seed in seeds]
                cells.append(f"{fmean(off):.1f} ± {stdev(off) / len(off) ** 0.5:.1f}")
            lines.append([LABELS[method], *cells, str(len(seeds))])
    return table(["", *HEADS[1:4], "graphs"], lines) if lines else ""


def _table(records: Records, truth: str, reported: Mapping[str, Sequence[str]]) -> str:
    lines = []
    graphs = {r["seed"]: r["truths"][truth] for r in records}
    # One set of edges for all seeds is the one real graph, which counts once.
    real = [next(iter(graphs.values()))] if len({str(g) for g in graphs.values()}) == 1 else None
    nothing = [empty(edges) for edges in real or graphs.values()]
    cells = [_mean([each[key] for each in nothing]) for key in KEYS]
    lines.append(["the empty graph", *cells, "0", "", "", "", "", str(len(nothing))])
    for method in METHODS:
        own = pick(records, method=method)
        if own:
            lines.append([LABELS[method], *_cells(own, truth)])
    empty_cells = [""] * (len(HEADS) - 3)
    lines += [[f"paper: {who}", *figures, *empty_cells] for who, figures in reported.items()]
    return table(HEADS, lines)


def _cells(records: Records, truth: str) -> list[str]:
    done = [r for r in records if r["finished"]]
    runs = f"{len(done)} of {len(records)} in time" if len(done) < len(records) else str(len(done))
    rows = f"{records[0]['rows']:,}" if records[0]["rows"] else ""
    if not done:
        return ["", "", "", "", rows, "", "", f"{fmean(r['search_s'] for r in records):.0f}", runs]
    return [
        *(_mean([r["distances"][truth][key] for r in done]) for key in KEYS),
        f"{fmean(r['edges'] for r in done):.1f}",
        rows,
        f"{fmean(r['tests'] for r in done):.0f}",
        f"{fmean(r['fit_s'] for r in done):.0f}",
        f"{fmean(r['search_s'] for r in done):.1f}",
        runs,
    ]


def _mean(values: Sequence[float]) -> str:
    return spread([float(value) for value in values], 1)


# Pictures -----------------------------------------------------------------------------------------

SHOWN = ("gaussian", "ours", "ours_q3", "kci")
RIGHT, OPEN, REVERSED, WRONG, MISSED = "#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#bbbbbb"
KINDS = (
    ("in the graph", RIGHT, "-"),
    ("right, direction open", OPEN, "-"),
    ("reversed", REVERSED, "-"),
    ("not in the graph", WRONG, "-"),
    ("missed", MISSED, ":"),
)
# Short names of the columns of Sachs, those of the consensus graph.
SHORT = {"praf": "raf", "pmek": "mek", "p44/42": "erk", "pakts473": "akt", "pjnk": "jnk"}
Places = dict[str, tuple[float, float]]


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Return a figure for each kind of problem, of its first graph."""
    found = {}
    for name in TITLES:
        own = [r for r in records if r["set"] == name and r["finished"]]
        if own:
            seed = min(r["seed"] for r in own)
            found[name] = _figure(name, pick(own, seed=seed))
    return found


def _figure(name: str, records: Records) -> Any:
    from matplotlib.lines import Line2D

    by_method = {r["method"]: r for r in records}
    shown = [method for method in SHOWN if method in by_method]
    title, edges = next(iter(records[0]["truths"].items()))
    truth = {(a, b) for a, b in edges}
    names = records[0]["columns"]
    figure, grid = panels(7.2, 5.2, 3, 2)
    places, axes = _ring(names), grid.ravel()
    for each in axes:
        each.set_axis_off()
    _panel(axes[0], truth, truth, places, title)
    for place, method in enumerate(shown, 1):
        record = by_method[method]
        told = record["distances"][title]
        heading = f"{LABELS[method]}\nSHD(D) {told['directed']}, SHD {told['usual']}"
        _panel(axes[place], {(a, b) for a, b in record["found"]}, truth, places, heading)
    lines = [Line2D([], [], color=hue, linestyle=style, label=label) for label, hue, style in KINDS]
    axes[-1].legend(handles=lines, loc="center", fontsize=8)
    told = "Sachs" if name == "sachs" else f"{name.capitalize()} DAG, seed {records[0]['seed']}"
    figure.suptitle(f"{told}, d = {len(names)}", fontsize=9)
    return figure


def _ring(names: Sequence[str]) -> Places:
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(1, len(names))
    return {
        name: (float(np.cos(a)), float(np.sin(a))) for name, a in zip(names, angles, strict=True)
    }


def _panel(axes: Any, found: set[Any], truth: set[Any], places: Places, title: str) -> None:
    for a, b in sorted(truth):
        if (a, b) not in found and (b, a) not in found:
            _edge(axes, places[a], places[b], MISSED, "->", ":")
    for a, b in sorted(found):
        both, arrow = (b, a) in found, "->"
        if both and a > b:
            continue
        if (a, b) in truth or (b, a) in truth:
            hue = OPEN if both else RIGHT if (a, b) in truth else REVERSED
        else:
            hue = WRONG
        _edge(axes, places[a], places[b], hue, "-" if both else arrow, "-")
    for name, (x, y) in places.items():
        axes.text(1.05 * x, 1.05 * y, SHORT.get(name, name), ha="center", va="center", fontsize=7)
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.25, 1.25), aspect="equal")
    axes.set_title(title)


def _edge(axes: Any, start: Any, end: Any, hue: str, arrow: str, style: str) -> None:
    told = {"arrowstyle": arrow, "color": hue, "linestyle": style, "linewidth": 1.0}
    told |= {"shrinkA": 8, "shrinkB": 8, "mutation_scale": 8}
    axes.annotate("", end, start, arrowprops=told)


STUDY = Study(
    "causal",
    "Causal discovery",
    measure,
    tables,
    figures,
    jobs=jobs,
    key=("set", "method"),
    parts=("sets", "methods"),
)
