"""Whether synthetic rows are copies of the rows that a model was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from scipy.stats import mannwhitneyu
from sklearn.neighbors import NearestNeighbors

from marginals.synthesis.comparable_cells import Cells, Floats, spread

# The share of unseen rows that lie closer to a fitted row than the distance called close.
_CLOSE = 0.05


@final
@dataclass(frozen=True)
class Copying:
    """How close synthetic rows come to fitted ones, beside rows that were not fitted.

    Distances are Euclidean: numbers in standard deviations, another category or a gap counts 1.

    Args:
        close: the share of synthetic rows closer to a fitted row than all but 5 % of unseen ones
            are; 0.05 if nothing is copied, and more if something is.
        pvalue: how often synthetic rows come as close on the whole if nothing is copied.
        duplicates: the share of synthetic rows that equal a fitted row.
        duplicates_unseen: the same of unseen rows; tables of few categories repeat themselves.
        unseen: "holdout", or "real" if fitted rows were measured from each other.
        to_real, unseen_to_real: the distances, sorted.
    """

    close: float
    pvalue: float
    duplicates: float
    duplicates_unseen: float
    unseen: str
    to_real: Floats = field(repr=False)
    unseen_to_real: Floats = field(repr=False)


def copying(columns: Sequence[Cells], most: int, random: np.random.Generator) -> Copying:
    """Measure synthetic rows (the second table) and unseen ones (the third) from fitted ones."""
    tables = _embedded(columns)
    near = NearestNeighbors().fit(tables[0])
    synthetic = _nearest(near, _some(tables[1], most, random), 1)
    if len(tables) > 2:
        unseen = _nearest(near, _some(tables[2], most, random), 1)
    else:
        unseen = _nearest(near, _some(tables[0], most, random), 2)  # the nearest is the row itself
    edge = np.quantile(unseen, _CLOSE)
    # Where unseen rows tie at the edge, as in tables of few categories, they are no closer.
    expected = float((unseen < edge).mean())
    close = float((synthetic < edge).mean()) + _CLOSE - expected
    test = mannwhitneyu(synthetic, unseen, alternative="less")
    return Copying(
        float(np.clip(close, 0.0, 1.0)),
        float(test.pvalue),
        float((synthetic == 0).mean()),
        float((unseen == 0).mean()),
        "holdout" if len(tables) > 2 else "real",
        np.sort(synthetic),
        np.sort(unseen),
    )


def _some(rows: Floats, most: int, random: np.random.Generator) -> Floats:
    return rows if len(rows) <= most else rows[random.permutation(len(rows))[:most]]


def _nearest(near: NearestNeighbors, rows: Floats, rank: int) -> Floats:
    """Return the distance to the nearest row, or to the one after it."""
    count = min(rank, near.n_samples_fit_)
    far = near.kneighbors(rows, count)[0][:, -1]
    # Rounding of differences of squares: equal rows have a distance of 0.
    return np.where(far < 1e-6, 0.0, far)


def _embedded(columns: Sequence[Cells]) -> list[Floats]:
    """Return each table as points whose Euclidean distances are those of `Copying`."""
    parts = [_embed(column) for column in columns]
    return [np.concatenate([part[t] for part in parts], 1) for t in range(len(columns[0].parts))]


def _embed(column: Cells) -> list[Floats]:
    if not column.number:
        codes = np.arange(-1, column.categories)
        # Two categories are two axes apart: half the square of the distance on each.
        return [
            (np.nan_to_num(part, nan=-1.0)[:, None] == codes) / np.sqrt(2) for part in column.parts
        ]
    real = column.parts[0][~np.isnan(column.parts[0])]
    centre, scale = (real.mean() if len(real) else 0.0), spread(real) or 1.0
    return [
        np.column_stack([np.nan_to_num((part - centre) / scale, nan=0.0), np.isnan(part)])
        for part in column.parts
    ]
