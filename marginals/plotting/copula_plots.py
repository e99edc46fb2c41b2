"""The copula of two columns: its density on the unit square, and its tails."""

from collections.abc import Mapping
from textwrap import fill
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
    dress,
    fade,
    letters,
    shown,
)
from marginals.plotting.curves import told
from marginals.plotting.grid import Subject, drawn, subject

__all__ = ["copula", "tails"]

_SIDE = 100  # points to a side
_POINTS = 60  # of a curve
# Above and below 1, which is independence, by factors of two.
_LEVELS = 2.0 ** np.arange(-3, 4)
_NAMES = ("1/8", "1/4", "1/2", "1", "2", "4", "8")
_TICKS = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.5)
_MOST_POINTS = 1500  # more hide the density
_LEAST_ROWS = 10  # in the corner of data, below which a share says little


def copula(
    model: Any,
    x: Any,
    y: Any,
    *,
    given: Mapping[Any, Any] | None = None,
    data: Any = None,
    ax: Axes = None,
) -> Axes:
    """Draw the copula density of two continuous columns: how they depend, whatever their margins.

    It is 1 where a pair of levels is as likely as for independent columns, 2 where it is twice as
    likely. Levels are cumulative probabilities of the columns' own values, from 0 to 1.

    Args:
        model: a fitted `MDMA`, or a view of one.
        x, y: the columns.
        given: evidence on other columns, as in `MDMA.prob`.
        data: rows to compare with, at their levels under the model. They are shown as they are:
            choose those that match `given`.
        ax: axes to draw on; a new figure without them.
    """
    asked, names = _pair(model, x, y, given, data)
    found = asked.view.copula(names)
    middles = (np.arange(_SIDE) + 0.5) / _SIDE
    square = np.stack(np.meshgrid(middles, middles), -1).reshape(-1, 2)
    density = np.asarray(found.pdf(square)).reshape(_SIDE, _SIDE)
    ax = axes_or_new(ax, (0.55 * WIDTH, 0.46 * WIDTH))
    colours = fade()(np.linspace(0.0, 1.0, len(_LEVELS) + 1))
    filled = ax.contourf(middles, middles, density, levels=_LEVELS, colors=colours, extend="both")
    ax.contour(middles, middles, density, levels=[1.0], colors="white", linewidths=0.8)
    if asked.data is not None:
        places = found.levels(asked.data)[list(names)].dropna().to_numpy()
        places = places[:: max(1, -(-len(places) // _MOST_POINTS))]
        ax.plot(*places.T, "o", color=DATA, ms=1.6, mew=0, alpha=0.7, rasterized=True)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.set(xlabel=f"level of {shown(names[0], 18)}", ylabel=f"level of {shown(names[1], 18)}")
    _finish(ax, given, frame=True)
    bar = ax.figure.colorbar(filled, ax=ax, shrink=0.9)
    bar.set_ticks(_LEVELS, labels=_NAMES)
    bar.set_label("copula density", fontsize=SIZE)
    bar.outline.set_visible(False)
    dress(bar.ax, frame=True)
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
    """Draw how likely one column is beyond its threshold if the other is, as thresholds move out.

    The lower curve's q is P(y's level <= q | x's level <= q), the upper one's the same for levels
    above 1 - q. Independent columns would follow the dotted line. The model's curves end at 0 in
    the limit: believe them as far as data reach.

    Args:
        model: a fitted `MDMA`, or a view of one.
        x, y: the columns.
        given: evidence on other columns, as in `MDMA.prob`.
        data: rows to compare with, by their ranks, where at least ten lie beyond both thresholds.
        least: the outermost threshold.
        ax: axes to draw on; a new figure without them.
    """
    if not 0 < least < 0.5:
        raise ValueError(f"Expected `least` to lie between 0 and 0.5; got {least}. Give 0.01.")
    asked, names = _pair(model, x, y, given, data)
    found = asked.view.copula(names)
    q = np.geomspace(least, 0.5, _POINTS)
    ax = axes_or_new(ax)
    ax.plot(q, q, color=GREY, lw=0.8, ls=":", label="independent")
    ax.plot(q, found.lower_tail(*names, q), color=BLUE, lw=1.4, label="both low")
    ax.plot(q, found.upper_tail(*names, q), color=BLUE, lw=1.4, ls="--", label="both high")
    if asked.data is not None:
        ranks = asked.data[list(names)].dropna().rank()
        levels = ((ranks - 0.5) / len(ranks)).to_numpy()
        _draw_shares(ax, levels, q, "o", "data, low")
        _draw_shares(ax, 1 - levels, q, "x", "data, high")
    ax.set(xscale="log", xlim=(least, 0.5), ylim=(0, 1), xlabel="threshold q")
    ticks = [tick for tick in _TICKS if tick >= least]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_ylabel(f"P({shown(names[1], 10)} beyond | {shown(names[0], 10)} beyond)")
    _finish(ax, given)
    ax.legend(fontsize=SIZE - 2, frameon=False, ncols=2, loc="upper left", handlelength=1.6)
    return ax


# Parts ----------------------------------------------------------------------------------------


def _pair(
    model: Any, x: Any, y: Any, given: Mapping[Any, Any] | None, data: Any
) -> tuple[Subject, tuple[Any, Any]]:
    asked = subject(model, given, data)
    first, second = drawn(model.schema_, [x, y], given)
    return asked, (first, second)


def _draw_shares(ax: Axes, levels: Any, q: Any, marker: str, label: str) -> None:
    """Mark the share of rows beyond both thresholds among those beyond one."""
    every = q[:: max(1, len(q) // 12)]
    both = np.array([(levels <= level).all(1).sum() for level in every])
    beyond = np.array([(levels <= level).sum() / 2 for level in every])
    enough = both >= _LEAST_ROWS
    share = both[enough] / beyond[enough]
    ax.plot(every[enough], share, marker, color=DATA, ms=3, mew=0.8, label=label)


def _finish(ax: Axes, given: Mapping[Any, Any] | None, frame: bool = False) -> None:
    dress(ax, frame=frame)
    if given:
        ax.set_title(fill(told(given), letters(ax)), fontsize=SIZE, loc="left")
