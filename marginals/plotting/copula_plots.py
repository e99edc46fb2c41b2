"""The copula of two columns: its density on the unit square, and its tails."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from marginals.plotting.canvas import (
    BLUE,
    DATA,
    GREY,
    SIZE,
    WIDTH,
    Axes,
    axes_or_new,
    colour_bar,
    dress,
    evidence_text,
    fade,
    left_title,
    shown,
)
from marginals.plotting.grid import drawn, subject

_SIDE = 100  # points per side
_POINTS = 60  # on a curve
_LEVELS = 2.0 ** np.arange(-3, 4)  # powers of two around 1, which is independence
_NAMES = ("1/8", "1/4", "1/2", "1", "2", "4", "8")
_TICKS = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.5)
_MOST_POINTS = 1500  # more hide the density
_LEAST_ROWS = 10  # in a corner of the data; a share of fewer says little


def copula(
    model: Any,
    x: Any,
    y: Any,
    *,
    given: Mapping[Any, Any] | None = None,
    data: Any = None,
    ax: Axes = None,
) -> Axes:
    """Draw the copula density of two continuous columns: their dependence without their margins.

    The density is 1 where a pair of levels is as likely as under independence, 2 where it is twice
    as likely. Levels are the columns' cumulative probabilities, from 0 to 1.

    Args:
        model: a fitted `MDMA`, or a view of one.
        x, y: the columns.
        given: evidence on other columns, as in `MDMA.prob`.
        data: rows to compare with, at their levels under the model. All are shown: select the
            ones that match `given`.
        ax: axes to draw on; by default a new figure.
    """
    source = subject(model, given, data)
    names = drawn(model.schema_, [x, y], given)
    found = source.view.copula(names)
    middles = (np.arange(_SIDE) + 0.5) / _SIDE
    square = np.stack(np.meshgrid(middles, middles), -1).reshape(-1, 2)
    density = np.asarray(found.pdf(square)).reshape(_SIDE, _SIDE)
    ax = axes_or_new(ax, (0.55 * WIDTH, 0.46 * WIDTH))
    colours = fade()(np.linspace(0.0, 1.0, len(_LEVELS) + 1))
    filled = ax.contourf(middles, middles, density, levels=_LEVELS, colors=colours, extend="both")
    ax.contour(middles, middles, density, levels=[1.0], colors="white", linewidths=0.8)
    if source.data is not None:
        places = found.levels(source.data)[names].dropna().to_numpy()
        places = places[:: max(1, -(-len(places) // _MOST_POINTS))]
        ax.plot(*places.T, "o", color=DATA, ms=1.6, mew=0, alpha=0.7, rasterized=True)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.set(xlabel=f"level of {shown(names[0], 18)}", ylabel=f"level of {shown(names[1], 18)}")
    dress(ax, frame=True)
    left_title(ax, evidence_text(given))
    bar = colour_bar(ax, filled, "copula density", shrink=0.9)
    bar.set_ticks(_LEVELS, labels=_NAMES)
    return ax


def tails(
    model: Any,
    x: Any,
    y: Any,
    *,
    given: Mapping[Any, Any] | None = None,
    data: Any = None,
    least: float = 0.002,
    ax: Axes = None,
) -> Axes:
    """Draw the probability that a column lies beyond a threshold if another does.

    At threshold q, the lower curve is P(y's level <= q | x's level <= q); the upper one is the same
    for levels above 1 - q. Independent columns would follow the dotted line. The model's curves
    fall to 0 in the limit: trust them only where there are data.

    Args:
        model: a fitted `MDMA`, or a view of one.
        x, y: the columns.
        given: evidence on other columns, as in `MDMA.prob`.
        data: rows to compare with, by their ranks, where at least ten lie beyond both thresholds.
        least: the outermost threshold.
        ax: axes to draw on; by default a new figure.
    """
    if not 0 < least < 0.5:
        raise ValueError(f"Expected `least` to lie between 0 and 0.5; got {least}. Give 0.01.")
    source = subject(model, given, data)
    names = drawn(model.schema_, [x, y], given)
    found = source.view.copula(names)
    q = np.geomspace(least, 0.5, _POINTS)
    ax = axes_or_new(ax)
    ax.plot(q, q, color=GREY, lw=0.8, ls=":", label="independent")
    ax.plot(q, found.lower_tail(*names, q), color=BLUE, lw=1.4, label="both low")
    ax.plot(q, found.upper_tail(*names, q), color=BLUE, lw=1.4, ls="--", label="both high")
    if source.data is not None:
        ranks = source.data[names].dropna().rank()
        levels = ((ranks - 0.5) / len(ranks)).to_numpy()
        _draw_shares(ax, levels, q, "o", "data, low")
        _draw_shares(ax, 1 - levels, q, "x", "data, high")
    ax.set(xscale="log", xlim=(least, 0.5), ylim=(0, 1), xlabel="threshold q")
    ticks = [tick for tick in _TICKS if tick >= least]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_ylabel(f"P({shown(names[1], 10)} beyond | {shown(names[0], 10)} beyond)")
    dress(ax)
    left_title(ax, evidence_text(given))
    ax.legend(fontsize=SIZE - 2, frameon=False, ncols=2, loc="upper left", handlelength=1.6)
    return ax


def _draw_shares(ax: Axes, levels: Any, q: Any, marker: str, label: str) -> None:
    """Mark the share of rows beyond both thresholds among those beyond one."""
    every = q[:: max(1, len(q) // 12)]
    both = np.array([(levels <= level).all(1).sum() for level in every])
    beyond = np.array([(levels <= level).sum() / 2 for level in every])
    enough = both >= _LEAST_ROWS
    share = both[enough] / beyond[enough]
    ax.plot(every[enough], share, marker, color=DATA, ms=3, mew=0.8, label=label)
