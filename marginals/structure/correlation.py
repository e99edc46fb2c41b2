"""The absolute correlation of columns with missing cells.

Shapes: N rows, D columns.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["absolute_correlation"]

Array = NDArray[np.float64]

FEWEST_SHARED_ROWS = 3  # any two rows have correlation one


def absolute_correlation(
    x: ArrayLike, *, max_rows: int | None = 100_000, seed: int = 0
) -> Array:  # (D, D)
    """Return |r| for each pair of columns, over the rows in which both are observed.

    A pair is NaN if it shares fewer than three rows, or if either column is constant over the
    shared rows. The diagonal is one.

    Args:
        x: table (N, D), with NaN for missing cells.
        max_rows: rows to use from a longer table, spread evenly over it; None uses all.
        seed: seed for choosing those rows.

    >>> nan = float("nan")
    >>> x = [[1.0, -2.0, 5.0], [2.0, -4.0, 5.0], [3.0, -6.0, 5.0], [4.0, nan, 5.0]]
    >>> absolute_correlation(x).round(6)
    array([[ 1.,  1., nan],
           [ 1.,  1., nan],
           [nan, nan,  1.]])
    """
    correlation = _pairwise(_thin(_table(x), max_rows, seed))
    np.fill_diagonal(correlation, 1.0)
    return correlation


def _table(x: ArrayLike) -> Array:
    table = np.asarray(x, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(
            f"Expected `x` to have two axes, rows and columns; got shape {table.shape}. "
            "Reshape it to (N, D)."
        )
    infinite = np.flatnonzero(np.isinf(table).any(axis=0))
    if infinite.size:
        raise ValueError(
            f"Expected `x` to be finite or NaN; got an infinite cell in column {infinite[0]}. "
            "Replace it by a finite value, or by NaN if it is missing."
        )
    return table


def _thin(table: Array, max_rows: int | None, seed: int) -> Array:
    if max_rows is None or len(table) <= max_rows:
        return table
    if max_rows < FEWEST_SHARED_ROWS:
        raise ValueError(
            f"Expected `max_rows` to be at least {FEWEST_SHARED_ROWS} or None; got {max_rows}. "
            "Allow more rows."
        )
    # One random row from each of `max_rows` equal stretches of the table.
    edges = np.arange(max_rows + 1) * len(table) // max_rows
    return table[np.random.default_rng(seed).integers(edges[:-1], edges[1:])]


def _pairwise(table: Array) -> Array:
    if len(table) < FEWEST_SHARED_ROWS:
        return np.full((table.shape[1], table.shape[1]), np.nan)
    mask = (~np.isnan(table)).astype(np.float64)  # (N, D)
    scaled = _scale(table)
    z = np.where(mask > 0, _scale(scaled - _median(scaled)), 0.0)  # (N, D)
    shared = mask.T @ mask  # (D, D), rows that both columns have
    rows = np.maximum(shared, 1.0)
    total = z.T @ mask  # (D, D), [i, j]: column i summed over the rows that j has
    square = (z * z).T @ mask
    spread = square - total**2 / rows
    # For a constant column the difference is rounding error, at most about this large.
    noise = 4.0 * shared * np.finfo(np.float64).eps * square
    spread = np.where(spread > noise, spread, np.nan)
    cross = z.T @ z - total * total.T / rows
    # A product of two roots: the root of the product could underflow.
    correlation: Array = np.abs(cross) / (np.sqrt(spread) * np.sqrt(spread.T))
    correlation[shared < FEWEST_SHARED_ROWS] = np.nan
    return np.minimum(correlation, 1.0)


def _scale(table: Array) -> Array:
    """Scale columns into [-1, 1] by powers of two, which are free of rounding."""
    peak = np.fmax.reduce(np.abs(table), axis=0, initial=0.0)  # fmax skips NaN
    exponent: NDArray[np.int32] = np.frexp(peak)[1]
    scaled: Array = np.ldexp(table, -exponent)
    return scaled


def _median(table: Array) -> Array:
    """Return the median of each column, or 0 for a column without observed cells.

    The mean would follow an outlier away from the other cells, and pairs that do not share the
    outlier's row would cancel. The median is within one standard deviation of the mean, so pairs
    that share the outlier lose at most a bit.
    """
    observed = ~np.isnan(table).all(axis=0)
    middle: Array = np.nanmedian(np.where(observed, table, 0.0), axis=0)
    return middle
