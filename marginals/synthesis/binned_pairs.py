"""The distance between two tables in each pair of columns, over bins of both."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import chi2

from marginals.synthesis.comparable_cells import Cells, Floats, Ints

_BINS = 10  # bins of a column; values that fill a bin alone add one each


def binned_pair_distances(columns: Sequence[Cells]) -> pd.DataFrame:
    """Return the distance of two tables in each pair of columns, one line per pair.

    Numbers are binned at the first table's deciles, and values that are common there have a bin of
    their own; rare categories share one. `distance` is the total variation distance over the cells
    of both columns' bins, in the rows that have both, and `alone` that of the worse column, which
    it cannot be below. `noise` is the mean of `distance` for two tables drawn from one
    distribution, `pvalue` that of the chi-squared test. `first` and `second` are positions.
    """
    names = ["first", "second", "distance", "alone", "noise", "pvalue"]
    if len(columns) < 2:
        return pd.DataFrame(columns=names)
    bins = [_bins(column) for column in columns]
    sizes = [1 + max(int(part.max(initial=0)) for part in parts) for parts in bins]
    starts = np.cumsum([0, *sizes[:-1]])
    real, drawn = (
        _counts([parts[table] for parts in bins], starts, sum(sizes)) for table in (0, 1)
    )
    first, second = np.array(list(combinations(range(len(columns)), 2))).T
    distance, noise, pvalue = _compared(real, drawn, starts, sizes)
    own = distance.diagonal()  # a column with itself
    alone = np.fmax(own[first], own[second])
    values = (distance[first, second], alone, noise[first, second], pvalue[first, second])
    return pd.DataFrame(dict(zip(names, [first, second, *values], strict=True)))


def _bins(column: Cells) -> list[Ints]:
    """Return the bin of each cell in both tables, -1 where missing."""
    real = column.parts[0][~np.isnan(column.parts[0])]
    if column.number:
        edges = _edges(real)
        found = [np.searchsorted(edges, part) for part in column.parts[:2]]
    else:
        place = np.full(column.categories + 1, _BINS - 1)
        order = np.argsort(-np.bincount(real.astype(int), minlength=len(place)), kind="stable")
        place[order[: _BINS - 1]] = np.arange(min(_BINS - 1, len(place)))
        found = [place[np.nan_to_num(part).astype(int)] for part in column.parts[:2]]
    return [
        np.where(np.isnan(part), -1, own) for part, own in zip(column.parts[:2], found, strict=True)
    ]


def _edges(values: Floats) -> Floats:
    """Return the upper ends of bins; a value that fills a bin has one of its own."""
    if not len(values):
        return values
    levels = np.arange(1, _BINS) / _BINS
    edges = np.quantile(values, levels, method="inverted_cdf")
    common, count = np.unique(edges, return_counts=True)
    distinct = np.unique(values)
    # Few values: each is one bin, and what lies between them another.
    alone = distinct if len(distinct) <= _BINS else common[count > 1]
    return np.unique(np.concatenate([edges, alone, np.nextafter(alone, -np.inf)]))


def _counts(bins: Sequence[Ints], starts: Ints, size: int) -> Floats:
    """Count rows in each pair of bins of all columns, (size, size), in one matrix product."""
    rows = len(bins[0])
    member = np.zeros((rows, size), dtype=np.float32)  # exact for counts below 2^24
    for own, start in zip(bins, starts, strict=True):
        seen = np.flatnonzero(own >= 0)
        member[seen, start + own[seen]] = 1.0
    return (member.T @ member).astype(np.float64)


def _compared(
    real: Floats, drawn: Floats, starts: Ints, sizes: Sequence[int]
) -> tuple[Floats, Floats, Floats]:
    """Return distance, noise and p-value of each pair of columns, (D, D)."""

    def summed(cells: Floats) -> Floats:
        return np.add.reduceat(np.add.reduceat(cells, starts, 0), starts, 1)

    def spread(pairs: Floats) -> Floats:
        return np.repeat(np.repeat(pairs, sizes, 0), sizes, 1)

    n, m = summed(real), summed(drawn)
    with np.errstate(invalid="ignore", divide="ignore"):  # pairs without rows give NaN
        apart = np.abs(real / spread(n) - drawn / spread(m))
        pooled = (real + drawn) / spread(n + m)
        variance = pooled * (1 - pooled) * spread(1 / n + 1 / m)
        terms = np.where(pooled > 0, apart**2 / pooled, 0.0)
        statistic = summed(terms) * n * m / (n + m)
        noise = summed(np.sqrt(2 / np.pi * variance)) / 2
    freedom = np.maximum(summed((pooled > 0).astype(np.float64)) - 1, 1)
    return summed(apart) / 2, noise, chi2.sf(statistic, freedom)
