"""A picture of a report on synthetic rows."""

from typing import Any

import numpy as np

from marginals.plotting.canvas import BLUE, DATA, GREY, SIZE, WIDTH, Axes, dress, pyplot, shown
from marginals.synthesis import SynthesisReport

__all__ = ["plot_synthesis"]

_MOST_COLUMNS = 20


def plot_synthesis(report: SynthesisReport) -> Axes:
    """Draw a report in four panels: columns, pairs, telling apart, and copies; return its figure.

    Left to right: the distance of each column (at most the 20 largest), how each pair of columns
    goes together in the synthetic table against the real one, how well a classifier tells the
    tables apart, and the distances to the nearest real row.

    Args:
        report: of `marginals.synthesis_report`.
    """
    plt = pyplot()
    figure, axes = plt.subplots(
        1, 4, figsize=(1.5 * WIDTH, 2.8), layout="constrained", width_ratios=[1.2, 1, 0.6, 1]
    )
    _columns(axes[0], report)
    _pairs(axes[1], report)
    _told_apart(axes[2], report)
    _copies(axes[3], report)
    for ax in axes:
        dress(ax)
    return figure


def _columns(ax: Axes, report: SynthesisReport) -> None:
    worst = report.columns["distance"].sort_values()[-_MOST_COLUMNS:]
    ax.barh(range(len(worst)), worst.to_numpy(), color=BLUE, height=0.7)
    ax.set_yticks(range(len(worst)), [shown(name, 16) for name in worst.index])
    ax.set(xlim=(0, max(0.2, 1.05 * float(worst.max()))), xlabel="KS distance or total variation")
    ax.locator_params(axis="x", nbins=5)
    ax.set_title(
        f"columns: mean {report.summary['column_distance']:.3f}", loc="left", fontsize=SIZE
    )


def _pairs(ax: Axes, report: SynthesisReport) -> None:
    known = report.pairs.dropna()
    low = min(0.0, *known["real"], *known["synthetic"]) if len(known) else 0.0
    ax.plot([low, 1], [low, 1], color=GREY, lw=0.8)
    ax.scatter(known["real"], known["synthetic"], s=10, color=BLUE, alpha=0.7, lw=0)
    ax.set(xlabel="dependence, real", ylabel="dependence, synthetic")
    ax.set_title(
        f"pairs: mean difference {_text(report.summary['pair_difference'])}",
        loc="left",
        fontsize=SIZE,
    )


def _told_apart(ax: Axes, report: SynthesisReport) -> None:
    told = report.two_sample
    ax.axhline(0.5, color=GREY, lw=0.8)
    error = [[told.auc - told.lower], [told.upper - told.auc]]
    ax.errorbar([0], [told.auc], yerr=error, fmt="o", color=BLUE, capsize=4)
    ax.set(xlim=(-1, 1), ylim=(min(0.4, told.lower - 0.02), 1.0), xticks=[], ylabel="AUC")
    ax.set_title(f"told apart: {told.auc:.3f}", loc="left", fontsize=SIZE)


def _copies(ax: Axes, report: SynthesisReport) -> None:
    copied = report.copying
    name = "holdout" if copied.unseen == "holdout" else "other real rows"
    for distances, label, colour in (
        (copied.unseen_to_real, name, GREY),
        (copied.to_real, "synthetic", DATA),
    ):
        shares = np.arange(1, len(distances) + 1) / len(distances)
        ax.step(distances, shares, where="post", color=colour, lw=1.2, label=label)
    ax.set(xlabel="distance to the nearest real row", ylabel="share of rows", ylim=(0, 1.02))
    ax.legend(frameon=False, fontsize=SIZE - 1, loc="lower right")
    ax.set_title(
        f"close: {100 * copied.close:.0f} %, equal: {100 * copied.duplicates:.0f} %",
        loc="left",
        fontsize=SIZE,
    )


def _text(value: Any) -> str:
    return "none" if np.isnan(value) else f"{value:.3f}"
