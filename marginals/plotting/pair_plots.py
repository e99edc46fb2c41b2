"""The matrix of pairs: each column's marginal, and each pair's joint distribution."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt

from marginals.plotting.canvas import (
    BLUE,
    DATA,
    SIZE,
    WIDTH,
    Axes,
    dress,
    evidence_text,
    fade,
    pyplot,
    write_cells,
)
from marginals.plotting.grid import Grid, Subject, drawn, grid_of, joint, masses, subject
from marginals.plotting.marginal_plots import (
    axis_label,
    draw_marginal,
    label_bottom,
    label_values,
    model_and_data,
)

Floats = npt.NDArray[np.float64]

MOST_COLUMNS = 8  # more are too small to read in print
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_CURVE, _SIDE = 200, 60  # points of a marginal, and per side of a pair
_MOST_POINTS = 800  # more hide the density and make large files
_MOST_NUMBERS = 5  # categories per side with room for numbers
_STRIP = 0.42  # of the spacing, to each side


def pairs(
    model: Any,
    columns: Any = None,
    *,
    data: Any = None,
    given: Mapping[Any, Any] | None = None,
    levels: Sequence[float] = _LEVELS,
    width: float = WIDTH,
) -> Any:
    """Draw the marginals of columns and the joint distribution of each pair, with data on top.

    The diagonal shows marginals. Below it, two numeric columns show regions of highest density that
    hold the shares `levels` of the mass; a column with few values shows one strip per value, each
    on its own scale; two such columns show their probabilities in percent. Above the diagonal are
    the correlations of model and data within the visible part of the plane. If a column has atoms,
    its pairs show the density without them.

    Args:
        model: a fitted `MDMA`, or a view of one.
        columns: names, at most eight; by default the first eight.
        data: rows to compare with. All are shown: select the ones that match `given`.
        given: evidence, as in `MDMA.prob`; its columns are not drawn.
        levels: shares of mass between 0 and 1.
        width: width of the figure in inches.

    Returns:
        An array (n, n) of axes.
    """
    plt = pyplot()
    source = subject(model, given, data)
    names = drawn(model.schema_, columns, given)
    names = names[:MOST_COLUMNS] if columns is None else names
    count = len(names)
    if not 1 <= count <= MOST_COLUMNS:
        raise ValueError(
            f"Expected `columns` to name 1 to {MOST_COLUMNS} columns; got {count}. Choose the most "
            "important ones, and draw the others in a second figure."
        )
    _check_shares(levels)
    grids = [grid_of(source, name, _SIDE) for name in names]
    size = (width, width * (0.85 if count > 1 else 0.45))
    figure, axes = plt.subplots(count, count, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    for i, name in enumerate(names):
        fine = grid_of(source, name, _CURVE)
        draw_marginal(axes[i, i], source, fine, masses(source, fine))
    for j, i in combinations(range(count), 2):
        density = _draw_pair(axes[i, j], source, grids[j], grids[i], levels)
        _draw_correlation(axes[j, i], source, grids[j], grids[i], density)
    for row, column in zip(*np.tril_indices(count), strict=True):
        _label(axes[row, column], grids, int(row), int(column))
    figure.align_ylabels()
    hidden = columns is None and count < len(source.schema)
    note = f"the first {count} of {len(source.schema)} columns" if hidden else ""
    title = "; ".join(part for part in (evidence_text(given), note) if part)
    if title:
        figure.suptitle(fill(title, 80), fontsize=SIZE, x=0.01, ha="left")
    handles = model_and_data(axes[0, 0])
    if handles:
        small = {"fontsize": SIZE, "frameon": False, "ncols": 2}
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", **small)
    return axes


def density_levels(density: Floats, shares: Sequence[float]) -> Floats:
    """Return for each share the density above which that share of the grid's mass lies.

    The cells of the grid have equal areas. Levels fall as shares rise: {density >= level} is the
    smallest region with at least the share.

    >>> density_levels(np.array([[4.0, 3.0], [2.0, 1.0]]), [0.4, 0.7, 0.9])
    array([4., 3., 2.])
    """
    _check_shares(shares)
    falling = np.sort(density, axis=None)[::-1]
    mass = np.cumsum(falling / falling[0])  # relative, so that no sum overflows
    # Allow for rounding: 0.3 + 0.4 reaches a share of 0.7.
    first = np.searchsorted(mass, np.asarray(shares) * mass[-1] * (1 - 1e-12))
    return falling[first]


def correlation(x: Floats, y: Floats, density: Floats) -> float:
    """Return the correlation under a density (y, x) on a grid; NaN if a side does not vary."""
    mass = density / density.sum()
    across, up = mass.sum(0), mass.sum(1)
    x, y = x - across @ x, y - up @ y
    spread = np.sqrt((across @ x**2) * (up @ y**2))
    return float(y @ mass @ x / spread) if spread > 0 else float("nan")


# Parts ------------------------------------------------------------------------------------------


def _check_shares(shares: Sequence[float]) -> None:
    if not len(shares) or not all(0 < share < 1 for share in shares):
        raise ValueError(
            f"Expected `levels` to be shares of mass between 0 and 1; got {list(shares)}. Give for "
            "example [0.5, 0.9]."
        )


def _label(ax: Axes, grids: list[Grid], i: int, j: int) -> None:
    """Label a cell of the matrix; names and ticks stand only at the left and the bottom."""
    last = len(grids) - 1
    most = max(11, 90 // len(grids))  # letters that fit along one side of a cell
    ticks = 3 if last > 3 else 4
    label_bottom(ax, grids[j], 9, ticks)
    if i != j:
        label_values(ax.yaxis, grids[i], 9, ticks)
    else:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    dress(ax, frame=i != j)
    ax.tick_params(labelbottom=i == last, labelleft=j == 0 and i > 0)
    ax.xaxis.get_offset_text().set_visible(i == last)
    ax.yaxis.get_offset_text().set_visible(j == 0)
    if i == last:
        pad = 10 if _has_offset(ax.xaxis) else 4  # the offset stands next to the label
        ax.set_xlabel(axis_label(grids[j], most), fontsize=SIZE, labelpad=pad)
    if j == 0 and i > 0:
        ax.set_ylabel(axis_label(grids[i], most), fontsize=SIZE)


def _has_offset(axis: Any) -> bool:
    """Return whether the ticks share a part, such as the year, that is written at the end."""
    form = axis.get_major_formatter()
    form.format_ticks(axis.get_majorticklocs())
    return bool(form.get_offset())


def _draw_pair(ax: Axes, source: Subject, x: Grid, y: Grid, levels: Sequence[float]) -> Floats:
    """Draw the joint distribution of two columns, and return it on the grid (y, x)."""
    density = joint(source, x, y)
    if x.strips and y.strips:
        _draw_table(ax, x, y, density)
    elif x.strips:
        _draw_strips(ax.fill_betweenx, y, x, density.T)
    elif y.strips:
        _draw_strips(ax.fill_between, x, y, density)
    else:
        _draw_contours(ax, x, y, density, levels)
    if source.data is not None and not (x.strips and y.strips):
        _draw_points(ax, _points(source, x, y), x, y)
    ax.set(xlim=x.limits, ylim=y.limits)
    return density


def _draw_correlation(ax: Axes, source: Subject, x: Grid, y: Grid, density: Floats) -> None:
    """Write the correlations of the model and of data, within the part of the plane shown."""
    ax.set_axis_off()
    if x.category or y.category:
        return
    lines = [("r = ", correlation(x.numbers, y.numbers, density), BLUE)]
    if source.data is not None:
        points = _points(source, x, y)
        varied = len(points) > 1 and np.all(points.std(0) > 0)
        found = float(np.corrcoef(*points.T)[0, 1]) if varied else float("nan")
        lines.append(("data: ", found, DATA))
    for i, (word, value, colour) in enumerate(lines):
        height = 0.5 + (len(lines) - 1 - 2 * i) * 0.1
        text = "–" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
        spot = {"ha": "center", "va": "center", "transform": ax.transAxes}
        ax.text(0.5, height, word + text, color=colour, fontsize=SIZE, **spot)


def _draw_contours(ax: Axes, x: Grid, y: Grid, density: Floats, levels: Sequence[float]) -> None:
    heights = np.unique(density_levels(density, levels))
    top = float(density.max())
    edges = [*heights[heights < top], top]
    if len(edges) < 2:  # a flat density is one region
        edges = [0.0, top]
    colours = fade()(np.linspace(0.12, 0.9, len(edges) - 1))
    ax.contourf(x.numbers, y.numbers, density, levels=edges, colors=colours)


def _draw_strips(fill_between: Any, line: Grid, strips: Grid, density: Floats) -> None:
    """Draw the density along a line for each value of the other column, each on its own scale."""
    for place, along in zip(strips.numbers, density, strict=True):
        if along.max() > 0:
            half = _STRIP * strips.spacing * along / along.max()
            fill_between(line.numbers, place - half, place + half, color=fade()(0.45), lw=0)


def _draw_table(ax: Axes, x: Grid, y: Grid, mass: Floats) -> None:
    """Draw probabilities as a heat map, with numbers if there is room."""
    edges = [np.append(g.numbers - g.spacing / 2, g.edges[1]) for g in (x, y)]
    ax.pcolormesh(*edges, mass, cmap=fade(), vmin=0, vmax=mass.max(), edgecolors="white", lw=0.5)
    if max(len(x), len(y)) <= _MOST_NUMBERS:
        write_cells(ax, x.numbers, y.numbers, mass, _percent)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.005 else "<1"


def _draw_points(ax: Axes, places: Floats, x: Grid, y: Grid) -> None:
    places = places[:: max(1, -(-len(places) // _MOST_POINTS))]
    rng = np.random.default_rng(0)  # its own seed: the same plot each time, global state untouched
    for side, grid in enumerate((x, y)):
        if grid.strips:
            places[:, side] += rng.uniform(-0.15, 0.15, len(places)) * grid.spacing
    size = 1.6 if len(places) < 300 else 1.1
    ax.plot(*places.T, "o", color=DATA, ms=size, mew=0, alpha=0.6, rasterized=True)


def _points(source: Subject, x: Grid, y: Grid) -> Floats:
    """Return the places (N, 2) of rows with both cells, within the axes."""
    places = np.stack([grid.places(source.cells(grid.name)) for grid in (x, y)], 1)
    low, high = np.array([x.limits, y.limits]).T
    return places[((places >= low) & (places <= high)).all(1)]
