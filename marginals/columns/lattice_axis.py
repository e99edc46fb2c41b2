"""Integer and rounded columns: each value is the cell of numbers that round to it.

Only this module says when a number is a value of the lattice: see `_NEAR`.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from marginals.cells.lattice_table import FINE_WIDTH, LatticeTable
from marginals.columns.axis import Axis, ExactCells, Flags, Floats, checked, quiet
from marginals.columns.dtypes import float_type
from marginals.columns.kinds import Integer
from marginals.columns.open_tail import bend_tail, log_bend, unbend_tail
from marginals.columns.schema import Column
from marginals.columns.straight_scale import (
    log_straight_slope,
    straight_between,
    unstraight_from,
)
from marginals.columns.value_grid import rational

__all__ = ["LatticeAxis", "softness"]

# A number within this many steps of a lattice value is that value: 0.1 + 0.2 is 0.3, and so is the
# 0.3 of float32.
_NEAR = 1e-6
# Values of float32 columns may be this far off, if they are so large in steps.
_LOOSE = 0.05
# A cell with more than this many to a standard deviation is as good as a point.
_FINE = 500.0
_MOSTLY = 0.98  # share of the values of a fine lattice that have such cells
_MOST = float(np.finfo(np.float64).max)
_EPS = float(np.finfo(np.float64).eps)
_MOST_UNIT = 10**15  # whole numbers beyond are rounded as floats
# Next to a bound, 0.8 steps should be at most this share of the values' deviation, or else that.
_SHARES = (0.25, 0.5)
_STEPS = 0.8
_ROWS = 5000  # enough for a deviation
_NEAR_BOUND = 0.05  # share of the values that may be so near to a bound that no logarithm holds
_LARGEST_SOFT = 40  # as a power of two
_OUTLYING = 16  # how many times nearer to a bound than nearly all others the nearest value is
# Cells of a table, and those on either side of the observed ones: half as many, within limits.
_MOST_CELLS, _LEAST_MARGIN, _MOST_MARGIN = 8192, 16, 256


@final
@dataclass(frozen=True)
class LatticeAxis(Axis):
    r"""Values offset + step (k + origin) for whole k, the one with k = 0 among them.

    The cell of value k is (k, k + 1] on a line whose places are half a step off, so that its ends
    are whole numbers and exact. The cell of the first value reaches down to -inf and that of the
    last up to inf: the cells tile the line and their masses sum to one. Bounds are taken to
    infinity by log(a), -log(b) or log(a) - log(b), where a and b are the distances to the outer
    ends of the first and the last cell, relative to those of the middle of cell 0. With s =
    `Column.soft` steps, asinh(a / s) stands for log(a): a logarithm from s steps on, and a line
    next to the bound. Beyond the data, the open side of a column with one bound follows
    `open_tail`. With `Column.line`, `straight_scale` replaces all of this.

    Args:
        column: the column.
        step, offset, origin: the lattice.
        lower, upper: bounds as numbers, infinite where there is none.
        points: atoms as numbers. On the model's scale an atom is the middle of its cell, whose mass
            is the atom's and the smooth part's.
    """

    column: Column
    step: float
    offset: float
    origin: int
    lower: float
    upper: float
    points: tuple[float, ...] = ()

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the values, infinite where there is none."""
        return self.lower, self.upper

    @cached_property
    def first(self) -> float:
        """The first k, or -inf."""
        with quiet():
            return float(np.ceil(self._steps(np.array([self.lower]))[0]))

    @cached_property
    def last(self) -> float:
        """The last k, or inf."""
        with quiet():
            return float(np.floor(self._steps(np.array([self.upper]))[0]))

    def wrong(self, numbers: Floats) -> Flags:
        """Say which values are beyond a bound or, of an integer column, no whole numbers.

        Other columns round what they observe, so that a value off the lattice can occur.
        """
        wrong = self.beyond(numbers)
        if isinstance(self.column.kind, Integer):
            steps = self._steps(numbers)
            wrong |= np.isfinite(steps) & (steps != np.rint(steps))
        return wrong

    def beyond(self, numbers: Floats) -> Flags:
        """Say which values are beyond a bound."""
        return (numbers < self.lower) | (numbers > self.upper)

    def has_mass(self, numbers: Floats) -> Flags:
        """Return True."""
        return np.ones(len(numbers), dtype=bool)

    def exact(self, numbers: Floats) -> ExactCells:
        """Return the cells of observed values; narrow ones as their middles.

        The mass of a narrow cell is its width times the density, up to a relative error of
        (width / scale)^2 / 24: 0.2 % where a leaf is as narrow as the learned scale allows.
        Evidence then stays exact values, whose joint densities are closed forms where those of many
        intervals are integrals. The width goes into the slope. At an atom the mass of a narrow cell
        is the atom's.
        """
        lower, upper = self.rounded(numbers)
        log_width = self._log_width(lower, upper)
        narrow = log_width < -math.log(_FINE)
        if not narrow.any():
            return ExactCells(lower, upper, np.zeros(len(numbers)))
        middle = np.where(np.isnan(numbers), np.nan, self.point(numbers))
        slope = np.where(narrow & ~self.at_atom(numbers), log_width, 0.0)
        if (narrow | np.isnan(numbers)).all():
            return ExactCells(middle, middle, slope)
        lower, upper = np.where(narrow, middle, lower), np.where(narrow, middle, upper)
        return ExactCells(lower, upper, slope)

    def _log_width(self, lower: Floats, upper: Floats) -> Floats:
        if self.column.scores is None and math.isinf(self.first) and math.isinf(self.last):
            return np.where(np.isnan(lower), np.nan, -math.log(self.column.scale))
        return np.log(upper - lower)

    def is_fine(self, numbers: Floats) -> bool:
        """Say whether nearly all of these values have cells as good as points."""
        log_width = self._log_width(*self.rounded(numbers))
        return bool((log_width < -math.log(_FINE)).mean() >= _MOSTLY)

    def at_atom(self, numbers: Floats) -> Flags:
        """Say which values are atoms."""
        if not self.points:
            return np.zeros(len(numbers), dtype=bool)
        return np.isin(np.rint(self._steps(numbers)), self._steps(np.array(self.points)))

    def distance(self, numbers: Floats) -> Floats:
        """Return how many steps values are from the outer end of the cell at the only bound."""
        k = np.rint(self._steps(numbers)) + 0.5
        return k - self.first if math.isinf(self.last) else self.last + 1 - k

    @cached_property
    def atom_points(self) -> tuple[float, ...]:
        """The atoms on the model's scale, in rising order."""
        return tuple(self.point(np.array(self.points)).tolist()) if self.points else ()

    def rounded(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the cells of the nearest values."""
        return self._cell(np.clip(np.rint(self._steps(numbers)), self.first, self.last))

    def only(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the cells of these values; a number off the lattice has none."""
        return self.between(numbers, numbers, low_closed=True)

    def point(self, numbers: Floats) -> Floats:
        """Return the middles of the cells of values."""
        k = np.clip(np.rint(self._steps(numbers)), self.first, self.last)
        return self.to_model(self.bent(k + 0.5))

    def cells(self, low: float, high: float) -> LatticeTable | None:
        """Tabulate the cells from one point of the model's scale to another, with a margin.

        With a soft bound, cells beyond the first and the last value are parts of the infinite cells
        of these values; else the infinite cells are never among them.

        Returns:
            None if the cells are more than 8192, or none.
        """
        with quiet():
            ends = np.ceil(self._unbent(self.to_numbers(np.array([low, high])))) - 1
            margin = np.clip(np.ceil((ends[1] - ends[0]) / 2), _LEAST_MARGIN, _MOST_MARGIN)
            first, last = ends[0] - margin, ends[1] + margin
            if not self.column.soft:  # a logarithm ends at the bound
                first, last = max(first, self.first + 1), min(last, self.last - 1)
            if not 0 <= last - first < _MOST_CELLS:
                return None
            k = np.arange(first, last + 1)
            middle = self.bent(k + 0.5)
            widths = self._slope(k + 0.5) / self.column.scale * np.exp(self.log_score_slope(middle))
            edges = self.to_model(self.bent(np.append(k, last + 1)))
            below, above = max(0.0, self.first - first), max(0.0, last - self.last)
            points = self.to_model(middle)
            return LatticeTable(edges, points, widths, int(below), int(above))

    def between(
        self, low: Floats, high: Floats, low_closed: bool = False, high_closed: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the cells of all values between two ends: from one cell's end to another's."""
        low, high = self._steps(low), self._steps(high)
        # Values are counted to see whether there are any; each end is taken from the cell that has
        # it, since k + 1 may be the same float as k beyond 2**53.
        if low_closed:
            k = np.ceil(low)
            first, lower = k, self._lower_end(k)
        else:
            k = np.floor(low)
            whole = (k < self.first) | np.isneginf(k)
            first, lower = k + 1, np.where(whole, -np.inf, self._cell(k)[1])
        if high_closed:
            k = np.floor(high)
            last, upper = k, np.where(k >= self.last, np.inf, self._cell(k)[1])
        else:
            k = np.ceil(high)
            whole = (k > self.last) | np.isposinf(k)
            last, upper = k - 1, np.where(whole, np.inf, self._lower_end(k))
        empty = np.maximum(first, self.first) > np.minimum(last, self.last)
        return checked(lower, upper, empty)

    def snapped(self, numbers: Floats) -> Floats:
        """Return numbers with those that are on the lattice but for rounding set to its values."""
        steps = self._steps(numbers)
        near = np.isfinite(steps) & (steps == np.rint(steps))
        return np.where(near, self._value(steps), numbers)

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values whose cells hold points of the model's scale."""
        k = np.ceil(self._unbent(self.to_numbers(model))) - 1
        k = np.clip(k, self.first, self.last)
        # Rounding on the way back may give a neighbour: the cells themselves decide.
        lower, upper = self._cell(k)
        k = np.where(model <= lower, k - 1, np.where(model > upper, k + 1, k))
        value = self._value(np.clip(k, self.first, self.last))
        return np.clip(value, self.lower, self.upper)

    def fault(self, number: float) -> tuple[str, str]:
        """Return which bounds, or that whole numbers, were expected."""
        kind = self.column.kind
        assert not hasattr(kind, "categories")
        if self.lower <= number <= self.upper:
            return "to hold whole numbers", "Round it, or declare the column as Continuous()."
        low = "-inf" if kind.lower is None else kind.lower
        high = "inf" if kind.upper is None else kind.upper
        return f"to lie in [{low}, {high}]", "Correct the value, or declare other bounds."

    # Parts ------------------------------------------------------------------------------------

    def _steps(self, numbers: Floats) -> Floats:
        """Count steps from k = 0: whole for numbers that are on the lattice but for rounding."""
        steps = (numbers - self.offset) / self.step
        inside = np.minimum(np.maximum(steps, -_MOST), _MOST)
        steps = np.where(np.isfinite(numbers), inside, steps)
        near, size = np.rint(steps), np.abs(steps)
        error = np.maximum(8 * _EPS * size, np.minimum(8 * self._eps * size, _LOOSE))
        close = np.abs(steps - near) <= _NEAR + error
        return np.where(close, near, steps) - float(self.origin)

    @cached_property
    def _eps(self) -> float:
        """The rounding error of the column's floats."""
        return float(np.finfo(float_type(self.column.dtype)).eps)

    def _value(self, k: Floats) -> Floats:
        k = k + float(self.origin)
        if self._ratio is None:
            return k * self.step + self.offset
        # One division of whole numbers: 3 / 10 is the 0.3 that was typed, 3 * 0.1 is not.
        step, offset, unit = self._ratio
        return (k * step + offset) / unit

    @cached_property
    def _ratio(self) -> tuple[int, int, int] | None:
        """Step and offset as whole numbers of a common unit, if they are short fractions."""
        step, offset = rational(self.step), rational(self.offset)
        if step is None or offset is None:
            return None
        unit = math.lcm(step.denominator, offset.denominator)
        return (int(step * unit), int(offset * unit), unit) if unit <= _MOST_UNIT else None

    def _lower_end(self, k: Floats) -> Floats:
        return np.where(k <= self.first, -np.inf, self.to_model(self.bent(k)))

    def _cell(self, k: Floats) -> tuple[Floats, Floats]:
        lower = self._lower_end(k)
        upper = np.where(k >= self.last, np.inf, self.to_model(self.bent(k + 1)))
        return lower, np.where(upper <= lower, np.nextafter(lower, np.inf), upper)

    def bent(self, end: Floats) -> Floats:
        """Return the transform of places on the line, which is 0 in the middle of cell k = 0."""
        if math.isinf(self.first) and math.isinf(self.last):
            return end - 0.5
        rising = self._far(end - 0.5, end - self.first, 0.5 - self.first)
        if math.isinf(self.last):
            return self._tail(rising)
        falling = self._far(0.5 - end, (self.last - end) + 1, self.last + 0.5)
        if math.isinf(self.first):
            return -self._tail(falling)
        return rising - falling

    def _tail(self, far: Floats) -> Floats:
        """Return the scale of `_far` beyond the data, for a column with one bound."""
        return far if self.column.line else bend_tail(far, self.column.knot)

    def _far(self, step: Floats, whole: Floats, reach: float) -> Floats:
        """Return how far from a bound whole = reach + step is, relative to reach."""
        soft, line = self.column.soft, self.column.line
        if line:
            return straight_between(step, whole, reach, line)
        if not soft:
            return _log_ratio(step, whole, reach)
        return np.arcsinh(whole / soft) - math.asinh(reach / soft)

    def _slope(self, end: Floats) -> Floats:
        """Return the slope of `bent`."""
        if math.isinf(self.first) and math.isinf(self.last):
            return np.ones_like(end)
        above, below = end - self.first, (self.last - end) + 1
        soft, line = self.column.soft, self.column.line
        if line:
            away = above if math.isinf(self.last) else below
            return np.exp(log_straight_slope(away, line))
        rise, fall = (1 / np.hypot(part, soft) if soft else 1 / part for part in (above, below))
        if math.isinf(self.last):
            rising = self._far(end - 0.5, above, 0.5 - self.first)
            return np.exp(log_bend(rising, self.column.knot)) * rise
        if math.isinf(self.first):
            falling = self._far(0.5 - end, below, self.last + 0.5)
            return np.exp(log_bend(falling, self.column.knot)) * fall
        return rise + fall

    def _unbent(self, bent: Floats) -> Floats:
        below, above = 0.5 - self.first, self.last + 0.5
        if math.isinf(below) and math.isinf(above):
            return bent + 0.5
        if math.isinf(above):
            return self._near(self._untail(bent), below) + 0.5
        if math.isinf(below):
            return 0.5 - self._near(self._untail(-bent), above)
        soft = self.column.soft
        if soft:
            # asinh(a / s) - asinh(b / s) = y with a + b = l gives
            # b = s sinh(asinh(l / (2 s cosh(y / 2))) - y / 2), for either sign of y.
            whole = bent + math.asinh(below / soft) - math.asinh(above / soft)
            length = (below + above) / (2 * soft)
            other = np.arcsinh(length / np.cosh(whole / 2)) + whole / 2
            return soft * np.sinh(other) + self.first
        # e^bent = (below + step) / below * above / (above - step), solved without overflow.
        small = np.exp(-np.abs(bent))
        rise = -np.expm1(-np.abs(bent))
        falling = -below * rise * (above / (above + below * small))
        rising = below * rise * (above / (above * small + below))
        return np.where(bent < 0, falling, rising) + 0.5

    def _untail(self, tail: Floats) -> Floats:
        return tail if self.column.line else unbend_tail(tail, self.column.knot)

    def _near(self, far: Floats, reach: float) -> Floats:
        """Return the step of `_far`."""
        soft, line = self.column.soft, self.column.line
        if line:
            return unstraight_from(far, reach, line)
        if not soft:
            return reach * np.expm1(far)
        return soft * np.sinh(far + math.asinh(reach / soft)) - reach


def softness(axis: LatticeAxis, values: Floats) -> float:
    """Return from how many steps off its bounds the scale of a lattice should be a logarithm.

    A logarithm stretches the first steps, which hold few values of most columns. The fewest steps
    are returned for which no observed one is wide, relative to the deviation on the scale; 0 if
    there is no such number, or no bound. If a few values are much nearer to a bound than the other
    95 %, the logarithm starts where these do: for the few it would make steps wide for all.
    """
    if (math.isinf(axis.first) and math.isinf(axis.last)) or len(values) < 2:
        return 0.0
    ends = np.array([values.min(), values.max()])
    steps = axis._steps(values[:: max(1, len(values) // _ROWS)])
    away = np.minimum(steps - axis.first, axis.last - steps)  # from the nearest bound
    # A column with too many cells for a table has points only, unless many are near a bound.
    fine = (_STEPS * FINE_WIDTH,) if np.ptp(steps) >= _MOST_CELLS else ()
    with quiet():
        for share in (*fine, *_SHARES):
            for soft in (0.0, *2.0 ** np.arange(2, _LARGEST_SOFT)):
                trial = replace(axis, column=replace(axis.column, soft=float(soft)))
                widest = trial._slope(axis._steps(ends) + 0.5).max()
                if _STEPS * widest > share * trial.bent(steps + 0.5).std():
                    continue
                if share in fine and (away < soft).mean() > _NEAR_BOUND:
                    break
                return float(soft) if share in fine else max(float(soft), _unused(away))
    return 0.0


def _unused(away: Floats) -> float:
    """Return how many steps from a bound there are outliers only; 0 if there are none."""
    steps = 2.0 ** math.floor(math.log2(max(1.0, float(np.quantile(away, _NEAR_BOUND)))))
    outlying = _OUTLYING * max(1.0, float(away.min())) <= steps
    return steps if outlying and steps < 2.0**_LARGEST_SOFT else 0.0


def _log_ratio(step: Floats, whole: Floats, reach: float) -> Floats:
    """Return log(whole / reach) for whole = reach + step, exact for a small step and huge reach."""
    near, far = np.log1p(step / reach), np.log(whole) - math.log(reach)
    return np.where(np.abs(step) < reach / 2, near, far)
