"""How the columns of a table go together, whatever their kinds."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from marginals.synthesis.comparable_cells import Cells, Floats

# Of fewer rows that know both columns, an association says nothing.
_FEWEST = 3


def pair_differences(columns: Sequence[Cells]) -> pd.DataFrame:
    """Return for each pair of columns how they go together in a real and a synthetic table.

    Numbers by Spearman's correlation, categories by Cramér's V (bias-corrected), one of each by the
    correlation ratio of ranks; rows in which either is missing are left out. NaN where a table has
    too few such rows, or a column is constant.
    """
    lines = []
    for i, first in enumerate(columns):
        for second in columns[i + 1 :]:
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
    known = ~(np.isnan(a) | np.isnan(b))
    a, b = a[known], b[known]
    if len(a) < _FEWEST or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    if first.number and second.number:
        return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
    if first.number:
        return correlation_ratio(rankdata(a), b)
    return correlation_ratio(rankdata(b), a) if second.number else cramer(a, b)


def correlation_ratio(values: Floats, codes: Floats) -> float:
    """Return the share of deviation that groups explain, as a correlation.

    >>> correlation_ratio(np.array([1.0, 1.0, 5.0, 5.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    1.0
    """
    group = codes.astype(int)
    counts = np.bincount(group)
    used = counts > 0
    means = np.bincount(group, weights=values)[used] / counts[used]
    between = (counts[used] * (means - values.mean()) ** 2).sum()
    return float(np.sqrt(between / ((values - values.mean()) ** 2).sum()))


def cramer(a: Floats, b: Floats) -> float:
    """Return Cramér's V, less what chance alone gives (Bergsma 2013).

    >>> round(cramer(np.array([0.0, 0.0, 1.0, 1.0] * 50), np.array([1.0, 1.0, 0.0, 0.0] * 50)), 6)
    1.0
    """
    table = pd.crosstab(a, b).to_numpy(dtype=np.float64)
    count = table.sum()
    expected = np.outer(table.sum(1), table.sum(0)) / count
    phi = ((table - expected) ** 2 / expected).sum() / count
    rows, columns = table.shape
    phi = max(0.0, phi - (rows - 1) * (columns - 1) / (count - 1))
    rows_left = rows - (rows - 1) ** 2 / (count - 1)
    columns_left = columns - (columns - 1) ** 2 / (count - 1)
    return float(min(1.0, np.sqrt(phi / max(1e-12, min(rows_left, columns_left) - 1))))
