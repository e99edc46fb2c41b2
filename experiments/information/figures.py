"""The paper's figure: estimates with error bars along the exact curve."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from experiments.drawing import COLOURS, blank
from experiments.information.tables import LABELS, columns_of, those
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUES = {
    **{"paper": COLOURS["paper"], "default": "#56b4e9"},
    **{"quick": COLOURS["ours"], "cross": "#cc79a7"},
}
MARKS = {"paper": "s", "default": "v", "quick": "o", "cross": "^"}
APART = 0.14  # so that the bars of models do not hide each other


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return one figure, with a panel for each number of rows.

    Bars are the standard deviation of seeds; of a single seed, the standard error over rows.
    """
    if not records:
        return {}
    sizes = list(dict.fromkeys(rows for rows, _ in columns_of(records)))
    figure = blank(3.6 * len(sizes), 3.1)
    panels = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    for axes, rows in zip(panels, sizes, strict=True):
        _panel(axes, records, rows)
    panels[0].set_ylabel("$I((X_1, …, X_k);\\;(X_{k+1}, …, X_{16}))$, nats")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=7)
    return {"gaussian": figure}


def _panel(axes: Any, records: Sequence[Record], rows: int) -> None:
    exact = records[0]["exact"]
    k = range(1, len(exact) + 1)
    axes.plot(k, exact, color="black", linewidth=1, label="exact", zorder=1)
    models = [model for size, model in columns_of(records) if size == rows]
    for place, model in enumerate(models):
        own = those(records, rows, model)
        values = list(zip(*(record["values"] for record in own), strict=True))
        bars = [stdev(each) for each in values] if len(own) > 1 else own[0]["stderrs"]
        axes.errorbar(
            [each + APART * (place - (len(models) - 1) / 2) for each in k],
            [fmean(each) for each in values],
            yerr=bars,
            color=HUES[model],
            marker=MARKS[model],
            markersize=3,
            linestyle="none",
            linewidth=0.8,
            capsize=1.5,
            label=f"{LABELS[model]}{'' if len(own) > 1 else ' (1 seed)'}",
        )
    axes.set(title=f"{rows:,} rows", xlabel="k", xticks=[1, 4, 8, 12, 15])
    axes.axhline(0, color="black", linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
