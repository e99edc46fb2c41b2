"""The report on synthetic rows in four panels."""

from typing import Any

import numpy as np

from marginals.plotting.canvas import BLUE, DATA, GREY, SIZE, WIDTH, Axes, dress, pyplot, shown
from marginals.synthesis import SynthesisReport

_MOST_COLUMNS = 20


def plot_synthesis(report: SynthesisReport) -> Any:
    """Draw a report in four panels and return its figure.

    The panels show, left to right, the distance of each column (at most the 20 largest), the
    dependence of each pair of columns in the synthetic table against the real one, how well a
    classifier tells the tables apart, and the distances to the nearest real row.

    Args:
        report: the result of `marginals.synthesis_report`.
    """
    size = (1.5 * WIDTH, 2.8)
    figure, axes = pyplot().subplots(
        1, 4, figsize=size, layout="constrained", width_ratios=[1.2, 1, 0.6, 1]
    )
    for draw, ax in zip((_columns, _pairs, _two_sample, _copies), axes, strict=True):
        ax.set_title(draw(ax, report), loc="left", fontsize=SIZE)
        dress(ax)
    return figure


def _columns(ax: Axes, report: SynthesisReport) -> str:
    worst = report.columns["distance"].sort_values()[-_MOST_COLUMNS:]
    ax.barh(range(len(worst)), worst.to_numpy(), color=BLUE, height=0.7)
    ax.set_yticks(range(len(worst)), [shown(name, 16) for name in worst.index])
    ax.set(xlim=(0, max(0.2, 1.05 * float(worst.max()))), xlabel="KS distance or total variation")
    ax.locator_params(axis="x", nbins=5)
    return f"columns: mean {report.summary['column_distance']:.3f}"


def _pairs(ax: Axes, report: SynthesisReport) -> str:
    found = report.pairs.dropna()
    low = min(0.0, *found["real"], *found["synthetic"]) if len(found) else 0.0
    ax.plot([low, 1], [low, 1], color=GREY, lw=0.8)
    ax.scatter(found["real"], found["synthetic"], s=10, color=BLUE, alpha=0.7, lw=0)
    ax.set(xlabel="dependence, real", ylabel="dependence, synthetic")
    mean = report.summary["pair_difference"]
    return f"pairs: mean difference {'none' if np.isnan(mean) else f'{mean:.3f}'}"


def _two_sample(ax: Axes, report: SynthesisReport) -> str:
    found = report.two_sample
    ax.axhline(0.5, color=GREY, lw=0.8)
    error = [[found.auc - found.lower], [found.upper - found.auc]]
    ax.errorbar([0], [found.auc], yerr=error, fmt="o", color=BLUE, capsize=4)
    ax.set(xlim=(-1, 1), ylim=(min(0.4, found.lower - 0.02), 1.0), xticks=[], ylabel="AUC")
    return f"told apart: {found.auc:.3f}"


def _copies(ax: Axes, report: SynthesisReport) -> str:
    copied = report.copying
    unseen = "holdout" if copied.unseen == "holdout" else "other real rows"
    for distances, label, colour in (
        (copied.unseen_to_real, unseen, GREY),
        (copied.to_real, "synthetic", DATA),
    ):
        shares = np.arange(1, len(distances) + 1) / len(distances)
        ax.step(distances, shares, where="post", color=colour, lw=1.2, label=label)
    ax.set(xlabel="distance to the nearest real row", ylabel="share of rows", ylim=(0, 1.02))
    ax.legend(frameon=False, fontsize=SIZE - 1, loc="lower right")
    return f"close: {100 * copied.close:.0f} %, equal: {100 * copied.duplicates:.0f} %"
