"""One column: its distribution, and how it changes with another column."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from marginals.plotting.axis_scale import Scale
from marginals.plotting.canvas import (
    BLUE,
    CATEGORIES,
    DATA,
    LIGHT,
    SIZE,
    WIDTH,
    Axes,
    axes_or_new,
    colour_bar,
    colour_map,
    crowded,
    dress,
    evidence_text,
    left_title,
    pyplot,
    shown,
    wrapped,
)
from marginals.plotting.grid import Grid, Subject, drawn, grid_of, masses, subject

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_POINTS = 300  # along a curve
_MOST_IN_LEGEND = 8
_ROOM = 1.2  # height of the axes relative to the plot, with a legend above it


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

    Bars show the probabilities of categories and whole numbers, a curve the density of other
    columns. Dark bars and the shaded area hold the share `level` of the mass: the most probable
    categories, otherwise the central interval. The dashed line is the median.

    Args:
        model: a fitted `MDMA`, or a view of one.
        column: name of the column.
        given: evidence, as in `MDMA.prob`.
        level: share of the mass to shade, between 0 and 1.
        data: rows to compare with. All are shown: select the ones that match `given`.
        ax: axes to draw on; by default a new figure.
    """
    if not 0 < level < 1:
        raise ValueError(
            f"Expected `level` to lie between 0 and 1; got {level}. Give a share, such as 0.9."
        )
    source = subject(model, given, data)
    (name,) = drawn(model.schema_, [column], given)
    grid = grid_of(source, name, _POINTS)
    mass = masses(source, grid)
    inside = likely_set(mass, level) if grid.category else _central(source, grid, level)
    ax = axes_or_new(ax)  # last, so that an error leaves no empty figure
    draw_marginal(ax, source, grid, mass, inside)
    if not grid.category:
        (middle,) = grid.scale.numbers([source.view.ppf(0.5, grid.name)])
        top = 1.0 if data is None else 1 / _ROOM
        ax.axvline(middle, ymax=top, color="black", lw=0.8, ls=(0, (4, 2)), zorder=4)
    _finish(ax, grid, given)
    handles = model_and_data(ax)
    if handles:
        ax.set_ylim(top=_ROOM * ax.get_ylim()[1])
        small = {"fontsize": SIZE - 1, "handlelength": 1.2, "frameon": False}
        ax.legend(handles.values(), handles.keys(), loc="upper right", ncols=2, **small)
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
    """Draw the distribution of a column for several values of another, p(column | by = value).

    Args:
        model: a fitted `MDMA`, or a view of one.
        column: the column to draw.
        by: the column to fix at each value in turn.
        values: values of `by`; by default its categories, or five quantiles from 5 to 95 %.
        given: further evidence, the same for all.
        ax: axes to draw on; by default a new figure.
    """
    source = subject(model, given, None)
    first, name = drawn(model.schema_, [column, by], given)
    values = _values_of(source, name) if values is None else list(values)
    if not values:
        raise ValueError(
            f"Expected `values` to hold values of column {name!r}; got none. Give at least one, or "
            "leave it out."
        )
    grid = grid_of(source, first, _POINTS)
    scale = grid_of(source, name, 2).scale
    places, texts = scale.numbers(values), scale.texts(values)
    colours = _colours(scale, places)
    ax = axes_or_new(ax, (0.6 * WIDTH, 2.8))
    width = 0.8 / len(values)
    for i, value in enumerate(values):
        fixed = Subject(source.view.condition({name: value}), source.schema, None)
        mass, style = masses(fixed, grid), {"color": colours[i], "label": texts[i]}
        if grid.category:
            shift = (i - (len(values) - 1) / 2) * width
            ax.bar(grid.numbers + shift, mass, width, lw=0, **style)
        else:
            marker = "o" if grid.bars else ""
            ax.plot(grid.numbers, mass, lw=1.2, marker=marker, ms=2.5, **style)
    _finish(ax, grid, given)
    _explain(ax, scale, places)
    return ax


