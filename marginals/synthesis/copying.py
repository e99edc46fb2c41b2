"""Whether synthetic rows copy the rows that a model was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from scipy.stats import mannwhitneyu
from sklearn.neighbors import NearestNeighbors

from marginals.synthesis.comparable_cells import Cells, Floats, spread

_CLOSE = 0.05  # quantile of the unseen rows' distances below which a row is close


@final
@dataclass(frozen=True)
class Copying:
    """Compare the distances of synthetic rows and of unseen rows to the fitted rows.

    Distances are Euclidean. Numbers count in standard deviations; a different category or a missing
    cell counts as 1.

    Args:
        close: share of synthetic rows closer to a fitted row than 95 % of unseen rows are: 0.05 if
            nothing is copied, and more if something is.
        pvalue: probability of synthetic rows this close overall if nothing is copied.
        duplicates: share of synthetic rows that equal a fitted row.
        duplicates_unseen: share of unseen rows that equal a fitted row; in tables with few
            categories, rows repeat by themselves.
        unseen: "holdout", or "real" if fitted rows were compared with each other.
        to_real, unseen_to_real: distances of synthetic and of unseen rows, sorted.
    """

    close: float
    pvalue: float
    duplicates: float
    duplicates_unseen: float
    unseen: str
    to_real: Floats = field(repr=False)
    unseen_to_real: Floats = field(repr=False)


def copying(columns: Sequence[Cells], most: int, random: np.random.Generator) -> Copying:
    """Measure synthetic rows (second table) and unseen rows (third, if any) from fitted rows."""
    parts = [_embed(column) for column in columns]
    tables = [np.concatenate(table, 1) for table in zip(*parts, strict=True)]
    near = NearestNeighbors().fit(tables[0])
    synthetic = _nearest(near, _some(tables[1], most, random), 1)
    holdout = len(tables) > 2
    # Fitted rows compared with each other: the nearest is the row itself.
    others, rank = (tables[2], 1) if holdout else (tables[0], 2)
    unseen = _nearest(near, _some(others, most, random), rank)
    edge = np.quantile(unseen, _CLOSE)
    # Where unseen rows tie at the edge, as in tables with few categories, they are no closer.
    close = float((synthetic < edge).mean()) + _CLOSE - float((unseen < edge).mean())
    return Copying(
        close=float(np.clip(close, 0.0, 1.0)),
        pvalue=float(mannwhitneyu(synthetic, unseen, alternative="less").pvalue),
        duplicates=float((synthetic == 0).mean()),
        duplicates_unseen=float((unseen == 0).mean()),
        unseen="holdout" if holdout else "real",
        to_real=np.sort(synthetic),
        unseen_to_real=np.sort(unseen),
    )


def _some(rows: Floats, most: int, random: np.random.Generator) -> Floats:
    return rows if len(rows) <= most else rows[random.permutation(len(rows))[:most]]


def _nearest(near: NearestNeighbors, rows: Floats, rank: int) -> Floats:
    """Return the distance to the nearest row, or to the second nearest."""
    far = near.kneighbors(rows, min(rank, near.n_samples_fit_))[0][:, -1]
    return np.where(far < 1e-6, 0.0, far)  # equal rows differ by rounding of squares


def _embed(column: Cells) -> list[Floats]:
    """Return each table's cells as points whose Euclidean distances are those of `Copying`."""
    if not column.number:
        codes = np.arange(-1, column.categories)
        # Two categories are apart on two axes: half the squared distance on each.
        return [
            (np.nan_to_num(part, nan=-1.0)[:, None] == codes) / np.sqrt(2) for part in column.parts
        ]
    real = column.parts[0][~np.isnan(column.parts[0])]
    centre, scale = (real.mean() if len(real) else 0.0), spread(real) or 1.0
    return [
        np.column_stack([np.nan_to_num((part - centre) / scale, nan=0.0), np.isnan(part)])
        for part in column.parts
    ]
