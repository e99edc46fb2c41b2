"""Which bounds a column has: where its values pile up, or where its meaning is plain."""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Bounds", "find_bounds"]

_ROWS = 100  # of fewer values only a bound of 0 is found
# Probability that a normal column with as few values has none below 0, up to which 0 is a bound.
_CHANCE = 0.05
_NEAR_ZERO = 2.0  # a smallest value within this many standard deviations of 0 makes 0 a bound
_NEAR_END = 0.05  # distance, relative to the length, at which values come near both ends of a scale
_PILE = 10  # least number of rows at an end of a grid where values pile up
_EDGE = 0.5  # their count relative to the largest of the next cells
_NEXT = 3


class Bounds(NamedTuple):
    """The bounds of a column, None where there is none, and why."""

    lower: Any
    upper: Any
    reasons: tuple[str, ...]


def find_bounds(values: Any, counts: Any, atoms: Any, step: float | None) -> Bounds:
    """Return the bounds of a column.

    - 0 and 1, or 0 and 100, if all values lie between them and come near both;
    - the smallest or largest value if it is an atom, as a top code is, or if the outer cell of a
      grid holds at least half as many rows as the cells next to it;
    - 0 if no value is negative and the smallest is within two standard deviations of it. With fewer
      than 100 values, 0 is a bound if a normal column would probably have values below it.

    Args:
        values: distinct values in rising order.
        counts: how often each occurs.
        atoms: positions of the atoms among them.
        step: of the grid, or None.

    >>> find_bounds(np.arange(500.0), np.ones(500), [], None)
    Bounds(lower=0, upper=None, reasons=('no value below 0',))
    """
    if len(values) < 3:
        return Bounds(None, None, ())
    first, last = float(values[0]), float(values[-1])
    if counts.sum() < _ROWS:
        if first >= 0 and _chance_of_none_below(values, counts) <= _CHANCE:
            return Bounds(0, None, ("no value below 0",))
        return Bounds(None, None, ())
    reasons: list[str] = []
    lower: float | None = None
    upper: float | None = None
    top = _end_of_scale(first, last, whole=step is not None and step >= 1)
    if top is not None:
        lower, upper, reasons = 0, top, [f"between 0 and {top}"]
    elif first != 0 and _piles_up(values, counts, atoms, step, 0):
        lower, reasons = first, [f"many values at the smallest, {first:g}"]
    elif first >= 0 and first <= _NEAR_ZERO * _spread(values, counts):
        lower, reasons = 0, ["no value below 0"]
    if upper is None and _piles_up(values, counts, atoms, step, len(values) - 1):
        upper, reasons = last, [*reasons, f"many values at the largest, {last:g}"]
    return Bounds(lower, upper, tuple(reasons))


def _end_of_scale(first: float, last: float, whole: bool) -> int | None:
    """Return 1 for shares and 100 for percentages."""
    if first < 0:
        return None
    if not whole and first <= _NEAR_END and 1 - _NEAR_END <= last <= 1:
        return 1
    return 100 if first <= 100 * _NEAR_END and last == 100 else None


def _piles_up(values: Any, counts: Any, atoms: Any, step: float | None, at: int) -> bool:
    if at in atoms:
        return True
    if step is None or counts[at] < _PILE:
        return False
    near = np.abs(values - values[at]) <= (_NEXT + 0.5) * step
    near[at] = False
    return bool(near.any() and counts[at] >= _EDGE * counts[near].max())


def _chance_of_none_below(values: Any, counts: Any) -> float:
    """Return the probability that as many normal values have none below 0."""
    spread = _spread(values, counts)
    mean = float(np.average(values, weights=counts))
    if not 0 < spread < np.inf:
        return 1.0
    return float(NormalDist().cdf(mean / spread) ** counts.sum())


def _spread(values: Any, counts: Any) -> float:
    mean = np.average(values, weights=counts)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
