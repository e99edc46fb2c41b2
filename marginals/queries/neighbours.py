"""How far a row lies from the rows most like it, over its observed cells."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# A column's unit is the range of its middle rows, which outliers do not stretch.
_MIDDLE = (0.1, 0.9)
# Share of a point's squared size up to which a squared distance may be a rounding error.
_ROUNDING = 1e-12
# In units: the squares of larger numbers overflow.
_FARTHEST = 1e150
# Distances held at a time, which bounds memory.
_AT_ONCE = 1 << 22


@final
class Neighbours:
    """Distances to the k-th nearest of some complete rows, over the observed cells of each row.

    A number is measured in the range of its column's middle 80 %, so that units do not matter and
    outliers do not set them. Two different categories are as far apart as two numbers one unit
    apart in each of two columns. A point that equals one of the rows is taken for that row, which
    is no neighbour of itself.

    Args:
        rows: complete rows (S, n) to compare with; categories are codes.
        categories: the number of categories of each column, None for numbers.
        k: which neighbour counts. The first would let two outliers hide each other.

    >>> near = Neighbours(np.arange(11.0)[:, None], [None])
    >>> near(np.array([[5.0], [14.0], [np.nan]]))
    array([0.375, 1.   , 0.   ])
    """

    def __init__(self, rows: Floats, categories: Sequence[int | None], k: int = 5) -> None:
        self._categories, self._k = list(categories), k
        numbers = [c for c, count in enumerate(self._categories) if count is None]
        self._middle = np.zeros(rows.shape[1])
        self._unit = np.ones(rows.shape[1])
        self._middle[numbers] = np.median(rows[:, numbers], axis=0)
        self._unit[numbers] = _units(rows[:, numbers])
        self._rows, _ = self._placed(rows)  # (S, E)
        self._squares = np.square(self._rows)

    def __call__(self, points: Floats) -> Floats:
        """Return the distance of each point, (B,); 0 without observed cells or other rows.

        Args:
            points: rows (B, n), NaN where missing.
        """
        size = max(1, _AT_ONCE // len(self._rows))
        parts = [points[start : start + size] for start in range(0, len(points), size)]
        return np.concatenate([np.zeros(0), *map(self._distances, parts)])

    def _distances(self, points: Floats) -> Floats:
        """Return the distances of points that are compared at a time, (B,)."""
        x, known = self._placed(points)
        size = np.square(x).sum(1)
        # The square of a difference, multiplied out: sums over observed cells are products.
        squares = size[:, None] - 2 * x @ self._rows.T + known @ self._squares.T
        last = len(self._rows) - 1
        ranks = [min(rank, last) for rank in (0, self._k - 1, self._k)]
        first, usual, after = np.partition(squares, sorted(set(ranks)), axis=1)[:, ranks].T
        chosen = np.where(first <= _ROUNDING * size, after, usual)
        return np.asarray(np.sqrt(np.maximum(chosen, 0.0)))

    def _placed(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return cells in units, 0 where missing, and which are observed, (B, E) both.

        A category takes a column for each code: two different ones have the squared distance 2.
        """
        scaled = np.clip((rows - self._middle) / self._unit, -_FARTHEST, _FARTHEST)
        parts = [
            scaled[:, [c]] if count is None else _indicators(rows[:, c], count)
            for c, count in enumerate(self._categories)
        ]
        every = np.concatenate(parts, axis=1)
        known = ~np.isnan(every)
        return np.where(known, every, 0.0), known.astype(np.float64)


def _units(rows: Floats) -> Floats:
    """Return the unit of each column of numbers (S, n), (n,)."""
    low, high = np.quantile(rows, _MIDDLE, axis=0)
    spread = rows.std(axis=0)
    # Most cells of a column may be equal: what the others spread is left.
    unit = np.where(high - low > 0, high - low, spread)
    return np.where(unit > 0, unit, 1.0)


def _indicators(codes: Floats, count: int) -> Floats:
    """Return a column for each category, NaN where missing, (B, count)."""
    same = (codes[:, None] == np.arange(count)).astype(np.float64)
    return np.where(np.isnan(codes)[:, None], np.nan, same)