# Parts that the pair plot shares ----------------------------------------------------------------


def draw_marginal(
    ax: Axes, source: Subject, grid: Grid, mass: Floats, inside: Flags | None = None
) -> None:
    """Draw a column's distribution and data; bars outside `inside` are paler, curves shaded."""
    if grid.bars:
        colours = BLUE if inside is None else [BLUE if dark else LIGHT for dark in inside]
        ax.bar(grid.numbers, mass, 0.8 * grid.spacing, color=colours, label="model", lw=0)
    else:
        ax.plot(grid.numbers, mass, color=BLUE, lw=1.2, label="model", zorder=3)
        if inside is not None:
            ax.fill_between(grid.numbers, mass, where=inside, color=LIGHT, lw=0, zorder=1)
    _draw_atoms(ax, source, grid)
    if source.data is not None:
        _draw_data(ax, grid, source.cells(grid.name))
    ax.set_xlim(*grid.limits)
    ax.set_ylim(bottom=0)


def label_values(axis: Any, grid: Grid, most: int = 14, ticks: int = 5) -> None:
    """Label categories along an axis, or set about `ticks` ticks at times and numbers."""
    grid.scale.mark_times(axis, ticks)
    if grid.category:
        axis.set_ticks(grid.numbers, [shown(value, most) for value in grid.values])
    elif grid.scale.family != "time":
        from matplotlib.ticker import MaxNLocator

        whole = bool(grid.step) and float(grid.step).is_integer()
        axis.set_major_locator(MaxNLocator(ticks, integer=whole, steps=[1, 2, 5, 10]))


def label_bottom(ax: Axes, grid: Grid, most: int = 14, ticks: int = 5) -> None:
    """Label the horizontal axis; names of categories stand upright if there is no room."""
    label_values(ax.xaxis, grid, most, ticks)
    if grid.category:
        upright = crowded(ax, [shown(value, most) for value in grid.values])
        ax.tick_params(axis="x", labelrotation=90 if upright else 0)


def axis_label(grid: Grid, most: int = 28) -> str:
    """Return the column's name, in two lines if long, and the number of hidden categories."""
    more = f"\n({grid.left_out} rarer not shown)" if grid.left_out else ""
    return f"{wrapped(grid.name, most)}{grid.scale.remark}{more}"


def model_and_data(ax: Axes) -> dict[str, Any]:
    """Return the legend's handles for model and data; none without data."""
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    return {name: handles[name] for name in ("model", "data")} if "data" in handles else {}


def likely_set(mass: Floats, share: float) -> Flags:
    """Return which values form the smallest set that holds a share of the mass.

    >>> likely_set(np.array([0.1, 0.6, 0.3]), 0.8).tolist()
    [False, True, True]
    """
    order = np.argsort(-mass, kind="stable")
    before = np.cumsum(mass[order]) - mass[order]
    chosen = np.zeros(len(mass), dtype=bool)
    chosen[order[before < share * mass.sum() * (1 - 1e-12)]] = True
    return chosen


# Parts ------------------------------------------------------------------------------------------


def _central(source: Subject, grid: Grid, level: float) -> Flags:
    low, high = grid.scale.numbers(list(source.view.interval(grid.name, level)))
    slack = 1e-9 * grid.spacing  # on a lattice, the ends equal points up to rounding
    return (grid.numbers >= low - slack) & (grid.numbers <= high + slack)


def _draw_atoms(ax: Axes, source: Subject, grid: Grid) -> None:
    """Mark values with a mass of their own by lines with their probabilities."""
    for atom, place in zip(grid.atom_values, grid.atoms, strict=True):
        left = place < sum(grid.edges) / 2
        ax.axvline(place, color=BLUE, lw=1.6, ymax=0.8, solid_capstyle="butt", zorder=3)
        ax.annotate(
            f"P = {float(source.view.prob({grid.name: atom})):.2f}",
            (place, 0.8),
            (3 if left else -3, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if left else "right",
            va="top",
            fontsize=SIZE - 1,
            color=BLUE,
            bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 0.5},
        )


