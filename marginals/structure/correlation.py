r"""The similarity of columns with missing cells.

Shapes: N rows, D columns.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["absolute_correlation"]

Array = NDArray[np.float64]

# A correlation of two rows is always one, whatever the columns.
FEWEST_SHARED_ROWS = 3


def absolute_correlation(
    x: ArrayLike,
    *,
    rank: bool = False,
    max_rows: int | None = 100_000,
    seed: int = 0,
) -> Array:
    r"""Returns the absolute correlation of each pair of columns over the rows they share.

    .. math:: r_{ij} = \frac{|\sum_n (x_{ni} - \bar{x}_i) (x_{nj} - \bar{x}_j)|}
        {\sqrt{\sum_n (x_{ni} - \bar{x}_i)^2 \sum_n (x_{nj} - \bar{x}_j)^2}}

    where the sums and the means run over the rows :math:`n` in which both columns are
    observed. A pair that shares fewer than three rows, or of which one column is constant
    over the shared rows, is NaN. The diagonal is one.

    Arguments:
        x: The table, :math:`(N, D)`, with NaN for missing cells.
        rank: Whether to correlate the ranks within the columns (Spearman) instead of the
            values (Pearson).
        max_rows: The number of rows to draw from a longer table, spread evenly over it.
            All rows are used if None.
        seed: The seed of that draw.

    Example:
        >>> import numpy as np
        >>> nan = float("nan")
        >>> x = [[1.0, -2.0, 5.0], [2.0, -4.0, 5.0], [3.0, -6.0, 5.0], [4.0, nan, 5.0]]
        >>> absolute_correlation(x).round(6)
        array([[ 1.,  1., nan],
               [ 1.,  1., nan],
               [nan, nan,  1.]])
    """
    table = _thin(_table(x), max_rows, seed)
    correlation = _pairwise(_ranks(table) if rank else table)
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
            "Replace it by a finite value, or by NaN for a missing one."
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
    # One row at random from each of `max_rows` equal stretches of the table.
    edges = np.arange(max_rows + 1) * len(table) // max_rows
    return table[np.random.default_rng(seed).integers(edges[:-1], edges[1:])]


def _ranks(table: Array) -> Array:
    ranks = np.full_like(table, np.nan)
    for column, rank in zip(table.T, ranks.T, strict=True):
        observed = ~np.isnan(column)
        rank[observed] = _average_ranks(column[observed])
    return ranks


def _average_ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - 0.5 * (counts - 1))[inverse]
    return ranks


def _pairwise(table: Array) -> Array:
    if len(table) < FEWEST_SHARED_ROWS:
        return np.full((table.shape[1], table.shape[1]), np.nan)
    mask = (~np.isnan(table)).astype(np.float64)  # (N, D)
    z = np.where(mask > 0, _standardise(table), 0.0)  # (N, D)
    shared = mask.T @ mask  # (D, D), rows that both columns have
    total = z.T @ mask  # (D, D), [i, j]: column i summed over the rows that j has
    spread = _spread((z * z).T @ mask, total, shared)
    cross = z.T @ z - total * total.T / np.maximum(shared, 1.0)
    # The product of two roots: the root of the product could underflow.
    correlation: Array = np.abs(cross) / (np.sqrt(spread) * np.sqrt(spread.T))
    correlation[shared < FEWEST_SHARED_ROWS] = np.nan
    return np.minimum(correlation, 1.0)


def _spread(square: Array, total: Array, shared: Array) -> Array:
    """Gives [i, j]: the squared deviations of column i over the rows that j has, or NaN."""
    spread = square - total**2 / np.maximum(shared, 1.0)
    # Of a constant the difference leaves rounding errors, at most about this large.
    noise = 4.0 * shared * np.finfo(np.float64).eps * square
    return np.where(spread > noise, spread, np.nan)


def _standardise(table: Array) -> Array:
    scaled = _scale(table)
    return _scale(scaled - _middle(scaled))


def _scale(table: Array) -> Array:
    """Scales the columns into [-1, 1] by powers of two, which round nothing."""
    peak = np.fmax.reduce(np.abs(table), axis=0, initial=0.0)  # fmax skips NaN
    exponent: NDArray[np.int32] = np.frexp(peak)[1]
    scaled: Array = np.ldexp(table, -exponent)
    return scaled


def _middle(table: Array) -> Array:
    """Gives the median of each column, or 0 without observed cells.

    The mean would follow an outlier away from the other cells; pairs that do not share the
    outlier's row would then cancel to nothing. The median is within one standard deviation
    of the mean, so pairs that do share it lose at most a bit.
    """
    observed = ~np.isnan(table).all(axis=0)
    middle: Array = np.nanmedian(np.where(observed, table, 0.0), axis=0)
    return middle
