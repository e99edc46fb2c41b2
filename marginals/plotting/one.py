"""A single column: its distribution, and how it moves with another column."""

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np

from marginals.plotting.axis_scale import Scale
from marginals.plotting.canvas import (
    SIZE,
    WIDTH,
    Axes,
    axes_or_new,
    colour_map,
    dress,
    letters,
    palette,
    pyplot,
)
from marginals.plotting.curves import (
    axis_label,
    draw_atoms,
    draw_bars,
    draw_curve,
    draw_data,
    draw_values,
    height_label,
    told,
)
from marginals.plotting.grid import Grid, Subject, drawn, grid_of, masses, subject
from marginals.plotting.levels import likely_set

__all__ = ["conditionals", "marginal"]

_POINTS = 300  # along a curve
_MOST_IN_LEGEND = 8
_ROOM = 1.2  # the height of the axes for what is drawn and a legend above it


def marginal(
    model: Any,
    column: Any,
    *,
    given: Mapping[Any, Any] | None = None,
    level: float = 0.9,
    data: Any = None,
    ax: Axes = None,
) -> Axes:
    """Draw the distribution of a column, with its central interval and median.

    Bars show probabilities of categories and whole numbers, a curve the density of other columns.
    Dark bars and the shaded part hold the share `level`: of categories the likeliest, else the
    central interval. The dashed line is the median.

    Args:
        model: a fitted `MDMA`, or a view of one.
        column: its name.
        given: evidence, as in `MDMA.prob`.
        level: the share of mass to shade, between 0 and 1.
        data: rows to compare with. They are shown as they are: choose those that match `given`.
        ax: axes to draw on; a new figure without them.
    """
    if not 0 < level < 1:
        raise ValueError(
            f"Expected `level` to lie between 0 and 1; got {level}. Give a share, such as 0.9."
        )
    asked = subject(model, given, data)
    (name,) = drawn(model.schema_, [column], given)
    grid = grid_of(asked, name, _POINTS)
    mass = masses(asked, grid)
    inside = likely_set(mass, level) if grid.category else _central(asked, grid, level)
    ax = axes_or_new(ax)  # last, so that a refusal leaves no empty figure
    (draw_bars if grid.bars else draw_curve)(ax, grid, mass, inside)
    draw_atoms(ax, asked, grid)
    draw_data(ax, asked, grid)
    if not grid.category:
        (middle,) = grid.scale.numbers([asked.view.ppf(0.5, grid.name)])
        top = 1.0 if data is None else 1 / _ROOM
        ax.axvline(middle, ymax=top, color="black", lw=0.8, ls=(0, (4, 2)), zorder=4)
    _finish(ax, grid, told(given))
    return ax


def conditionals(
    model: Any,
    column: Any,
    by: Any,
    values: Any = None,
    *,
    given: Mapping[Any, Any] | None = None,
    ax: Axes = None,
) -> Axes:
    """Draw the distribution of a column for some values of another, p(column | by = value).

    Args:
        model: a fitted `MDMA`, or a view of one.
        column: whose distributions are drawn.
        by: the column that is held at each value in turn.
        values: of `by`; by default its categories, else five quantiles from 5 to 95 %.
        given: further evidence that holds throughout.
        ax: axes to draw on; a new figure without them.
    """
    asked = subject(model, given, None)
    first, name = drawn(model.schema_, [column, by], given)
    values = _values_of(asked, name) if values is None else list(values)
    if not values:
        raise ValueError(
            f"Expected `values` to hold values of column {name!r}; got none. Give at least one, or "
            "leave it out."
        )
    grid = grid_of(asked, first, _POINTS)
    scale = grid_of(asked, name, 2).scale
    places, texts = scale.numbers(values), scale.texts(values)
    colours = _colours(scale, places)
    ax = axes_or_new(ax, (0.6 * WIDTH, 2.8))
    for i, value in enumerate(values):
        mass = masses(Subject(asked.view.condition({name: value}), asked.schema, None), grid)
        _draw_one(ax, grid, mass, colours[i], texts[i], (i, len(values)))
    _finish(ax, grid, told(given))
    _explain(ax, scale, places)
    return ax


# Parts ----------------------------------------------------------------------------------------


def _central(asked: Subject, grid: Grid, level: float) -> Any:
    low, high = grid.scale.numbers(list(asked.view.interval(grid.name, level)))
    slack = 1e-9 * grid.spacing  # the ends are values of a lattice, but for rounding
    return (grid.numbers >= low - slack) & (grid.numbers <= high + slack)


def _finish(ax: Axes, grid: Grid, title: str) -> None:
    draw_values(ax, grid)
    ax.set_xlim(*grid.limits)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(axis_label(grid))
    ax.set_ylabel(height_label(grid))
    dress(ax)
    if title:
        ax.set_title(fill(title, letters(ax)), fontsize=SIZE, loc="left")
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if "data" in handles:
        ax.set_ylim(top=_ROOM * ax.get_ylim()[1])
        both = {name: handles[name] for name in ("model", "data")}
        small = {"fontsize": SIZE - 1, "handlelength": 1.2, "frameon": False}
        ax.legend(both.values(), both.keys(), loc="upper right", ncols=2, **small)


def _values_of(asked: Subject, by: Any) -> list[Any]:
    grid = grid_of(asked, by, _POINTS)
    if grid.category or len(grid) <= 5:
        return list(grid.values)[:_MOST_IN_LEGEND]
    quantiles = asked.view.ppf([0.05, 0.25, 0.5, 0.75, 0.95], by)
    return list(dict.fromkeys(quantiles))  # few whole numbers may be several quantiles


def _colours(scale: Scale, places: Any) -> Any:
    if scale.family == "category" and not scale.column.ordered:
        return palette(len(places))
    low, high = np.min(places), np.max(places)
    shares = (places - low) / (high - low) if high > low else np.zeros(len(places))
    return colour_map()(shares)


def _draw_one(
    ax: Axes, grid: Grid, mass: Any, colour: Any, label: str, place: tuple[int, int]
) -> None:
    """Draw one distribution of a family: bars side by side, a line, or dots on a line."""
    i, count = place
    if grid.category:
        width = 0.8 / count
        shift = (i - (count - 1) / 2) * width
        ax.bar(grid.numbers + shift, mass, width, color=colour, lw=0, label=label)
        return
    marker = "o" if grid.bars else ""
    ax.plot(grid.numbers, mass, color=colour, lw=1.2, marker=marker, ms=2.5, label=label)


def _explain(ax: Axes, scale: Scale, places: Any) -> None:
    """Add a legend, or for many values along a line a colour bar."""
    if scale.family == "category" or len(places) <= _MOST_IN_LEGEND:
        outside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
        legend = ax.legend(title=scale.label, fontsize=SIZE - 1, frameon=False, **outside)
        legend.get_title().set_fontsize(SIZE)
        return
    plt = pyplot()
    norm = plt.Normalize(float(np.min(places)), float(np.max(places)))
    bar = ax.figure.colorbar(plt.cm.ScalarMappable(norm, colour_map()), ax=ax)
    scale.mark(bar.ax.yaxis)
    bar.set_label(scale.label, fontsize=SIZE)
    bar.outline.set_visible(False)
    dress(bar.ax, frame=True)
