"""Tables and picture of level and power."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from matplotlib import pyplot as plt

from benchmarks.independence.mechanisms import NULL
from benchmarks.pages import report

Cell = dict[str, Any]
BAND = (0.03, 0.07)
STYLE = {
    "marginals, q=1": ("o", "#0072B2"),
    "marginals, q=2": ("s", "#56B4E9"),
    "marginals, q=3": ("^", "#009E73"),
    "Fisher z": ("v", "#E69F00"),
    "GCM": ("D", "#D55E00"),
    "KCI": ("X", "#CC79A7"),
}

_HEADING = (
    "# Level and power of the test of independence\n\n"
    "Written by `python -m benchmarks.independence report`; see "
    "[dependence.md](dependence.md) for how to read it."
)


def read(paths: Sequence[Path]) -> list[Cell]:
    """Read the cells of result files."""
    return [cell for path in paths for cell in json.loads(path.read_text())["cells"]]


def rejections(cells: Sequence[Cell], kind: str, n: int) -> pd.DataFrame:
    """Return the share of rejections at 0.05, mechanisms by tests."""
    found = {
        (cell["mechanism"], name): shares["0.05"]
        for cell in cells
        if (cell["kind"], cell["n"]) == (kind, n)
        for name, shares in cell["rejected"].items()
    }
    if not found:
        return pd.DataFrame(dtype=float)
    frame = pd.Series(found).unstack()
    return frame.reindex(
        index=[m for m in NULL if m in frame.index], columns=[s for s in STYLE if s in frame]
    )


def tables(cells: Sequence[Cell]) -> str:
    """Return everything as Markdown."""
    lines = ["## Summary", "", *_summary(cells), ""]
    kinds = list(dict.fromkeys(cell["kind"] for cell in cells))
    for kind in kinds:
        for n in sorted({cell["n"] for cell in cells if cell["kind"] == kind}):
            frame = rejections(cells, kind, n)
            counts = {c["repetitions"] for c in cells if (c["kind"], c["n"]) == (kind, n)}
            what = "Level" if kind == "null" else f"Power, {kind} dependence"
            lines += [f"### {what}, {n} rows", "", _table(frame), ""]
            lines += [f"Rejections at 0.05 among {_range(counts)} repetitions.", ""]
    return "\n".join([*lines, *_origin(cells)])


def outside(cells: Sequence[Cell]) -> list[tuple[str, int, str, float]]:
    """Return the levels of ours that leave the band: mechanism, rows, test, share."""
    return [
        (cell["mechanism"], cell["n"], name, shares["0.05"])
        for cell in _levels(cells)
        for name, shares in cell["rejected"].items()
        if not BAND[0] <= shares["0.05"] <= BAND[1]
    ]


def _levels(cells: Sequence[Cell]) -> list[Cell]:
    return [c for c in cells if (c["kind"], c["method"]) == ("null", "marginals")]


def _summary(cells: Sequence[Cell]) -> list[str]:
    count = sum(len(cell["rejected"]) for cell in _levels(cells))
    wide = outside(cells)
    told = [f"- {m}, {n} rows, {name}: {share:.3f}" for m, n, name, share in wide]
    head = f"Of {count} levels of ours {count - len(wide)} lie within {BAND[0]} and {BAND[1]}."
    return [head + (" Outside:" if told else ""), "", *told]


def _table(frame: pd.DataFrame) -> str:
    head = "| | " + " | ".join(frame.columns) + " |"
    rows = [
        f"| {name} | " + " | ".join("" if v != v else f"{v:.3f}" for v in row) + " |"
        for name, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    return "\n".join([head, "|---" * (len(frame.columns) + 1) + "|", *rows])


def _range(counts: set[int]) -> str:
    return " to ".join(str(c) for c in sorted({min(counts), max(counts)}))


def _origin(cells: Sequence[Cell]) -> list[str]:
    seconds: dict[tuple[int, str], list[float]] = {}
    for cell in cells:
        seconds.setdefault((cell["n"], cell["method"]), []).append(cell["cpu_seconds"])
    told = [
        f"{method} at {n} rows {sum(each) / len(each):.2g}"
        for (n, method), each in sorted(seconds.items())
    ]
    commits = sorted({cell["commit"] for cell in cells})
    return [
        f"CPU seconds of a test, on one thread: {', '.join(told)}.",
        f"Commit {', '.join(commits)}, {min(cell['date'] for cell in cells)[:10]}.",
    ]


def draw(cells: Sequence[Cell], path: Path) -> None:
    """Draw the level by mechanism and number of rows, and the power by mechanism."""
    alternatives = [k for k in dict.fromkeys(c["kind"] for c in cells) if k != "null"]
    figure, axes = plt.subplots(
        1, 1 + len(alternatives), figsize=(9.5, 3.4), layout="constrained", squeeze=False
    )
    _level(axes[0, 0], cells)
    for ax, kind in zip(axes[0, 1:], alternatives, strict=True):
        n = min(c["n"] for c in cells if c["kind"] == kind)
        frame = rejections(cells, kind, n)
        for name in frame.columns:
            marker, colour = STYLE[name]
            ax.plot(
                frame[name], range(len(frame)), marker, color=colour, label=name, ms=5, alpha=0.8
            )
        ax.set(xlim=(-0.03, 1.03), yticks=range(len(frame)), yticklabels=frame.index)
        ax.invert_yaxis()
        ax.set_title(f"power, {kind} dependence, {n} rows", fontsize=8, loc="left")
        _dress(ax)
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _level(ax: Any, cells: Sequence[Cell]) -> None:
    sizes = sorted({c["n"] for c in cells if c["kind"] == "null" and c["method"] == "marginals"})
    ax.axvspan(*BAND, color="0.9")
    ax.axvline(0.05, color="0.5", lw=0.8)
    names = list(NULL)
    for place, n in enumerate(sizes):
        frame = rejections(cells, "null", n).reindex(names)
        for name in [c for c in frame.columns if c.startswith("marginals")]:
            marker, colour = STYLE[name]
            heights = [i + 0.22 * (place - (len(sizes) - 1) / 2) for i in range(len(names))]
            ax.plot(frame[name], heights, marker, color=colour, ms=4, alpha=0.8)
    ax.set(yticks=range(len(names)), yticklabels=names, xlim=(0, 0.12))
    ax.set_title(
        f"level at 0.05, rows {', '.join(map(str, sizes))} from above", fontsize=8, loc="left"
    )
    ax.invert_yaxis()
    _dress(ax)


def _dress(ax: Any) -> None:
    ax.tick_params(labelsize=7)
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def main(arguments: list[str]) -> None:
    """Write the tables and the picture."""
    report("benchmarks.independence", arguments, read, tables, draw, heading=_HEADING)
