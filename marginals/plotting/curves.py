"""One column on one pair of axes: a curve or bars for the model, a histogram for data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from marginals.columns import Continuous
from marginals.plotting.axis_scale import Scale
from marginals.plotting.canvas import BLUE, DATA, LIGHT, SIZE, Axes, crowded, shown, wrapped
from marginals.plotting.grid import Grid, Subject, cells

__all__ = [
    "axis_label",
    "draw_atoms",
    "draw_bars",
    "draw_curve",
    "draw_data",
    "draw_values",
    "height_label",
    "label_values",
    "told",
]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_BAR = 0.8  # of the spacing


def draw_curve(ax: Axes, grid: Grid, density: Floats, inside: Flags | None = None) -> None:
    """Draw a density, shaded where `inside`."""
    ax.plot(grid.numbers, density, color=BLUE, lw=1.2, label="model", zorder=3)
    if inside is not None:
        ax.fill_between(grid.numbers, density, where=inside, color=LIGHT, lw=0, zorder=1)


def draw_bars(ax: Axes, grid: Grid, mass: Floats, inside: Flags | None = None) -> None:
    """Draw probabilities, those not `inside` paler."""
    colours = BLUE if inside is None else [BLUE if dark else LIGHT for dark in inside]
    ax.bar(grid.numbers, mass, _BAR * grid.spacing, color=colours, label="model", lw=0)


def draw_atoms(ax: Axes, asked: Subject, grid: Grid) -> None:
    """Mark the values that have a mass of their own by lines with their probabilities."""
    kind = grid.scale.column.kind
    if not isinstance(kind, Continuous):
        return
    for atom, place in zip(kind.atoms, grid.scale.numbers(list(kind.atoms)), strict=True):
        mass = float(asked.view.prob({grid.name: atom}))
        left = place < sum(grid.edges) / 2
        ax.axvline(place, color=BLUE, lw=1.6, ymax=0.8, solid_capstyle="butt", zorder=3)
        ax.annotate(
            f"P = {mass:.2f}",
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


def draw_data(ax: Axes, asked: Subject, grid: Grid) -> None:
    """Draw the data's frequencies: dots on bars, a histogram under a curve."""
    seen = cells(asked, grid.scale.column)
    if seen is None:
        return
    places = _known(grid.scale, seen)
    if not len(places):
        return
    if grid.bars:
        shares = _shares(grid, seen, len(places))
        ax.plot(
            grid.numbers,
            shares,
            "o",
            color=DATA,
            ms=3.5 if len(grid) <= 20 else 2,
            mec="white",
            mew=0.4,
            clip_on=False,
            label="data",
        )
        return
    heights, edges = _histogram(grid, places)
    ax.stairs(heights, edges, fill=True, color=DATA, alpha=0.3, lw=0, label="data", zorder=0)


def label_values(axis: Any, grid: Grid, most: int = 14, ticks: int = 5) -> None:
    """Write the names of categories, or about so many ticks of times and numbers, along an axis."""
    grid.scale.mark(axis, ticks)
    if grid.category:
        axis.set_ticks(grid.numbers, [shown(value, most) for value in grid.values])
    elif grid.scale.family != "time":
        from matplotlib.ticker import MaxNLocator

        whole = bool(grid.step) and float(grid.step).is_integer()
        axis.set_major_locator(MaxNLocator(ticks, integer=whole, steps=[1, 2, 5, 10]))


def draw_values(ax: Axes, grid: Grid, most: int = 14, ticks: int = 5) -> None:
    """Label the horizontal axis; names of categories stand upright where there is no room."""
    label_values(ax.xaxis, grid, most, ticks)
    if grid.category:
        upright = crowded(ax, [shown(value, most) for value in grid.values])
        ax.tick_params(axis="x", labelrotation=90 if upright else 0)


def axis_label(grid: Grid, most: int = 28) -> str:
    """Return the column's name, in two lines if long, and how many categories are not shown."""
    more = f"\n({grid.left_out} rarer not shown)" if grid.left_out else ""
    return f"{wrapped(grid.name, most)}{grid.scale.remark}{more}"


def height_label(grid: Grid) -> str:
    """Return the name of the other axis."""
    if grid.bars:
        return "probability"
    return f"density per {grid.scale.unit.removesuffix('s')}" if grid.scale.unit else "density"


def told(given: Mapping[Any, Any] | None) -> str:
    """Write evidence as text.

    >>> told({"age": 40, "wage": (10.0, None), "city": {"Rome"}})
    'given age = 40, wage > 10, city in {Rome}'
    """
    if not given:
        return ""
    return "given " + ", ".join(_evidence(shown(name), cell) for name, cell in given.items())


# Parts ----------------------------------------------------------------------------------------


def _evidence(name: str, cell: Any) -> str:
    if isinstance(cell, set | frozenset | list):
        return f"{name} in {{{', '.join(sorted(shown(value, 14) for value in cell))}}}"
    if not isinstance(cell, tuple):
        return f"{name} = {shown(cell)}"
    low, high = cell
    if low is None:
        return f"{name} ≤ {shown(high)}"
    return f"{name} > {shown(low)}" if high is None else f"{shown(low)} < {name} ≤ {shown(high)}"


def _known(scale: Scale, seen: Any) -> Floats:
    numbers = scale.numbers(seen)
    return numbers[np.isfinite(numbers)]


def _shares(grid: Grid, seen: Any, count: int) -> Floats:
    places = grid.places(seen)
    places = places[np.isfinite(places)]
    index = np.rint((places - grid.numbers[0]) / grid.spacing).astype(np.int64)
    index = index[(index >= 0) & (index < len(grid))]
    return np.bincount(index, minlength=len(grid)) / count


def _histogram(grid: Grid, places: Floats) -> tuple[Floats, Floats]:
    """Return heights and edges of bins; cells beyond the edges count as cells all the same."""
    low, high = grid.edges
    kind = grid.scale.column.kind
    atoms = kind.atoms if isinstance(kind, Continuous) else ()
    smooth = places[~np.isin(places, grid.scale.numbers(list(atoms)))] if atoms else places
    bins = int(np.clip(2 * len(places) ** (1 / 3), 8, 40))
    width = (high - low) / bins
    if grid.step:  # whole steps to a bin, or some hold more values than others
        width = grid.step * max(1, round(width / grid.step))
        low = grid.numbers[0] - grid.step / 2
        bins = max(1, int(np.ceil((high - low) / width)))
    counts, edges = np.histogram(smooth, bins, (low, low + bins * width))
    return counts / (len(places) * width), edges
