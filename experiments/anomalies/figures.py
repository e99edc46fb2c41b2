"""AUROC against the share of missing cells: the mean over sets, and each set."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.anomalies.tables import LABELS, mean, models_of, of, whole
from experiments.drawing import COLOURS, blank
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUES = {"ours": COLOURS["ours"], "paper": COLOURS["paper"], "forest": "#d55e00"}
MARKS = {"ours": "o", "paper": "s", "forest": "^"}
ACROSS = 4


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return one figure: the mean over sets first, then a panel for each set."""
    records = whole(records)
    if not records:
        return {}
    sets = list(dict.fromkeys(record["set"] for record in records))
    down = -(-(len(sets) + 1) // ACROSS)
    figure = blank(7.6, 1.9 * down + 0.4)
    panels = figure.subplots(down, ACROSS, squeeze=False, sharex=True, sharey=True).ravel()
    _panel(panels[0], records, f"mean of {len(sets)} sets", None)
    for axes, name in zip(panels[1:], sets, strict=False):
        _panel(axes, records, name, name)
    for axes in panels[len(sets) + 1 :]:
        axes.set_visible(False)
    for axes in panels[::ACROSS]:
        axes.set_ylabel("AUROC")
    for axes in panels[max(0, len(sets) + 1 - ACROSS) : len(sets) + 1]:
        axes.set_xlabel("share of cells missing")
        axes.tick_params(labelbottom=True)  # also above panels that are not shown
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=7)
    return {"auroc": figure}


def _panel(axes: Any, records: Sequence[Record], title: str, name: str | None) -> None:
    shares = sorted({record["share"] for record in records})
    for model in models_of(records):
        if name is None:
            heights = [mean(records, "auroc", share, model) for share in shares]
        else:
            found = [of(records, name, share, model) for share in shares]
            heights = [fmean(values) if values else float("nan") for values in found]
        style = {"color": HUES[model], "marker": MARKS[model], "markersize": 3.5, "linewidth": 1}
        axes.plot(shares, heights, label=LABELS[model], **style)
    axes.set(title=title, xticks=shares)
    axes.grid(linewidth=0.3, alpha=0.5)
