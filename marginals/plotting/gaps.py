"""Which cells of a table are missing."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.plotting.canvas import BLUE, SIZE, WIDTH, Axes, axes_or_new, crowded, dress, shown

__all__ = ["missingness"]

_MOST_PATTERNS = 12
_MOST_COLUMNS = 30


class Patterns(NamedTuple):
    """The combinations of missing cells that rows have, the most common first.

    Args:
        missing: (patterns, columns).
        shares: (patterns,), of rows.
    """

    missing: npt.NDArray[np.bool_]
    shares: npt.NDArray[np.float64]


def missingness(frame: Any, *, ax: Axes = None) -> Axes:
    """Draw which cells are missing: the share of each column, and which go missing together.

    Each row of the picture is a combination of missing cells (dark), with the share of the table's
    rows that have it, the most common first. Below each column is the share of its cells that is
    missing. At most 12 combinations and the 30 columns with most gaps are shown.

    Args:
        frame: a DataFrame, or an array of rows and columns; NaN, None, NA and NaT are missing.
        ax: axes to draw on; a new figure without them.
    """
    missing, names = _missing(frame)
    share = missing.mean(0)
    kept = np.sort(np.argsort(-share, kind="stable")[:_MOST_COLUMNS])
    found = patterns(missing[:, kept])
    top = Patterns(found.missing[:_MOST_PATTERNS], found.shares[:_MOST_PATTERNS])
    count = len(top.shares)
    ax = axes_or_new(ax, (float(np.clip(0.5 * len(kept) + 1, 2.5, WIDTH)), 0.18 * count + 1.4))
    _draw(ax, top)
    ax.set_yticks(range(count), [percent(value) for value in top.shares])
    texts, shares = [shown(names[i], 20) for i in kept], [percent(share[i]) for i in kept]
    upright = crowded(ax, texts)
    joined = [f"{a}{'  ' if upright else chr(10)}{b}" for a, b in zip(texts, shares, strict=True)]
    ax.set_xticks(range(len(kept)), joined, rotation=90 if upright else 0)
    dress(ax)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("column, and its missing cells", fontsize=SIZE)
    ax.set_ylabel("share of rows", fontsize=SIZE)
    ax.set_title(_left_out(found, top, missing.shape[1] - len(kept)), fontsize=SIZE, loc="left")
    return ax


def patterns(missing: npt.NDArray[np.bool_]) -> Patterns:
    """Count the distinct rows of a table of flags.

    >>> patterns(np.array([[True, False], [False, False], [True, False]])).shares.round(2)
    array([0.67, 0.33])
    """
    rows, counts = np.unique(missing, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return Patterns(rows[order], counts[order] / len(missing))


def percent(share: float) -> str:
    """Write a share; nothing that occurs is 0 %, and nothing but all is 100 %.

    >>> percent(0.0), percent(0.001), percent(0.125), percent(0.999)
    ('0 %', '<1 %', '12 %', '>99 %')
    """
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


# Parts ----------------------------------------------------------------------------------------


def _missing(frame: Any) -> tuple[npt.NDArray[np.bool_], list[Any]]:
    table = frame if isinstance(frame, pd.DataFrame) else np.asarray(frame)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            "Expected `frame` to be a table with rows and columns; got shape "
            f"{tuple(table.shape)}. Give a DataFrame, or an array with two dimensions."
        )
    table = pd.DataFrame(table)
    return table.isna().to_numpy(), list(table.columns)


def _draw(ax: Axes, top: Patterns) -> None:
    """Draw a tile for each cell, with gaps between them."""
    rows, columns = top.missing.shape
    flags = top.missing.astype(np.float64)
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(["#ECECEC", BLUE])
    ax.pcolormesh(*edges, flags, cmap=colours, vmin=0, vmax=1, edgecolors="white", lw=1)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))


def _left_out(found: Patterns, top: Patterns, columns: int) -> str:
    parts = []
    if (rarer := len(found.shares) - len(top.shares)) > 0:
        share = percent(float(1 - top.shares.sum()))
        parts.append(f"{rarer} rarer combinations ({share} of rows)")
    if columns:
        parts.append(f"{columns} columns with fewer gaps")
    return f"not shown: {', '.join(parts)}" if parts else ""
