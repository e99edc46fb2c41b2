"""A check in six panels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from marginals.plotting.canvas import BLUE, DATA, GREY, SIZE, WIDTH, Axes, dress, pyplot, shown

if TYPE_CHECKING:
    from marginals.checking.check_report import CheckReport

_MOST = 12  # bars or curves
_PARTS = {
    **{"margin": BLUE, "pair": "#56B4E9", "calibration": "#009E73"},
    **{"questions": DATA, "rules": "#E69F00"},
}


def plot_check(report: "CheckReport") -> Any:
    """Draw a check in six panels and return its figure.

    Top: the columns to look at first, the distance of each margin, and that of each pair. Bottom:
    how far the levels of a column given the others are from uniform, the answers to plain
    questions, and the rules that draws break. Orange marks what is off.
    """
    figure, axes = pyplot().subplots(2, 3, figsize=(1.5 * WIDTH, 6.0), layout="constrained")
    draws = (_columns, _margins, _pairs, _calibration, _questions, _rules)
    for draw, ax in zip(draws, axes.flat, strict=True):
        ax.set_title(draw(ax, report), loc="left", fontsize=SIZE)
        dress(ax)
    return figure


def _columns(ax: Axes, report: "CheckReport") -> str:
    worst = report.columns.head(_MOST)[::-1]
    left = np.zeros(len(worst))
    for part, colour in _PARTS.items():
        ax.barh(range(len(worst)), worst[part], left=left, color=colour, height=0.7, label=part)
        left += worst[part].to_numpy()
    ax.set_yticks(range(len(worst)), [shown(name, 16) for name in worst.index])
    ax.set(
        xlim=(0, max(0.1, 1.05 * float(left.max(initial=0.0)))),
        xlabel="excess distances and shares",
    )
    ax.legend(frameon=False, fontsize=SIZE - 1, loc="lower right")
    return "columns to look at first"


def _margins(ax: Axes, report: "CheckReport") -> str:
    worst = report.margins.sort_values("excess").tail(_MOST)
    _bars(ax, worst.index, worst["distance"], worst["off"], worst["noise"])
    ax.set(xlabel="distance of the margin; black: by chance")
    return _title(report, "margins")


def _pairs(ax: Axes, report: "CheckReport") -> str:
    worst = report.pairs.head(_MOST)[::-1]
    names = [
        f"{shown(a, 11)} × {shown(b, 11)}"
        for a, b in zip(worst["first"], worst["second"], strict=True)
    ]
    _bars(ax, names, worst["distance"], worst["off"], worst["noise"] + worst["alone"])
    ax.set(xlabel="distance of the pair; black: chance and margins")
    return _title(report, "pairs")


def _calibration(ax: Axes, report: "CheckReport") -> str:
    order = np.argsort(-report.calibration["excess"].to_numpy(), kind="stable")
    for rank, place in reversed(list(enumerate(order[:_MOST]))):
        levels = np.sort(report.levels[:, place])
        levels = levels[~np.isnan(levels)]
        if not len(levels):
            continue
        gap = np.arange(1, len(levels) + 1) / len(levels) - levels
        off = bool(report.calibration["off"].iloc[place])
        name = shown(report.calibration.index[place], 16) if off and rank < 3 else None
        style = {"lw": 1.2} if off else {"lw": 0.6, "alpha": 0.6}
        colour = (DATA, "#E69F00", "#CC79A7")[rank] if name else GREY
        ax.plot(levels, gap, color=colour, label=name, **style)
    ax.axhline(0, color="black", lw=0.6)
    ax.set(
        xlim=(0, 1), xlabel="level given the other columns", ylabel="share of rows below − level"
    )
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=SIZE - 1)
    return _title(report, "calibration")


def _questions(ax: Axes, report: "CheckReport") -> str:
    asked = report.questions
    ax.plot([0, 1], [0, 1], color=GREY, lw=0.8)
    for off, colour in ((False, BLUE), (True, DATA)):
        some = asked[asked["off"] == off]
        ax.errorbar(
            some["table"],
            some["model"].fillna(0.0),
            xerr=some["error"],
            **{"fmt": "o", "ms": 3, "lw": 0.6, "color": colour},
        )
    ax.set(xlabel="table", ylabel="model", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return _title(report, "questions")


def _rules(ax: Axes, report: "CheckReport") -> str:
    worst = report.rules.head(_MOST)[::-1]
    _bars(ax, [shown(rule, 26) for rule in worst["rule"]], worst["broken"], worst["off"])
    ax.set(xlabel="share of draws that break the rule")
    return _title(report, "rules")


def _bars(ax: Axes, names: Any, values: Any, off: Any, explained: Any = ()) -> None:
    colours = [DATA if flag else BLUE for flag in off]
    ax.barh(range(len(values)), values, color=colours, height=0.7)
    for place, edge in enumerate(explained):
        ax.plot([edge, edge], [place - 0.4, place + 0.4], color="black", lw=1)
    ax.set_yticks(range(len(values)), [shown(name, 26) for name in names])
    ax.set_xlim(0, max(0.05, 1.05 * max(values, default=0.0)))
    ax.locator_params(axis="x", nbins=5)


def _title(report: "CheckReport", part: str) -> str:
    total = report.summary
    return f"{part}: {total[f'{part}_off']} of {total[part]} off"
