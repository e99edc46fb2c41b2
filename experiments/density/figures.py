"""Test log-likelihood of the models of this run, a panel for each set."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.density.tables import COLUMNS, LABELS
from experiments.drawing import COLOURS, blank
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUES = {**COLOURS, "nmdma": "#56b4e9", "ht": "#0072b2"}
GREY = "#7f7f7f"


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return one figure: a point for each seed, a line for the mean."""
    names = list(dict.fromkeys(r["set"] for r in records))
    figure = blank(7.2, 1.0 + 0.26 * len({r["model"] for r in records}))
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    models = [model for model in COLUMNS if any(r["model"] == model for r in records)]
    for place, name in enumerate(names):
        _panel(axes[place], [r for r in records if r["set"] == name], models)
        axes[place].set_title(LABELS.get(name, name).replace(", ", ",\n"))
    figure.supxlabel("test log-likelihood, nats per row", fontsize=8)
    return {"scores": figure}


def _panel(axes: Any, records: Sequence[Record], models: Sequence[str]) -> None:
    for height, model in enumerate(models):
        scores = [r["test_mean"] for r in records if r["model"] == model]
        finite = [score for score in scores if score > -float("inf")]
        if finite:
            hue = HUES.get(model, GREY)
            axes.plot(finite, [height] * len(finite), "o", color=hue, markersize=4)
            axes.plot([fmean(finite)] * 2, [height - 0.25, height + 0.25], color=hue, linewidth=1.2)
        if len(finite) < len(scores):
            place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            axes.annotate("$-\\infty$", (0.03, height), **place)
    axes.set_yticks(range(len(models)), [COLUMNS[model] for model in models])
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="x", linewidth=0.3)
    axes.tick_params(axis="y", length=0)
