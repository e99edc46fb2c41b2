"""The dependence of each pair of columns, as a heat map."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from marginals.plotting.canvas import (
    WIDTH,
    Axes,
    axes_or_new,
    colour_bar,
    crowded,
    dress_map,
    fade,
    shown,
    write_cells,
)

_MOST_NUMBERS = 12  # columns with room for numbers


def dependence(matrix_or_model: Any, *, ax: Axes = None) -> Axes:
    """Draw the mutual information of each pair of columns, in nats.

    Args:
        matrix_or_model: a symmetric DataFrame with the same names along both sides, whose diagonal
            is ignored; or a fitted model, whose `mutual_information` of each pair is drawn.
        ax: axes to draw on; by default a new figure.
    """
    is_frame = isinstance(matrix_or_model, pd.DataFrame)
    frame = _checked(matrix_or_model) if is_frame else _matrix_of(matrix_or_model)
    count = len(frame)
    side = min(0.42 * count, WIDTH - 2.3)  # of the map; the rest is for names and colours
    ax = axes_or_new(ax, (side + 2.3, side + 1.3))
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    np.fill_diagonal(values, np.nan)
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    image = ax.imshow(values, cmap=fade(), vmin=0, vmax=top if top > 0 else 1.0)
    names = [shown(name, 18) for name in frame.columns]
    ax.set_xticks(range(count), names, rotation=90 if crowded(ax, names) else 0)
    ax.set_yticks(range(count), names)
    if count <= _MOST_NUMBERS:
        write_cells(ax, range(count), range(count), values, lambda v: f"{v:.2f}".replace("-", "−"))
    dress_map(ax)
    colour_bar(ax, image, "mutual information (nats)", shrink=0.8)
    return ax


def _checked(frame: pd.DataFrame) -> pd.DataFrame:
    if frame.empty or list(frame.index) != list(frame.columns):
        raise ValueError(
            "Expected `matrix_or_model` to have the same names along both sides; got "
            f"{list(frame.index)[:5]} and {list(frame.columns)[:5]}. Use the same order."
        )
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.allclose(values, values.T, rtol=1e-6, atol=1e-9, equal_nan=True):
        i, j = np.unravel_index(np.nanargmax(np.abs(values - values.T)), values.shape)
        raise ValueError(
            "Expected `matrix_or_model` to be symmetric; got different values for "
            f"{frame.index[i]!r} and {frame.columns[j]!r} in either order. Average the two: "
            "(m + m.T) / 2."
        )
    return frame


def _matrix_of(model: Any) -> pd.DataFrame:
    if not (hasattr(model, "schema_") and hasattr(model, "mutual_information")):
        raise TypeError(
            "Expected `matrix_or_model` to be a DataFrame or a fitted model with "
            f"`mutual_information`; got {type(model).__name__}. Fit it, or give the DataFrame."
        )
    names = model.schema_.names
    values = np.full((len(names), len(names)), np.nan)
    for i, j in combinations(range(len(names)), 2):
        values[i, j] = values[j, i] = model.mutual_information(names[i], names[j]).value
    return pd.DataFrame(values, index=pd.Index(names), columns=pd.Index(names))
