"""The imputation benchmark as a picture: error, CRPS and coverage of each method by table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.imputation.report import LABELS, ORDER, Entry, average

# Shapes and colours that also differ in grey and for the colour-blind.
MARKS = {
    "mdma": ("o", "#08306b"),
    "iterative": ("s", "#e69f00"),
    "miceforest": ("D", "#d55e00"),
    "knn": ("^", "#7f7f7f"),
    "mean": ("v", "#009e73"),
}
PANELS = {
    "rmse": "RMSE, standard deviations",
    "crps": "CRPS, standard deviations",
    "coverage": "coverage of 90 % intervals",
}
TARGET = (0.87, 0.93)


def draw(found: Sequence[Entry], path: Path) -> None:
    """Draw the means over settings, one line for each table, and save them."""
    tables = list(dict.fromkeys(entry.table for entry in found))
    methods = [method for method in ORDER if any(e.method == method for e in found)]
    size = (8.0, 1.1 + 0.32 * len(tables))
    style = {"font.size": 8, "axes.linewidth": 0.6}
    with plt.rc_context(style):
        figure, axes = plt.subplots(1, 3, figsize=size, sharey=True, layout="constrained")
        for panel, (metric, title) in zip(axes, PANELS.items(), strict=True):
            for method in methods:
                _marks(panel, found, tables, method, metric)
            _dress(panel, tables, title)
        axes[2].axvspan(*TARGET, color="0.9", zorder=0)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
        figure.savefig(path, dpi=200)
        plt.close(figure)


def _marks(panel: Any, found: Sequence[Entry], tables: list[str], method: str, metric: str) -> None:
    shape, colour = MARKS[method]
    points = []
    for y, table in enumerate(tables):
        own = [e for e in found if (e.table, e.method) == (table, method)]
        figure = average(own, metric)
        if figure is not None:
            points.append((figure, y))
    if points:
        x, y = zip(*points, strict=True)
        face = colour if method == "mdma" else "white"
        panel.plot(
            *(x, y, shape),
            color=colour,
            markerfacecolor=face,
            markersize=5,
            label=LABELS[method],
            zorder=3 if method == "mdma" else 2,
        )


def _dress(panel: Any, tables: list[str], title: str) -> None:
    panel.set_yticks(range(len(tables)), tables)
    panel.set_ylim(len(tables) - 0.5, -0.5)
    panel.set_xlabel(title)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", color="0.92", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
