"""Distances of the graphs found, beside those of the paper and of the empty graph."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.causal.run import METHODS, empty, mean_and_spread
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
        for truth in own[0]["truths"]:
            first = truth == next(iter(own[0]["truths"]))
            reported = paper.get(name, {}) if first else {}
            parts += [f"{TITLES[name]}, against {truth}:", _table(own, truth, reported)]
    return "\n\n".join(parts)


def _table(records: Sequence[Record], truth: str, reported: Mapping[str, Sequence[str]]) -> str:
    lines = ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    graphs = {r["seed"]: r["truths"][truth] for r in records}
    # One set of edges for all seeds is the one real graph, which counts once.
    real = [next(iter(graphs.values()))] if len({str(g) for g in graphs.values()}) == 1 else None
    nothing = [empty(edges) for edges in real or graphs.values()]
    cells = [_figure([each[key] for each in nothing]) for key in KEYS]
    lines.append(_line(["the empty graph", *cells, "0", "", "", "", "", str(len(nothing))]))
    for method in METHODS:
        own = [r for r in records if r["method"] == method]
        if own:
            lines.append(_line([LABELS[method], *_cells(own, truth)]))
    lines += [_line([f"paper: {who}", *figures]) for who, figures in reported.items()]
    return "\n".join(lines)


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


def _line(cells: Sequence[str]) -> str:
    padded = [*cells, *([""] * (len(HEADS) - len(cells)))]
    return "| " + " | ".join(padded) + " |"