def _draw_data(ax: Axes, grid: Grid, cells: Any) -> None:
    """Draw the data's frequencies: dots on bars, a histogram under a curve."""
    numbers = grid.scale.numbers(cells)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return
    if not grid.bars:
        heights, edges = _histogram(grid, numbers)
        ax.stairs(heights, edges, fill=True, color=DATA, alpha=0.3, lw=0, label="data", zorder=0)
        return
    places = grid.places(cells)
    inside = np.abs(places - sum(grid.edges) / 2) <= (grid.edges[1] - grid.edges[0]) / 2
    middles = (grid.numbers[1:] + grid.numbers[:-1]) / 2
    index = np.searchsorted(middles, places[inside])
    shares = np.bincount(index, minlength=len(grid)) / len(numbers)
    style = {"color": DATA, "mec": "white", "mew": 0.4, "clip_on": False, "label": "data"}
    ax.plot(grid.numbers, shares, "o", ms=3.5 if len(grid) <= 20 else 2, **style)


def _histogram(grid: Grid, numbers: Floats) -> tuple[Floats, Floats]:
    """Return heights and edges of bins; cells beyond the edges still count in the total."""
    low, high = grid.edges
    smooth = numbers[~np.isin(numbers, grid.atoms)]
    bins = int(np.clip(2 * len(numbers) ** (1 / 3), 8, 40))
    width = (high - low) / bins
    if grid.step:  # whole steps per bin, otherwise some bins hold more values than others
        width = grid.step * max(1, round(width / grid.step))
        low = grid.numbers[0] - grid.step / 2
        bins = max(1, int(np.ceil((high - low) / width)))
    counts, edges = np.histogram(smooth, bins, (low, low + bins * width))
    return counts / (len(numbers) * width), edges


def _finish(ax: Axes, grid: Grid, given: Mapping[Any, Any] | None) -> None:
    label_bottom(ax, grid)
    ax.set_xlim(*grid.limits)
    ax.set_ylim(bottom=0)
    unit = grid.scale.unit.removesuffix("s")
    height = "probability" if grid.bars else f"density per {unit}" if unit else "density"
    ax.set(xlabel=axis_label(grid), ylabel=height)
    dress(ax)
    left_title(ax, evidence_text(given))


def _values_of(source: Subject, by: Any) -> list[Any]:
    grid = grid_of(source, by, _POINTS)
    if grid.category or len(grid) <= 5:
        return list(grid.values)[:_MOST_IN_LEGEND]
    quantiles = source.view.ppf([0.05, 0.25, 0.5, 0.75, 0.95], by)
    return list(dict.fromkeys(quantiles))  # quantiles of whole numbers may coincide


def _colours(scale: Scale, places: Floats) -> Any:
    if scale.family == "category" and not scale.column.ordered:
        return [CATEGORIES[i % len(CATEGORIES)] for i in range(len(places))]
    low, high = np.min(places), np.max(places)
    return colour_map()((places - low) / (high - low) if high > low else np.zeros(len(places)))


def _explain(ax: Axes, scale: Scale, places: Floats) -> None:
    """Add a legend, or a colour bar for many values along a line."""
    if scale.family == "category" or len(places) <= _MOST_IN_LEGEND:
        outside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
        legend = ax.legend(title=scale.label, fontsize=SIZE - 1, frameon=False, **outside)
        legend.get_title().set_fontsize(SIZE)
        return
    plt = pyplot()
    norm = plt.Normalize(float(np.min(places)), float(np.max(places)))
    bar = colour_bar(ax, plt.cm.ScalarMappable(norm, colour_map()), scale.label)
    scale.mark_times(bar.ax.yaxis)
