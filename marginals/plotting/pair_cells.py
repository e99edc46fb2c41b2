"""One cell of a matrix of pairs: contours, strips or a heat map, with data on top."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from marginals.plotting.canvas import BLUE, DATA, SIZE, Axes, fade, shade
from marginals.plotting.grid import Grid, Subject, cells, joint
from marginals.plotting.levels import correlation, density_levels

__all__ = ["draw_correlation", "draw_pair"]

Floats = npt.NDArray[np.float64]

_MOST_POINTS = 800  # more hide the density, and make large files
_MOST_NUMBERS = 5  # categories to a side with room for numbers
_STRIP = 0.42  # of the spacing, to each side


def draw_pair(ax: Axes, asked: Subject, x: Grid, y: Grid, levels: Sequence[float]) -> Floats:
    """Draw the joint distribution of two columns, and return it on the grid (y, x)."""
    density = joint(asked, x, y)
    if x.strips and y.strips:
        _draw_table(ax, x, y, density)
    elif x.strips:
        _draw_strips(ax, y, x, density.T, upright=True)
    elif y.strips:
        _draw_strips(ax, x, y, density, upright=False)
    else:
        _draw_contours(ax, x, y, density, levels)
    if not (x.strips and y.strips):
        _draw_points(ax, asked, x, y)
    ax.set(xlim=x.limits, ylim=y.limits)
    return density


def draw_correlation(ax: Axes, asked: Subject, x: Grid, y: Grid, density: Floats) -> None:
    """Write the correlations of the model and of data, within the part of the plane shown."""
    ax.set_axis_off()
    if x.category or y.category:
        return
    lines = [("r = ", correlation(x.numbers, y.numbers, density), BLUE)]
    if asked.data is not None:
        points = _points(asked, x, y)
        lines.append(("data: ", _sample_correlation(points), DATA))
    for i, (word, value, colour) in enumerate(lines):
        height = 0.5 + (len(lines) - 1 - 2 * i) * 0.1
        text = "–" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
        spot = {"ha": "center", "va": "center", "transform": ax.transAxes}
        ax.text(0.5, height, word + text, color=colour, fontsize=SIZE, **spot)


# Parts ----------------------------------------------------------------------------------------


def _draw_contours(ax: Axes, x: Grid, y: Grid, density: Floats, levels: Sequence[float]) -> None:
    heights = np.unique(density_levels(density, levels))
    top = float(density.max())
    edges = [*heights[heights < top], top]
    if len(edges) < 2:  # flat: one region
        edges = [0.0, top]
    colours = fade()(np.linspace(0.12, 0.9, len(edges) - 1))
    ax.contourf(x.numbers, y.numbers, density, levels=edges, colors=colours)


def _draw_strips(ax: Axes, line: Grid, strips: Grid, density: Floats, upright: bool) -> None:
    """Draw the density along a line for each value of the other column, each to its own scale."""
    fill = ax.fill_betweenx if upright else ax.fill_between
    for place, along in zip(strips.numbers, density, strict=True):
        top = along.max()
        if not top > 0:  # a value that cannot be
            continue
        half = _STRIP * strips.spacing * along / top
        fill(line.numbers, place - half, place + half, color=fade()(0.45), lw=0)


def _draw_table(ax: Axes, x: Grid, y: Grid, mass: Floats) -> None:
    """Draw probabilities as a heat map, with numbers where there is room."""
    edges = [np.append(g.numbers - g.spacing / 2, g.edges[1]) for g in (x, y)]
    top = float(mass.max())
    ax.pcolormesh(*edges, mass, cmap=fade(), vmin=0, vmax=top, edgecolors="white", lw=0.5)
    if max(len(x), len(y)) > _MOST_NUMBERS:
        return
    for i, j in np.ndindex(mass.shape):
        value = float(mass[i, j])
        text = f"{100 * value:.0f}" if value >= 0.005 else "<1"
        spot = {"ha": "center", "va": "center", "fontsize": SIZE - 2}
        ax.text(x.numbers[j], y.numbers[i], text, color=shade(value / top), **spot)


def _draw_points(ax: Axes, asked: Subject, x: Grid, y: Grid) -> None:
    if asked.data is None:
        return
    places = _points(asked, x, y)
    every = max(1, -(-len(places) // _MOST_POINTS))
    places = places[::every]
    # Drawn with a seed of its own: the same picture each time, and no one else's numbers moved.
    rng = np.random.default_rng(0)
    for side, grid in enumerate((x, y)):
        if grid.strips:
            places[:, side] += rng.uniform(-0.15, 0.15, len(places)) * grid.spacing
    size = 1.6 if len(places) < 300 else 1.1
    ax.plot(*places.T, "o", color=DATA, ms=size, mew=0, alpha=0.6, rasterized=True)


def _points(asked: Subject, x: Grid, y: Grid) -> Floats:
    """Return the places (N, 2) of rows with both cells, within the picture."""
    places = np.stack([g.places(cells(asked, g.scale.column)) for g in (x, y)], 1)
    low, high = np.array([x.limits, y.limits]).T
    inside = (places >= low) & (places <= high)
    return places[inside.all(1)]


def _sample_correlation(places: Floats) -> float:
    if len(places) < 2 or np.any(places.std(0) == 0):
        return float("nan")
    return float(np.corrcoef(places[:, 0], places[:, 1])[0, 1])
