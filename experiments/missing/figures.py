"""The paper's figure: test log-likelihood against the share of missing cells."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from experiments.drawing import COLOURS, blank
from experiments.missing.data import GAPS
from experiments.missing.tables import LABELS, TITLES, models_of, shares_of, values
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUES = {
    **{"paper": COLOURS["paper"], "ours": COLOURS["ours"], "nsf_mice": COLOURS["nsf"]},
    **{"nsf_knn": "#cc79a7", "nsf_mean": "#999999"},
}
MARKS = {"paper": "s", "ours": "o", "nsf_mice": "^", "nsf_knn": "v", "nsf_mean": "D"}


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return one figure with a panel for each set."""
    names = list(dict.fromkeys(r["set"] for r in records if r["set"] != GAPS))
    if not names:
        return {}
    figure = blank(3.5 * len(names), 3.2)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, [r for r in records if r["set"] == name], name)
    panels[0].set_ylabel("test log-likelihood, nats per row")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=7)
    return {"curves": figure}


def _panel(axes: Any, records: Sequence[Record], name: str) -> None:
    shares = shares_of(records, name)
    for model in models_of(records):
        found = [values(records, name, share, model) for share in shares]
        drawn = [(share, each) for share, each in zip(shares, found, strict=True) if each]
        axes.errorbar(
            [share for share, _ in drawn],
            [fmean(each) for _, each in drawn],
            yerr=[stdev(each) if len(each) > 1 else 0.0 for _, each in drawn],
            color=HUES[model],
            marker=MARKS[model],
            markersize=3.5,
            linewidth=1,
            capsize=2,
            label=LABELS[model],
        )
    rest = [r["test"] for r in records if r["model"] != "nsf_mean"]
    if len(rest) < len(records) and rest:  # filling by means falls so far that it would hide them
        axes.set_ylim(bottom=min(rest) - 0.25 * (max(rest) - min(rest)))
    axes.set(title=TITLES[name], xlabel="probability that a cell is missing", xticks=shares)
    axes.spines[["top", "right"]].set_visible(False)
