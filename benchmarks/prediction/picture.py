"""The prediction benchmark as a picture: CRPS and coverage of each model by table."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.prediction.report import LABELS, ORDER, Record, figures

MARKS = {"mdma": ("o", "#08306b"), "boosting": ("D", "#d55e00"), "linear": ("s", "#7f7f7f")}
PANELS = {
    "crps": "CRPS, standard deviations",
    "coverage": "coverage of 90 % intervals",
    "log_loss": "log loss of classes, nats",
}


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw each seed's figures, a line for each table and share of gaps, and save them."""
    shown = {metric: found for metric in PANELS if (found := figures(records, metric))}
    with plt.rc_context({"font.size": 8, "axes.linewidth": 0.6}):
        figure, grid = plt.subplots(
            1, len(shown), figsize=(2.7 * len(shown), 2.8), squeeze=False, layout="constrained"
        )
        axes = dict(zip(shown, grid[0], strict=True))
        for metric, panel in axes.items():
            found = shown[metric]
            lines = list(dict.fromkeys((name, missing) for name, missing, _ in found))
            lines.sort(key=lambda line: (line[0], line[1]))
            for (name, missing, model), own in found.items():
                _mark(panel, own, lines.index((name, missing)), model)
            names = [f"{name}, {missing:.0%} gaps" for name, missing in lines]
            _dress(panel, names, PANELS[metric])
        if "coverage" in axes:
            axes["coverage"].axvspan(0.87, 0.93, color="0.9", zorder=0)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        by_label = dict(zip(labels, handles, strict=True))
        order = [LABELS[m] for m in ORDER if LABELS[m] in by_label]
        figure.legend(
            [by_label[label] for label in order],
            order,
            loc="outside upper center",
            ncols=3,
            frameon=False,
        )
        figure.savefig(path, dpi=200)
        plt.close(figure)


def _mark(panel: Any, own: list[float], line: int, model: str) -> None:
    shape, colour = MARKS[model]
    y = line + 0.2 * (ORDER.index(model) - 1)
    panel.plot(own, [y] * len(own), "|", color=colour, markersize=4)
    panel.plot(
        *(fmean(own), y, shape),
        color=colour,
        markerfacecolor=colour if model == "mdma" else "white",
        markersize=5,
        label=LABELS[model],
    )


def _dress(panel: Any, names: list[str], title: str) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlabel(title)
    panel.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
