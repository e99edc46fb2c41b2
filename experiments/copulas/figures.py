"""Tails against thresholds: what is known, and what estimates say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.copulas.tables import LABELS, of
from experiments.copulas.truth import SETS
from experiments.drawing import COLOURS, blank
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUES = {
    **{"paper": COLOURS["paper"], "ours": COLOURS["ours"], "rows": "#999999"},
    **{"gaussian": "#e69f00", "vine": "#d55e00"},
}
MARKS = {"paper": "s", "ours": "o", "rows": "x", "gaussian": "v", "vine": "^"}


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return one figure: a column for each copula, its lower tail above its upper one."""
    names = [name for name in SETS if of(records, name, "truth")]
    if not names:
        return {}
    figure = blank(2.0 * len(names) + 0.6, 4.2)
    panels = figure.subplots(2, len(names), squeeze=False, sharex=True, sharey=True)
    for row, tail in zip(panels, ("lower", "upper"), strict=True):
        row[0].set_ylabel(f"{tail} tail: share at q")
        for axes, name in zip(row, names, strict=True):
            _panel(axes, records, name, tail)
    for axes, name in zip(panels[0], names, strict=True):
        axes.set_title(SETS[name].label)
    for axes in panels[1]:
        axes.set_xlabel("threshold q")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
    return {"tails": figure}


def _panel(axes: Any, records: Sequence[Record], name: str, tail: str) -> None:
    truth = of(records, name, "truth")[0]
    q = truth["thresholds"]
    axes.plot(q, np.mean(truth[tail], 0), color="black", linewidth=1.2, label="exact")
    for model, label in LABELS.items():
        own = of(records, name, model)
        if own:
            shares = np.array([np.mean(record[tail], 0) for record in own])  # (seeds, thresholds)
            axes.errorbar(
                q,
                shares.mean(0),
                yerr=shares.std(0, ddof=1) if len(own) > 1 else None,
                color=HUES[model],
                marker=MARKS[model],
                markersize=3.5,
                linewidth=0.8,
                linestyle=":",
                capsize=1.5,
                label=label,
            )
    axes.set(xscale="log", ylim=(0, 1))
    axes.set_xticks(q, [f"{each:g}" for each in q])
    axes.minorticks_off()
