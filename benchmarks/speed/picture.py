"""The time of a training step by size: ours, the authors' and the floor."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator

from benchmarks.records import Record
from benchmarks.speed.report import AXES, LABELS, machine_of, machines, on_curve

# Shapes and colours that also differ in grey and for the colour-blind.
MARKS = {"ours": ("o", "#0072B2"), "authors": ("s", "#D55E00")}


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw a row of panels for each machine, a panel for each size that is varied."""
    scaled = [r for r in records if r["part"] == "scaling"]
    names = machines(scaled)
    if not names:
        raise SystemExit("Expected results of `--only scaling` to draw; got none.")
    size = (9.0, 0.6 + 2.3 * len(names))
    with plt.rc_context({"font.size": 8, "axes.linewidth": 0.6}):
        figure, axes = plt.subplots(
            len(names), len(AXES), figsize=size, sharey="row", squeeze=False, layout="constrained"
        )
        for row, name in zip(axes, names, strict=True):
            own = [r for r in scaled if machine_of(r) == name]
            for panel, axis in zip(row, AXES, strict=True):
                _curves(panel, own, axis)
            row[0].set_title(name, fontsize=8, loc="left")
            row[0].set_ylabel("training step, ms")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        plt.close(figure)


def _curves(panel: Any, records: Sequence[Record], axis: str) -> None:
    for who, (mark, colour) in MARKS.items():
        curve = on_curve(records, axis, who)
        x, y = [r[axis] for r in curve], [r["step_ms"] for r in curve]
        panel.plot(x, y, marker=mark, color=colour, ms=4, lw=1.0, label=LABELS[who])
    curve = on_curve(records, axis, "ours")
    x, y = [r[axis] for r in curve], [r["floor_ms"]["all"] for r in curve]
    panel.plot(x, y, color="0.4", lw=1.0, ls="--", label="floor")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(x, [_short(size) for size in x])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel(AXES[axis])
    panel.grid(color="0.92", lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _short(size: int) -> str:
    """Write a size in few letters.

    >>> _short(512), _short(8000), _short(10_000_000)
    ('512', '8k', '10M')
    """
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
