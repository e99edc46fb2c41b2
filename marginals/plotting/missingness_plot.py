"""Which cells of a table are missing, and which go missing together."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.plotting.canvas import (
    BLUE,
    SIZE,
    WIDTH,
    Axes,
    axes_or_new,
    crowded,
    dress_map,
    shown,
)

Flags = npt.NDArray[np.bool_]

_MOST_PATTERNS = 12
_MOST_COLUMNS = 30


def missingness(frame: Any, *, ax: Axes = None) -> Axes:
    """Draw the share of missing cells in each column, and which cells go missing together.

    Each row of the plot is a combination of missing cells (dark) and the share of the table's rows
    that have it, the most common first. Below each column is its share of missing cells. The plot
    shows at most 12 combinations, and the 30 columns with most missing cells.

    Args:
        frame: a DataFrame, or an array of rows and columns; NaN, None, NA and NaT are missing.
        ax: axes to draw on; by default a new figure.
    """
    table = frame if isinstance(frame, pd.DataFrame) else np.asarray(frame)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            "Expected `frame` to be a table with rows and columns; got shape "
            f"{tuple(table.shape)}. Give a DataFrame, or an array with two dimensions."
        )
    table = pd.DataFrame(table)
    missing = table.isna().to_numpy()
    share = missing.mean(0)
    kept = np.sort(np.argsort(-share, kind="stable")[:_MOST_COLUMNS])
    every, shares = patterns(missing[:, kept])
    shown_rows, rows = every[:_MOST_PATTERNS], shares[:_MOST_PATTERNS]
    own = ax is None
    size = (float(np.clip(0.5 * len(kept) + 1, 2.5, WIDTH)), 0.18 * len(rows) + 1.4)
    ax = axes_or_new(ax, size)
    _draw_tiles(ax, shown_rows)
    ax.set_yticks(range(len(rows)), [percent(value) for value in rows])
    texts = [shown(table.columns[i], 20) for i in kept]
    upright = crowded(ax, texts)
    between = "  " if upright else "\n"
    labels = [f"{text}{between}{percent(share[i])}" for text, i in zip(texts, kept, strict=True)]
    ax.set_xticks(range(len(kept)), labels, rotation=90 if upright else 0)
    if own and upright:  # room for the names below the tiles
        ax.figure.set_figheight(size[1] + 0.055 * max(map(len, labels)))
    dress_map(ax)
    ax.set_xlabel("column, and its missing cells", fontsize=SIZE)
    ax.set_ylabel("share of rows", fontsize=SIZE)
    hidden = []
    if len(every) > len(rows):
        rest = percent(float(1 - rows.sum()))
        hidden.append(f"{len(every) - len(rows)} rarer combinations ({rest} of rows)")
    if len(share) > len(kept):
        hidden.append(f"{len(share) - len(kept)} columns with fewer gaps")
    title = f"not shown: {', '.join(hidden)}" if hidden else ""
    ax.set_title(title, fontsize=SIZE, loc="left")
    return ax


def patterns(missing: Flags) -> tuple[Flags, npt.NDArray[np.float64]]:
    """Return the distinct rows of a table of flags and their shares, the most common first.

    >>> patterns(np.array([[True, False], [False, False], [True, False]]))[1].round(2)
    array([0.67, 0.33])
    """
    rows, counts = np.unique(missing, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return rows[order], counts[order] / len(missing)


def percent(share: float) -> str:
    """Return a share as text; only 0 reads 0 %, and only 1 reads 100 %.

    >>> percent(0.0), percent(0.001), percent(0.125), percent(0.999)
    ('0 %', '<1 %', '12 %', '>99 %')
    """
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _draw_tiles(ax: Axes, missing: Flags) -> None:
    from matplotlib.colors import ListedColormap

    rows, columns = missing.shape
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    style = {"cmap": ListedColormap(["#ECECEC", BLUE]), "edgecolors": "white", "lw": 1}
    ax.pcolormesh(*edges, missing.astype(np.float64), vmin=0, vmax=1, **style)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
