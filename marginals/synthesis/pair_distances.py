"""The association of each pair of columns in two tables."""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import chi2_contingency, rankdata

from marginals.synthesis.comparable_cells import Cells, Floats

_FEWEST = 3  # complete rows below which an association says nothing


def pair_differences(
    columns: Sequence[Cells], pairs: Iterable[tuple[int, int]] | None = None
) -> pd.DataFrame:
    """Return the association of pairs of columns in a real and a synthetic table.

    Two columns of numbers have Spearman's correlation, two of categories bias-corrected Cramér's V,
    and one of each the correlation ratio of ranks, over the rows in which both are observed. The
    value is NaN if a table has too few such rows or a column is constant.

    Args:
        columns: cells of both tables.
        pairs: positions of the columns of each pair; by default all pairs.
    """
    chosen = combinations(range(len(columns)), 2) if pairs is None else pairs
    lines = []
    for first, second in ((columns[i], columns[j]) for i, j in chosen):
        real, drawn = (_association(first, second, table) for table in (0, 1))
        lines.append((first.name, second.name, _measure(first, second), real, drawn))
    frame = pd.DataFrame(lines, columns=["first", "second", "measure", "real", "synthetic"])
    return frame.assign(difference=(frame["synthetic"] - frame["real"]).astype(float))


def _measure(first: Cells, second: Cells) -> str:
    if first.number and second.number:
        return "spearman"
    return "correlation ratio" if first.number or second.number else "cramer"


def _association(first: Cells, second: Cells, table: int) -> float:
    a, b = first.parts[table], second.parts[table]
    observed = ~(np.isnan(a) | np.isnan(b))
    a, b = a[observed], b[observed]
    if len(a) < _FEWEST or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    if first.number and second.number:
        return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
    if first.number:
        return correlation_ratio(rankdata(a), b)
    return correlation_ratio(rankdata(b), a) if second.number else cramer(a, b)


def correlation_ratio(values: Floats, codes: Floats) -> float:
    """Return the standard deviation of group means relative to that of all values.

    >>> correlation_ratio(np.array([1.0, 1.0, 5.0, 5.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    1.0
    """
    means = pd.Series(values).groupby(codes).transform("mean")
    return float(means.std(ddof=0) / values.std())


def cramer(a: Floats, b: Floats) -> float:
    """Return Cramér's V, corrected for bias (Bergsma 2013).

    >>> round(cramer(np.array([0.0, 0.0, 1.0, 1.0] * 50), np.array([1.0, 1.0, 0.0, 0.0] * 50)), 6)
    1.0
    """
    (first, row), (second, column) = (np.unique(side, return_inverse=True) for side in (a, b))
    count, rows, columns = len(a), len(first), len(second)
    table = np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns)
    phi = chi2_contingency(table, correction=False).statistic / count
    phi = max(0.0, phi - (rows - 1) * (columns - 1) / (count - 1))
    rows_left = rows - (rows - 1) ** 2 / (count - 1)
    columns_left = columns - (columns - 1) ** 2 / (count - 1)
    left = min(rows_left, columns_left) - 1
    return float(min(1.0, np.sqrt(phi / left))) if left > 0 else float(phi > 0)
