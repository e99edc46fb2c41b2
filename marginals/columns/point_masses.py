"""Which values repeat more often than a smooth density on the column's grid explains."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_VALUES", "find_atoms", "is_table"]

Floats = npt.NDArray[np.float64]

MOST_VALUES = 60  # distinct values of a column that is a table of probabilities
_REPEATS = 10  # rows for each distinct value of such a column, on average
_RARE = 5  # rows of the rarest value of a table with more than `_SHORT` values
_SHORT = 10
# Least number of rows that an atom adds to the smooth density: 0.3 % of all, or 1 % of those not at
# the value that most rows have, at least 30; in small tables 4 % of all. At an atom a row says less
# about the columns that are coupled with it, so that rounding by a few rows makes no atoms.
_SHARE, _REST_SHARE = 0.003, 0.01
_ROWS, _SMALL_SHARE = 30, 0.04
_SIGMA = 3.5  # the added rows, in standard errors of the count: fewer would not be missed
_RATIO = 1.5  # least count of an atom, relative to the smooth expectation
_FALSE = 1e-4  # probability of a false atom in a smooth column, whatever its number of values
# Rows on one side from which the expectation is estimated: a tenth of all, within limits. Windows
# with more of a small table would reach past steep slopes.
_NEIGHBOURS, _FEW_NEIGHBOURS = 40, 5
_MOST_ATOMS = 40
_AROUND = 4  # cells on each side that show whether a value is a peak
_ROUNDS = 4  # atoms found in one round no longer count as neighbours in the next
# A column is rough if this share of its rows, beyond chance, lies where a density with a deviation
# of `_BLUR` steps does not expect it: many diamonds have just one carat, hardly any 0.99. In large
# tables all values of at least `_FREQUENT` rows are then atoms, if they are few and hold most rows.
# Columns with a deviation of fewer than `_WIDE` steps are too narrow to tell.
_ROUGH, _BLUR, _REACH, _WIDE = 0.05, 1.5, 8, 8.0
_MANY_ROWS, _FREQUENT, _MOST_FREQUENT, _MOST = 8000, 10, 400, 0.8
_MOST_CELLS = 1 << 16


def is_table(counts: Any) -> bool:
    """Say whether distinct values are so few and so frequent that they are all there are.

    A value seen once suggests that others were not seen at all (Good and Turing's estimate), and
    so does a rare one among many.

    >>> is_table(np.array([400, 300])), is_table(np.array([400, 300, 1]))
    (True, False)
    """
    few = 1 < len(counts) <= MOST_VALUES
    rarest = 2 if len(counts) <= _SHORT else _RARE
    return bool(few and counts.min() >= rarest and counts.sum() >= _REPEATS * len(counts))


def find_atoms(values: Any, counts: Any, step: float | None) -> list[int]:
    """Return the positions of the distinct values that have a mass of their own.

    The expected count of a value is the largest of four: the counts per cell on its left and on its
    right, and both continued to the value along an exponential. Under a smooth density the count is
    negative binomial about it. An atom is a count that no smooth column with as many values would
    reach in 9,999 of 10,000 cases, that exceeds the expectation by half and by 0.3 % of the rows
    (4 % in small tables, less beside a value that most rows have).

    In a large table all frequent values are atoms if they hold most rows and no smooth density
    explains them: there is no grid, or the counts of neighbours on the grid differ too much.

    Args:
        values: distinct values in rising order.
        counts: how often each occurs.
        step: of the grid; None for a continuous column, in which any repetition is unexpected.

    >>> values = np.arange(100.0)
    >>> find_atoms(values, np.where(values == 40, 900, 30), step=1.0)
    [40]
    """
    total = counts.sum()
    # Next to one value that most rows have, the others are a table of their own.
    rest = total - counts.max() if 2 * counts.max() > total else total
    share = min(_SHARE * total, max(_ROWS, _REST_SHARE * rest))
    least = max(share, min(_ROWS, _SMALL_SHARE * total), _SIGMA**2)
    candidates = np.flatnonzero(counts >= least)
    if step is None:
        heavy = candidates
        excess = counts[heavy].astype(np.float64)
    else:
        heavy, excess = _above_smooth(values / step, counts, candidates, least)
    kept = heavy[np.argsort(-excess, kind="stable")[:_MOST_ATOMS]]
    frequent = np.flatnonzero(counts >= _FREQUENT)
    listed = total >= _MANY_ROWS and len(frequent) <= _MOST_FREQUENT
    listed = listed and counts[frequent].sum() - (total - rest) >= _MOST * rest
    if listed and (step is None or _roughness(values / step, counts, kept) > _ROUGH):
        kept = np.union1d(kept, frequent)
    return sorted(kept.tolist())


def _roughness(places: Floats, counts: Any, atoms: Any) -> float:
    """Return the share of rows, beyond chance, that lie elsewhere than a smooth density expects.

    The density is the counts themselves, blurred, without the cells of atoms.
    """
    cell = np.rint(places - places[0]).astype(np.int64)
    levels = np.cumsum(counts) / counts.sum()
    low, high = places[np.searchsorted(levels, [0.25, 0.75])]
    if cell[-1] >= _MOST_CELLS or high - low < 1.35 * _WIDE:
        return 0.0
    rows, free = np.zeros(cell[-1] + 1), np.ones(cell[-1] + 1)
    rows[cell] = counts
    rows[cell[atoms]] = free[cell[atoms]] = 0.0
    kernel = np.exp(-((np.arange(-_REACH, _REACH + 1) / _BLUR) ** 2) / 2)
    blurred, near = (np.convolve(part, kernel, "full")[_REACH:-_REACH] for part in (rows, free))
    expected = free * blurred / np.maximum(near, kernel.min())
    chance = np.sqrt(2 / math.pi * expected).sum()  # mean deviations of Poisson counts
    return float((np.abs(rows - expected).sum() - chance) / (2 * counts.sum()))


def _above_smooth(places: Floats, counts: Any, candidates: Any, least: float) -> tuple[Any, Any]:
    """Return which candidates exceed a smooth density over cells, and by how many rows."""
    # Neighbouring atoms, such as 24 and 25 hours, would hide each other: at first no peak counts.
    smooth = ~_peaks(places, counts)
    heavy, excess = np.empty(0, dtype=np.intp), np.empty(0)
    for _ in range(_ROUNDS):
        expected, spread = _expected(places, counts, smooth, candidates)
        own = counts[candidates]
        above = own - expected
        sure = _log_chance(own, expected, spread) < math.log(_FALSE / len(places))
        sure &= (own >= _RATIO * expected) & (above >= np.maximum(least, _SIGMA * np.sqrt(own)))
        if np.array_equal(candidates[sure], heavy):
            break
        heavy, excess = candidates[sure], above[sure]
        smooth = np.ones(len(places), dtype=bool)
        smooth[heavy] = False
    return heavy, excess


def _log_chance(counts: Any, expected: Floats, spread: Floats) -> Floats:
    """Return the log probability that a negative binomial reaches counts, by mean and deviation.

    It is the Poisson distribution of a count whose mean was itself estimated from counts.
    """
    from scipy import stats  # takes a while to import, and queries do not need it

    mean = np.maximum(expected, np.finfo(np.float64).tiny)
    extra = np.maximum(spread**2 - mean, 1e-9 * mean)
    return np.asarray(stats.nbinom.logsf(counts - 1, mean**2 / extra, mean / (mean + extra)))


def _peaks(places: Floats, counts: Any) -> Any:
    """Say which values have half more rows than the median cell on either side."""
    whole = np.rint(places - places[0])
    peaks = np.ones(len(places), dtype=bool)
    for side in (-1, 1):
        at = whole + side * np.arange(1, _AROUND + 1)[:, None]  # (cells, values)
        found = np.searchsorted(whole, at).clip(0, len(whole) - 1)
        beside = np.where(whole[found] == at, counts[found], 0)
        inside = (at >= whole[0]) & (at <= whole[-1])
        peaks &= inside.all(0) & (counts > _RATIO * np.median(beside, axis=0))
    return peaks


def _expected(places: Floats, counts: Any, smooth: Any, candidates: Any) -> tuple[Floats, Floats]:
    """Return the count that neighbours predict at each candidate, and its standard error."""
    where, rows = places[smooth], np.append(0, np.cumsum(counts[smooth]))
    taken = np.append(0, np.cumsum(~smooth))  # cells of atoms are no cells of the smooth part
    expected, variance = np.zeros((2, len(candidates)))
    for i, candidate in enumerate(candidates):
        at = places[candidate]
        for side in (-1, 1):
            for rate, noise in _rates(where, rows, places, taken, at, side):
                if rate > expected[i]:
                    expected[i], variance[i] = rate, noise
    return expected, np.sqrt(expected + variance)


def _rates(
    where: Floats, rows: Any, places: Floats, taken: Any, at: float, side: int
) -> list[tuple[float, float]]:
    """Return counts per cell beside a place, and continued to it, with their variances."""
    first = int(np.searchsorted(where, at, "right" if side > 0 else "left"))
    widths: list[float] = []
    sums: list[float] = []
    edge = at
    for _ in range(2):  # two windows, the second farther off
        end, far = _window(where, rows, first, edge, side, widths[0] if widths else 1.0)
        if end == first and not widths:
            return []
        low, high = sorted((edge, far))
        inside = np.searchsorted(places, [low, high], "right" if side > 0 else "left")
        cells = high - low - (taken[inside[1]] - taken[inside[0]])
        widths.append(max(cells, 1.0))
        sums.append(float(abs(rows[end] - rows[first])))
        first, edge = end, far
    near, far_rate = sums[0] / widths[0], sums[1] / widths[1]
    found = [(near, near**2 / max(sums[0], 1.0))]
    if sums[1] >= 1 and near > far_rate:
        power = (1 + widths[0]) / (widths[0] + widths[1])
        onward = near * (near / far_rate) ** power
        relative = (1 + power) ** 2 / sums[0] + power**2 / sums[1]
        found.append((onward, onward**2 * relative))
    return found


def _window(
    where: Floats, rows: Any, first: int, edge: float, side: int, least: float
) -> tuple[int, float]:
    """Return the end of a window with enough rows that is at least so many cells wide."""
    enough = min(_NEIGHBOURS, max(_FEW_NEIGHBOURS, rows[-1] // 10))
    if side > 0:
        end = int(np.searchsorted(rows, rows[first] + enough))
        end = max(end, int(np.searchsorted(where, edge + least + 0.5)))
        end = min(end, len(where))
        far = where[end - 1] if end > first else edge
        return end, max(float(far), edge + least)
    end = int(np.searchsorted(rows, rows[first] - enough, "right")) - 1
    end = min(end, int(np.searchsorted(where, edge - least - 0.5, "right")))
    end = max(end, 0)
    far = where[end] if end < first else edge
    return end, min(float(far), edge - least)
