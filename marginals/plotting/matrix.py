"""The matrix of pairs: each column's marginal, and each pair's joint distribution."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from textwrap import fill
from typing import Any

import numpy as np

from marginals.columns import Schema
from marginals.plotting.canvas import SIZE, WIDTH, Axes, dress, pyplot
from marginals.plotting.curves import (
    axis_label,
    draw_atoms,
    draw_bars,
    draw_curve,
    draw_data,
    draw_values,
    label_values,
    told,
)
from marginals.plotting.grid import Grid, Subject, drawn, grid_of, masses, subject
from marginals.plotting.levels import check_shares
from marginals.plotting.pair_cells import draw_correlation, draw_pair

__all__ = ["pairs"]

MOST_COLUMNS = 8  # more are too small to read in print
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_CURVE, _SIDE = 200, 60  # points of a marginal, and to a side of a pair


def pairs(
    model: Any,
    columns: Any = None,
    *,
    data: Any = None,
    given: Mapping[Any, Any] | None = None,
    levels: Sequence[float] = _LEVELS,
    width: float = WIDTH,
) -> Any:
    """Draw the marginals of columns, the joint distribution of each pair, and data beside them.

    On the diagonal are marginals. Below it, two columns of numbers have the regions of highest
    density that hold the shares `levels` of the mass; a column with few values has a strip for
    each, drawn to its own scale; two such columns have their probabilities in percent. Above it
    are the correlations of the model and of data, within the part of the plane shown. Where a
    column has atoms, its pairs show the density beside them.

    Args:
        model: a fitted `MDMA`, or a view of one.
        columns: names, at most eight; by default the first eight.
        data: rows to compare with. They are shown as they are: choose those that match `given`.
        given: evidence, as in `MDMA.prob`; its columns are not drawn.
        levels: shares of mass between 0 and 1.
        width: of the figure, in inches.

    Returns:
        an array (n, n) of axes.
    """
    plt = pyplot()
    asked = subject(model, given, data)
    names = _names(model.schema_, columns, given)
    check_shares(levels)
    grids = [grid_of(asked, name, _SIDE) for name in names]
    count = len(names)
    tall = width * (0.85 if count > 1 else 0.45)
    figure, axes = plt.subplots(
        count, count, figsize=(width, tall), squeeze=False, layout="constrained"
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    for i, name in enumerate(names):
        _draw_marginal(axes[i, i], asked, grid_of(asked, name, _CURVE))
    for j, i in combinations(range(count), 2):
        density = draw_pair(axes[i, j], asked, grids[j], grids[i], levels)
        draw_correlation(axes[j, i], asked, grids[j], grids[i], density)
    _label(figure, axes, grids)
    _head(figure, axes, told(given), _note(asked, names, columns))
    return axes


# Parts ----------------------------------------------------------------------------------------


def _names(schema: Schema, columns: Any, given: Mapping[Any, Any] | None) -> list[Any]:
    names = drawn(schema, columns, given)
    names = names[:MOST_COLUMNS] if columns is None else names
    if not 1 <= len(names) <= MOST_COLUMNS:
        raise ValueError(
            f"Expected `columns` to name 1 to {MOST_COLUMNS} columns; got {len(names)}. Choose "
            "those that matter, and draw the others in a second picture."
        )
    return names


def _note(asked: Subject, names: list[Any], columns: Any) -> str:
    if columns is not None or len(names) == len(asked.schema):
        return ""
    return f"the first {len(names)} of {len(asked.schema)} columns"


def _draw_marginal(ax: Axes, asked: Subject, grid: Grid) -> None:
    mass = masses(asked, grid)
    (draw_bars if grid.bars else draw_curve)(ax, grid, mass)
    draw_atoms(ax, asked, grid)
    draw_data(ax, asked, grid)
    ax.set_xlim(*grid.limits)
    ax.set_ylim(bottom=0)


def _label(figure: Any, axes: Any, grids: list[Grid]) -> None:
    """Write names and ticks at the left and the bottom of the matrix alone."""
    last = len(grids) - 1
    most = max(11, 90 // (last + 1))  # letters that fit along one side of a cell
    ticks = 3 if last > 3 else 4
    for i, j in zip(*np.tril_indices(last + 1), strict=True):
        ax = axes[i, j]
        draw_values(ax, grids[j], 9, ticks)
        if i != j:
            label_values(ax.yaxis, grids[i], 9, ticks)
        else:
            ax.set_yticks([])
            ax.spines["left"].set_visible(False)
        dress(ax, frame=i != j)
        ax.tick_params(labelbottom=i == last, labelleft=j == 0 and i > 0)
        if i < last:
            ax.xaxis.get_offset_text().set_visible(False)
        if j > 0:
            ax.yaxis.get_offset_text().set_visible(False)
        if i == last:
            pad = 10 if _has_offset(ax.xaxis) else 4  # the offset stands beside the label
            ax.set_xlabel(axis_label(grids[j], most), fontsize=SIZE, labelpad=pad)
        if j == 0 and i > 0:
            ax.set_ylabel(axis_label(grids[i], most), fontsize=SIZE)
    figure.align_ylabels()


def _has_offset(axis: Any) -> bool:
    """Say whether the ticks share a part, such as the year, that is written at the end."""
    form = axis.get_major_formatter()
    form.format_ticks(axis.get_majorticklocs())
    return bool(form.get_offset())


def _head(figure: Any, axes: Any, evidence: str, note: str) -> None:
    """Say above the matrix what is drawn."""
    title = "; ".join(part for part in (evidence, note) if part)
    if title:
        figure.suptitle(fill(title, 80), fontsize=SIZE, x=0.01, ha="left")
    handles = dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True))
    if "data" in handles:
        both = {name: handles[name] for name in ("model", "data")}
        small = {"fontsize": SIZE, "frameon": False, "ncols": 2}
        figure.legend(both.values(), both.keys(), loc="outside upper right", **small)
