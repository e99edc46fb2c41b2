"""The ranks of detectors and their figures on each set, as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.anomalies.models import MODELS, OURS
from benchmarks.anomalies.report import LABELS, METRICS, Record, ranks, settings, table

MARKS = {
    **{OURS: ("o", "#0072B2"), "iforest": ("s", "#D55E00"), "ecod": ("^", "#009E73")},
    **{"copod": ("v", "#CC79A7"), "knn": ("D", "#E69F00"), "gmm": ("X", "#6E6E6E")},
}
SHORT = {None: "complete", "mean": "20 % missing,\nmean", "iterative": "20 % missing,\niterative"}


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw mean ranks by setting, and the figures of each set, a row for each metric."""
    figure, axes = plt.subplots(
        2, 2, figsize=(9, 5.6), layout="constrained", gridspec_kw={"width_ratios": [1, 2.2]}
    )
    for (left, right), (metric, label) in zip(axes, METRICS.items(), strict=True):
        _ranks(left, records, metric)
        left.set_title(f"mean rank by {label} (1 is best)", fontsize=8, loc="left")
        _sets(right, records, metric)
        right.set_title(f"{label}, no cell missing", fontsize=8, loc="left")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(MODELS), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _ranks(ax: Any, records: Sequence[Record], metric: str) -> None:
    shown = settings(records)
    for model in MODELS:
        found = [ranks(table(records, metric, missing, fill)) for _, missing, fill in shown]
        heights = [mean.get(model, float("nan")) for mean in found]
        _line(ax, range(len(shown)), heights, model)
    ax.set_xticks(range(len(shown)), [SHORT[fill] for _, _, fill in shown], fontsize=7)
    ax.invert_yaxis()
    _dress(ax)


def _sets(ax: Any, records: Sequence[Record], metric: str) -> None:
    frame = table(records, metric, 0.0, None)
    for model in frame.columns:
        _line(ax, range(len(frame)), frame[model], model, lines=False)
    ax.set_xticks(range(len(frame)), frame.index, rotation=30, ha="right", fontsize=7)
    ax.grid(axis="x", lw=0.4, color="#DDDDDD")
    _dress(ax)


def _line(ax: Any, x: Any, y: Any, model: str, lines: bool = True) -> None:
    mark, colour = MARKS[model]
    options = {"marker": mark, "color": colour, "label": LABELS[model], "ms": 6}
    options |= {"lw": 1.0 if lines else 0.0, "zorder": 3 if model == OURS else 2}
    ax.plot(x, y, alpha=1.0 if model == OURS else 0.75, **options)


def _dress(ax: Any) -> None:
    ax.tick_params(labelsize=7, width=0.6, length=2.5)
    ax.spines[["top", "right"]].set_visible(False)
