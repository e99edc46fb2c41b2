"""Which grid the values of a column lie on: a step and an offset, exact in decimals."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Step", "infer_step", "infer_whole_step", "rational"]

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

_SAMPLE = 20_000  # distinct values that find a grid; all then check it
_OFF = 0.02  # share of values that may lie off the grid
_OFF_FACTOR = 0.002  # share of rows, whatever they repeat, that a multiple of a step may miss
_HEAVY = 0.06  # share of the rows at which a repeated value stops counting
_DIGITS = 12  # decimals at most
_MOST_STEPS = 1e10  # between the extremes: a finer grid is an accident of binary fractions
_CLOSE = 0.1  # largest rounding error of a float, in steps, that still shows a grid
_CHANCE = 1e-4  # probability that values without a common factor seem to have one
_FEW = 3  # distinct values below which any set of numbers lies on a grid
_PRIMES = [p for p in range(2, 98) if all(p % q for q in range(2, p))]
_LARGEST = 2.0**53


class Step(NamedTuple):
    """The values `offset + k * step` for whole k, and the share of values that lie off them."""

    step: Any
    offset: Any
    off: float


def infer_step(values: Any, counts: Any = None, eps: float = 2.0**-52) -> Step | None:
    """Return the coarsest grid that holds at least 98 % of the values, or None.

    Repeated values count at most as 2 % of the rows each: a column that is mostly 0 has the grid of
    its other values. A factor of the step needs enough distinct values to be more than chance.

    Args:
        values: numbers; those that are not finite are ignored.
        counts: how often each value occurs, if the values are distinct.
        eps: relative precision of the floats that hold them: 2**-23 for float32.

    >>> infer_step([0.1, 0.2, 0.3, 0.7, 1.1, 1.2])
    Step(step=0.1, offset=0.0, off=0.0)
    >>> infer_step(10 * np.arange(20) + 3.0)
    Step(step=10.0, offset=3.0, off=0.0)
    >>> infer_step(np.sqrt(np.arange(50)))
    """
    every = np.asarray(values, dtype=np.float64)
    known = np.isfinite(every)
    if counts is None:
        every, counts = np.unique(every[known], return_counts=True)
    else:
        every, counts = every[known], np.asarray(counts)[known]
    if len(every) < _FEW:
        return None
    part = _sample(len(every))
    weights = _weights(counts)
    found = _decimal_step(every[part], weights[part], counts[part], eps)
    if found is None:
        return _any_step(every, counts, eps)
    if np.ptp(every) > _MOST_STEPS * found.step:
        return None
    return _checked(found, _off(every, found, eps), counts)


def infer_whole_step(values: Whole, counts: Any, units: Sequence[int] = (1,)) -> Step | None:
    """Return the grid of distinct whole numbers, such as times in nanoseconds.

    Args:
        values: distinct whole numbers, which may be beyond 2**53.
        counts: how often each occurs.
        units: natural steps, the largest first; factors of the one that fits must beat chance.

    >>> infer_whole_step(np.int64(2**60) + 60 * np.arange(30), np.ones(30))
    Step(step=60, offset=16, off=0.0)
    """
    part = _sample(len(values))
    some, weights, rows = values[part], _weights(counts)[part], counts[part]
    for unit in units:
        start = _commonest(some % unit, weights)
        on = (some - start) % unit == 0
        if _few(~on, weights, rows):
            break
    else:
        return None
    factor = _common_factor((some[on] - start) // unit, weights[on], rows[on])
    if factor is None:
        return None
    step, offset = factor[0] * unit, factor[1] * unit + start
    return _checked(Step(step, offset, 0.0), (values - offset) % step != 0, counts)


def rational(number: float) -> Fraction | None:
    """Return the short decimal or fraction that a float stands for; None if there is none.

    >>> rational(0.1), rational(1 / 3), rational(2**0.5)
    (Fraction(1, 10), Fraction(1, 3), None)
    """
    decimal = Fraction(repr(float(number)))
    if decimal.denominator <= 10**_DIGITS:
        return decimal
    simple = decimal.limit_denominator(1000)
    return simple if float(simple) == number else None


# Candidates -------------------------------------------------------------------------------------


def _sample(count: int) -> Any:
    """Return which of the distinct values look for a grid."""
    if count <= _SAMPLE:
        return slice(None)
    return np.unique(np.random.default_rng(0).integers(0, count, _SAMPLE))


def _weights(counts: Any) -> Floats:
    return np.minimum(counts, max(1.0, _HEAVY * counts.sum())).astype(np.float64)


def _commonest(values: Whole, weights: Floats) -> int:
    found, inverse = np.unique(values, return_inverse=True)
    return int(found[np.bincount(inverse, weights).argmax()])


def _few(off: npt.NDArray[np.bool_], weights: Floats, counts: Any) -> bool:
    """Say whether few values are off a grid on which a finer one was expected."""
    few = (weights * off).sum() <= _OFF * weights.sum()
    return bool(few and (counts * off).sum() <= _OFF_FACTOR * counts.sum())


def _decimal_step(values: Floats, weights: Floats, counts: Any, eps: float) -> Step | None:
    """Find the fewest decimals, then the largest common factor."""
    for digits in range(_DIGITS + 1):
        scaled = values * 10.0**digits
        error = eps * np.abs(scaled)
        if (weights * (error > _CLOSE)).sum() > _OFF * weights.sum():
            return None  # floats this coarse lie on any such grid
        on = np.abs(scaled - np.rint(scaled)) <= error + 1e-12
        # Values far smaller than the step would all be its multiple 0.
        apart = len(np.unique(np.rint(scaled[on]))) > on.sum() / 2
        if apart and (weights * ~on).sum() <= _OFF * weights.sum():
            break
    else:
        return None
    kept = on & (np.abs(scaled) < _LARGEST)
    whole = np.rint(scaled[kept]).astype(np.int64)
    factor = _common_factor(whole, weights[kept], counts[kept])
    if factor is None:
        return None
    unit = 10**digits
    step, offset = (float(Fraction(part, unit)) for part in factor)
    return Step(step, offset, 0.0)


def _common_factor(values: Whole, weights: Floats, counts: Any) -> tuple[int, int] | None:
    """Return the largest step and its offset such that few of some distinct whole numbers are off.

    Each prime counts only if the values would hardly share it by chance.
    """
    if len(values) < 2:
        return None
    step, offset = 1, 0
    for prime in _PRIMES:
        while True:
            wider = _wider(values, weights, counts, step, offset, prime)
            if wider is None:
                break
            step, offset = step * prime, wider
    whole = values[(values - offset) % step == 0] if step > 1 else values
    exact = int(np.gcd.reduce(whole - whole[0]))
    if len(whole) == len(values) and exact > step and _beyond_chance(exact // step, len(whole)):
        step, offset = exact, int(whole[0]) % exact
    return step, offset


def _wider(
    values: Whole, weights: Floats, counts: Any, step: int, offset: int, prime: int
) -> int | None:
    """Return the offset of the grid with a step `prime` times as large, None if it does not fit."""
    residue = (values - offset) % (step * prime)
    best = _commonest(residue, weights)
    inside = residue == best
    if best % step or not _few(~inside, weights, counts):
        return None
    if not _beyond_chance(prime, int(inside.sum())):
        return None
    return (offset + best) % (step * prime)


def _beyond_chance(factor: int, distinct: int) -> bool:
    return (distinct - 1) * math.log(factor) > -math.log(_CHANCE)


def _any_step(values: Floats, counts: Any, eps: float) -> Step | None:
    """Find a step without short decimals, as of standardised integers, if values repeat."""
    if counts.sum() < 2 * len(values) or len(values) < 2 * _FEW:
        return None
    error = eps * float(np.abs(values).max())
    gaps = np.diff(values)
    if not error < _CLOSE * gaps.min():
        return None
    step = float(np.median(gaps[gaps < 1.5 * gaps.min()]))
    for _ in range(3):  # counting from a better step each time
        k = np.rint((values - values[0]) / step)
        start, step = map(float, np.polynomial.Polynomial.fit(k, values, 1).convert().coef)
    offset = start % step
    simple = float(Fraction(step).limit_denominator(1000))
    for found in (Step(simple, 0.0, 0.0), Step(step, offset, 0.0)):
        if found.step > 0 and not _off(values, found, 0.0, error).any():
            return found
    return None


# Checks -----------------------------------------------------------------------------------------


def _off(values: Floats, found: Step, eps: float, error: float = 0.0) -> npt.NDArray[np.bool_]:
    steps = (values - found.offset) / found.step
    error = 2 * (eps * (np.abs(values) + abs(found.offset)) + error) / found.step
    return np.asarray(np.abs(steps - np.rint(steps)) > error + 1e-9)


def _checked(found: Step, off: npt.NDArray[np.bool_], counts: Any) -> Step | None:
    """Return the grid with the share of rows off it, None if too many are."""
    weights = _weights(counts)
    if (weights * off).sum() > _OFF * weights.sum():
        return None
    return found._replace(off=float((counts * off).sum() / counts.sum()))
