"""The scoreboard as a picture: how far each model is from one of them, on each data set."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.likelihood.report import ORDER, Entry

# Shapes and colours that also differ in grey and for the colour-blind.
MARKS = {
    "fast": ("o", "#9ecae1"),
    "balanced": ("o", "#4292c6"),
    "best": ("o", "#08306b"),
    "paper": ("P", "#009e73"),
    "gmm": ("s", "#000000"),
    "kde": ("^", "#7f7f7f"),
    "vine": ("D", "#cc79a7"),
    "einet": ("v", "#e69f00"),
    "nsf": ("X", "#d55e00"),
}
FILLED = ("fast", "balanced", "best", "paper", "nsf")
LINEAR = 1.0  # nats around zero that are drawn to scale; beyond them the axis is logarithmic
FARTHEST = 40.0


def differences(found: Sequence[Entry], against: str) -> list[tuple[Entry, float]]:
    """Return each entry with its mean less that of one model, or of the best, on its data set.

    Data sets on which that model has no finite figure are left out.
    """
    shown = []
    for name in dict.fromkeys(entry.name for entry in found):
        here = [entry for entry in found if entry.name == name]
        zero = [
            e.mean for e in here if against == "best" or (e.model, e.partial) == (against, False)
        ]
        if zero and math.isfinite(max(zero)):
            shown += [(entry, entry.mean - max(zero)) for entry in here]
    return shown


def draw(found: Sequence[Entry], path: Path, against: str = "gmm") -> None:
    """Draw the differences, one line for each data set, and save them."""
    shown = differences(found, against)
    if not shown:
        raise SystemExit(
            f"Expected results of {against!r} to compare with; got none. Give --against a model "
            "that was run, or best."
        )
    names = list(dict.fromkeys(entry.name for entry, _ in shown))
    models = [model for model in ORDER if any(entry.model == model for entry, _ in shown)]
    with plt.rc_context({"font.size": 8, "axes.linewidth": 0.6}):
        figure, axes = plt.subplots(figsize=(6.5, 0.8 + 0.42 * len(names)), layout="constrained")
        for entry, difference in shown:
            offset = 0.36 * (models.index(entry.model) / max(1, len(models) - 1) - 0.5)
            _mark(axes, entry, difference, names.index(entry.name) + offset)
        _dress(axes, names, against)
        ranked = sorted((e for e, _ in shown), key=lambda e: (ORDER.index(e.model), e.partial))
        _legend(figure, axes, list(dict.fromkeys(entry.label for entry in ranked)))
        figure.savefig(path, dpi=200)
        plt.close(figure)


def _mark(axes: Any, entry: Entry, difference: float, y: float) -> None:
    shape, colour = MARKS[entry.model]
    beyond = difference < -FARTHEST
    face = colour if entry.model in FILLED and not entry.partial else "white"
    axes.errorbar(
        -FARTHEST if beyond else difference,
        y,
        xerr=None if beyond else entry.spread,
        fmt="<" if beyond else shape,
        color=colour,
        markerfacecolor=face,
        markersize=5,
        elinewidth=0.8,
        label=None if beyond else entry.label,
        clip_on=False,
    )


def _dress(axes: Any, names: list[str], against: str) -> None:
    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    for row in range(len(names) - 1):
        axes.axhline(row + 0.5, color="0.9", linewidth=0.6, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.0)
    highest = max(LINEAR, axes.get_xlim()[1])
    axes.set_xlim(-FARTHEST, highest)
    ticks = [t for t in (-30, -10, -3, -1, -0.5, 0, 0.5, 1, 3, 10, 30) if t <= highest]
    axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(axis="y", length=0)
    zero = "the best model" if against == "best" else against.upper()
    axes.set_xlabel(f"test log-likelihood less that of {zero}, nats per row (◂ farther, or -inf)")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(figure: Any, axes: Any, order: list[str]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    marks = dict(zip(labels, handles, strict=True))
    shown = [label for label in order if label in marks]
    figure.legend(
        [marks[label] for label in shown],
        shown,
        loc="outside upper center",
        ncols=4,
        frameon=False,
        columnspacing=1.0,
        fontsize=7,
    )
