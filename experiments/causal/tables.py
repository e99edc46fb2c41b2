"""Distances of the graphs found, beside those of the paper and of the empty graph."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from experiments.causal.run import METHODS, empty, mean_and_spread
from experiments.markdown import table
from experiments.registry import Record

LABELS = {
    "gaussian": "PC, Gaussian test",
    "ours": "PC, ours (q = 1)",
    "ours_q3": "PC, ours (q = 3)",
    "kci": "PC, KCI",
    "oracle": "PC, perfect tests",
}
TITLES = {
    "sigmoidal": "Sigmoidal DAGs",
    "polynomial": "Polynomial DAGs",
    "sachs": "Sachs",
}
KEYS = ("directed", "usual", "skeleton")
HEADS = ["", "SHD(D)", "SHD", "skeleton", "edges", "rows", "tests", "fit s", "search s", "runs"]


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return a table for each problem and each graph that it is compared with."""
    parts = [
        "SHD(D) is that of the Causal Discovery Toolbox, in which a reversed edge counts two and "
        "an undirected edge of the CPDAG at least one; SHD counts each pair of columns once, which "
        "is the usual convention and the toolbox's without double counting; both compare the CPDAG "
        'with the DAG. "Skeleton" leaves directions out. Means over graphs, ± standard '
        "deviation.",
    ]
    for name in [name for name in TITLES if any(r["set"] == name for r in records)]:
        own = [r for r in records if r["set"] == name]
        paired = _paired(own)
        for truth in own[0]["truths"]:
            first = truth == next(iter(own[0]["truths"]))
            reported = paper.get(name, {}) if first else {}
            parts += [f"{TITLES[name]}, against {truth}:", _table(own, truth, reported)]
        if paired:
            told = (
                f"{TITLES[name]}, graph by graph: by how much the distance of PC with the Gaussian "
                "test is larger, mean ± standard error over the graphs that both ended."
            )
            parts += [told, paired]
    return "\n\n".join(parts)


def _paired(records: Sequence[Record]) -> str:
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


def _table(records: Sequence[Record], truth: str, reported: Mapping[str, Sequence[str]]) -> str:
    lines = []
    graphs = {r["seed"]: r["truths"][truth] for r in records}
    # One set of edges for all seeds is the one real graph, which counts once.
    real = [next(iter(graphs.values()))] if len({str(g) for g in graphs.values()}) == 1 else None
    nothing = [empty(edges) for edges in real or graphs.values()]
    cells = [_figure([each[key] for each in nothing]) for key in KEYS]
    lines.append(["the empty graph", *cells, "0", "", "", "", "", str(len(nothing))])
    for method in METHODS:
        own = [r for r in records if r["method"] == method]
        if own:
            lines.append([LABELS[method], *_cells(own, truth)])
    empty_cells = [""] * (len(HEADS) - 3)
    lines += [[f"paper: {who}", *figures, *empty_cells] for who, figures in reported.items()]
    return table(HEADS, lines)


def _cells(records: Sequence[Record], truth: str) -> list[str]:
    done = [r for r in records if r["finished"]]
    runs = f"{len(done)} of {len(records)} in time" if len(done) < len(records) else str(len(done))
    rows = f"{records[0]['rows']:,}" if records[0]["rows"] else ""
    if not done:
        return ["", "", "", "", rows, "", "", f"{fmean(r['search_s'] for r in records):.0f}", runs]
    return [
        *(_figure([r["distances"][truth][key] for r in done]) for key in KEYS),
        f"{fmean(r['edges'] for r in done):.1f}",
        rows,
        f"{fmean(r['tests'] for r in done):.0f}",
        f"{fmean(r['fit_s'] for r in done):.0f}",
        f"{fmean(r['search_s'] for r in done):.1f}",
        runs,
    ]


def _figure(values: Sequence[float]) -> str:
    mean, spread = mean_and_spread(values)
    return f"{mean:.1f}" + ("" if spread is None else f" ± {spread:.1f}")
