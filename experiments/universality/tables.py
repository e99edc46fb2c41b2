"""The largest error of F by the number of components."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.markdown import spread, table
from experiments.registry import Record
from experiments.universality.run import EMPIRICAL
from experiments.universality.targets import TARGETS

LABELS = {
    "distance": "least squares of F",
    "likelihood": "likelihood",
    "paper": "likelihood, paper's start",
}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return the largest error for each target, way of fitting and number of components."""
    sizes = sorted({r["size"] for r in records if r["way"] != EMPIRICAL})
    lines = []
    for name in dict.fromkeys(r["target"] for r in records):
        for way, label in LABELS.items():
            cells = [spread(errors(records, name, way, size), 4) for size in sizes]
            if any(cells):
                lines.append([TARGETS[name].label, label, *cells])
        chance = spread(errors(records, name, EMPIRICAL, 0), 4)
        empty = [""] * (len(sizes) - 1)
        lines.append([TARGETS[name].label, "empirical CDF of the rows", *empty, chance])
    told = (
        "Largest |F − exact F| on a grid (mean over seeds, ± their standard deviation), by the "
        "number of components m. The empirical CDF, which has no m, stands in the last column: so "
        "much is chance for fits by likelihood to the same rows."
    )
    head = ["target", "fitted by", *(f"m = {size}" for size in sizes)]
    return f"{told}\n\n{table(head, lines)}"


def errors(records: Sequence[Record], target: str, way: str, size: int) -> list[float]:
    """Return the largest errors of all seeds."""
    wanted = (target, way, size)
    return [r["error"] for r in records if (r["target"], r["way"], r["size"]) == wanted]
