"""The largest error of F against the number of components."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.drawing import COLOURS, blank
from experiments.registry import Arrays, Record
from experiments.universality.run import EMPIRICAL
from experiments.universality.tables import LABELS, errors
from experiments.universality.targets import TARGETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUES = {"distance": "#cc79a7", "likelihood": COLOURS["ours"], "paper": COLOURS["paper"]}
MARKS = {"distance": "^", "likelihood": "o", "paper": "s"}


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return one figure with a panel for each target."""
    names = [name for name in TARGETS if any(r["target"] == name for r in records)]
    if not names:
        return {}
    figure = blank(2.3 * len(names) + 0.4, 2.9)
    panels = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, records, name)
    panels[0].set_ylabel("largest |F − exact F|")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=7)
    return {"errors": figure}


def _panel(axes: Any, records: Sequence[Record], name: str) -> None:
    sizes = sorted({r["size"] for r in records if r["way"] != EMPIRICAL})
    for way, label in LABELS.items():
        found = [(size, errors(records, name, way, size)) for size in sizes]
        drawn = [(size, values) for size, values in found if values]
        style = {"color": HUES[way], "marker": MARKS[way], "markersize": 3.5, "linewidth": 1}
        axes.plot([size for size, _ in drawn], [fmean(v) for _, v in drawn], label=label, **style)
    chance = errors(records, name, EMPIRICAL, 0)
    if chance:
        dashed = {"color": "black", "linestyle": "--", "linewidth": 0.8}
        axes.axhline(fmean(chance), label="empirical CDF of the rows", **dashed)
    axes.set(xscale="log", yscale="log", xlabel="components m", title=TARGETS[name].label)
    axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=6)
    axes.minorticks_off()
    axes.grid(linewidth=0.3, alpha=0.5)
