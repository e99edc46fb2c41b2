"""How strongly each pair of columns depends on each other, as a heat map."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from marginals.plotting.canvas import (
    SIZE,
    WIDTH,
    Axes,
    axes_or_new,
    crowded,
    dress,
    fade,
    shade,
    shown,
)

__all__ = ["dependence"]

_MOST_NUMBERS = 12  # columns with room for numbers


def dependence(matrix_or_model: Any, *, ax: Axes = None) -> Axes:
    """Draw the mutual information of each pair of columns, in nats.

    Args:
        matrix_or_model: a symmetric DataFrame with the same names along both sides, whose diagonal
            is not shown; or a fitted model, which is asked about each pair.
        ax: axes to draw on; a new figure without them.
    """
    frame = _checked(matrix_or_model)
    count = len(frame)
    side = min(0.42 * count, WIDTH - 2.3)  # of the map alone; the rest is for names and colours
    ax = axes_or_new(ax, (side + 2.3, side + 1.3))
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    np.fill_diagonal(values, np.nan)
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    top = top if top > 0 else 1.0
    image = ax.imshow(values, cmap=fade(), vmin=0, vmax=top)
    names = [shown(name, 18) for name in frame.columns]
    ax.set_xticks(range(count), names, rotation=90 if crowded(ax, names) else 0)
    ax.set_yticks(range(count), names)
    if count <= _MOST_NUMBERS:
        _write(ax, values, top)
    dress(ax)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("mutual information (nats)", fontsize=SIZE)
    bar.outline.set_visible(False)
    dress(bar.ax, frame=True)
    return ax


# Parts ----------------------------------------------------------------------------------------


def _checked(matrix_or_model: Any) -> pd.DataFrame:
    if not isinstance(matrix_or_model, pd.DataFrame):
        return _asked(matrix_or_model)
    frame = matrix_or_model
    if frame.empty or list(frame.index) != list(frame.columns):
        raise ValueError(
            "Expected `matrix_or_model` to have the same names along both sides; got "
            f"{list(frame.index)[:5]} and {list(frame.columns)[:5]}. Order them alike."
        )
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.allclose(values, values.T, rtol=1e-6, atol=1e-9, equal_nan=True):
        worst = np.unravel_index(np.nanargmax(np.abs(values - values.T)), values.shape)
        raise ValueError(
            "Expected `matrix_or_model` to be symmetric; got different values for "
            f"{frame.index[worst[0]]!r} and {frame.columns[worst[1]]!r} in either order. Average "
            "the two: (m + m.T) / 2."
        )
    return frame


def _asked(model: Any) -> pd.DataFrame:
    """Ask a model about each pair."""
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


def _write(ax: Axes, values: Any, top: float) -> None:
    for i, j in np.ndindex(values.shape):
        if np.isfinite(values[i, j]):
            text = f"{values[i, j]:.2f}".replace("-", "−")
            spot = {"ha": "center", "va": "center", "fontsize": SIZE - 2}
            ax.text(j, i, text, color=shade(values[i, j] / top), **spot)
