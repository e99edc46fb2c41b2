"""Continuous columns: a transform that takes the bounds to infinity, and atoms."""

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from marginals.columns.axis import Axis, ExactCells, Flags, Floats, checked
from marginals.columns.dtypes import UNITS, family, float_type, unit
from marginals.columns.kinds import Continuous
from marginals.columns.open_tail import bend_tail, log_bend, unbend_tail
from marginals.columns.schema import Column
from marginals.columns.straight_scale import log_straight_slope, straight, unstraight

__all__ = ["SmoothAxis", "with_atoms"]

# Where an atom at a bound stands on the model's scale, on which the bound is infinite: beyond any
# value of the continuous part, yet a finite number that float32 holds exactly.
_BEYOND = 1e6


@final
@dataclass(frozen=True)
class SmoothAxis(Axis):
    r"""Numbers between bounds: x without any, log(x - lower), -log(upper - x), or the logit.

    Beyond the data, the open side of a column with one bound follows `open_tail`. With
    `Column.line`, `straight_scale` replaces the logarithm. Of a column with many rows, the scale is
    that of its normal scores.

    Args:
        column: the column.
        lower, upper: its bounds as numbers, infinite where there is none.
        points: its atoms as numbers.
    """

    column: Column
    lower: float
    upper: float
    points: tuple[float, ...] = ()

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the values, infinite where there is none."""
        return self.lower, self.upper

    def wrong(self, numbers: Floats) -> Flags:
        """Say which values are on or beyond a bound without being an atom."""
        outside = (numbers <= self.lower) | (numbers >= self.upper)
        return outside & ~np.isin(numbers, self.points)

    def has_mass(self, numbers: Floats) -> Flags:
        """Say which values are atoms."""
        return self.at_atom(numbers)

    def exact(self, numbers: Floats) -> ExactCells:
        """Return the cells of values: points, with the slope of the transform, or atoms."""
        none = np.isnan(numbers) | np.isin(numbers, self.points) | self.wrong(numbers)
        model = self.point(numbers)
        return ExactCells(model, model, np.where(none, 0.0, self._log_slope(numbers)))

    def point(self, numbers: Floats) -> Floats:
        """Return values on the model's scale; NaN where they cannot occur."""
        inside = (numbers > self.lower) & (numbers < self.upper)
        model = self.to_model(self.bent(np.where(inside, numbers, np.nan)))
        for point, atom in zip(self.points, self.column.atoms, strict=True):
            # A neighbour that rounds onto the atom is none.
            aside = np.where(numbers > point, np.inf, -np.inf)
            model = np.where(model == atom, np.nextafter(atom, aside), model)
            model = np.where(numbers == point, atom, model)
        return model

    def between(
        self, low: Floats, high: Floats, low_closed: bool = False, high_closed: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the cells of all values between two ends."""
        return checked(self._end(low, low_closed), self._end(high, not high_closed))

    def _end(self, numbers: Floats, before: bool) -> Floats:
        """Return the end up to and including each number or, with `before`, just below an atom."""
        model = self.point(numbers)
        if before and self.points:
            atoms = np.isin(numbers, self.points)
            model = np.where(atoms, np.nextafter(model, -np.inf), model)
        # Only an atom can be on a bound. Nothing lies below the bound, and nothing above it.
        first = not before and self.lower in self.points
        last = before and self.upper in self.points
        low = numbers < self.lower if first else numbers <= self.lower
        high = numbers > self.upper if last else numbers >= self.upper
        return np.where(low, -np.inf, np.where(high, np.inf, model))

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values at points of the model's scale, strictly between the bounds."""
        numbers = self._unbent(self.to_numbers(model))
        if family(self.column.dtype) != "number":
            numbers = self._on_grain(numbers, model)
        endless = np.isinf(model) & math.isinf(self.lower) & math.isinf(self.upper)
        numbers = np.where(endless, model, np.clip(numbers, *self._limits()))
        for point, atom in zip(self.points, self.column.atoms, strict=True):
            held = float(np.asarray(atom, dtype))
            numbers = np.where(model == held, point, numbers)
        return numbers

    def fault(self, number: float) -> tuple[str, str]:
        """Return on which side of a bound values lie."""
        kind = self.column.kind
        assert isinstance(kind, Continuous)
        low = number <= self.lower
        side, bound = ("above", kind.lower) if low else ("below", kind.upper)
        if number == (self.lower if low else self.upper):
            return (
                f"to lie {side} its bound {bound}, not on it",
                f"Add atoms=({bound!r},) if the bound occurs with a mass of its own, or "
                "resolution= if values are rounded to it.",
            )
        name = "lower" if low else "upper"
        return f"to lie {side} its bound {bound}", f"Correct the value, or declare another {name}=."

    # Parts ------------------------------------------------------------------------------------

    def bent(self, numbers: Floats) -> Floats:
        """Return the transform of numbers between the bounds."""
        low, high = not math.isinf(self.lower), not math.isinf(self.upper)
        if low and high:
            return _log_gap(self.lower, numbers) - _log_gap(numbers, self.upper)
        if not low and not high:
            return numbers
        tail = self._tail(numbers)
        return tail if low else -tail

    def _tail(self, numbers: Floats) -> Floats:
        """Return the scale of distances from the only bound."""
        if self.column.line:
            return straight(self.distance(numbers), self.column.line)
        return bend_tail(self._log_distance(numbers), self.column.knot)

    def _unbent(self, bent: Floats) -> Floats:
        low, high = not math.isinf(self.lower), not math.isinf(self.upper)
        if low and high:
            small = np.exp(-np.abs(bent))
            inside = (self.upper - self.lower) * (small / (1 + small))
            return np.where(bent < 0, self.lower + inside, self.upper - inside)
        if not low and not high:
            return bent
        tail = bent if low else -bent
        if self.column.line:
            distance: Any = unstraight(tail, self.column.line)
        else:
            distance = np.exp(unbend_tail(tail, self.column.knot))
        return self.lower + distance if low else self.upper - distance

    def at_atom(self, numbers: Floats) -> Flags:
        """Say which values are atoms."""
        return np.isin(numbers, self.points)

    def distance(self, numbers: Floats) -> Floats:
        """Return the distance from the only bound, at most the largest float."""
        gap = numbers - self.lower if math.isinf(self.upper) else self.upper - numbers
        return np.minimum(gap, np.finfo(np.float64).max)

    def _log_distance(self, numbers: Floats) -> Floats:
        """Return the log distance from the only bound."""
        below = math.isinf(self.upper)
        return _log_gap(self.lower, numbers) if below else _log_gap(numbers, self.upper)

    def _log_slope(self, numbers: Floats) -> Floats:
        """Return log |d model / d user|; the user's unit of time is the second."""
        slope: Any = np.full(len(numbers), -math.log(self.column.scale))
        slope = slope + self.log_score_slope(self.bent(numbers))
        if family(self.column.dtype) != "number":
            slope = slope + math.log(UNITS[unit(self.column.dtype)] / self.column.grain)
        if self.column.line:
            return slope + log_straight_slope(self.distance(numbers), self.column.line)
        low, high = not math.isinf(self.lower), not math.isinf(self.upper)
        slope = slope - _log_gap(self.lower, numbers) if low else slope
        slope = slope - _log_gap(numbers, self.upper) if high else slope
        if low and high:
            return slope + math.log(self.upper - self.lower)
        if low or high:
            return slope + log_bend(self._log_distance(numbers), self.column.knot)
        return slope

    def _limits(self) -> tuple[float, float]:
        """Return the least and the greatest of the column's floats between the bounds."""
        dtype = float_type(self.column.dtype)
        largest = float(np.finfo(dtype).max)
        low, high = dtype.type(max(self.lower, -largest)), dtype.type(min(self.upper, largest))
        if float(low) <= self.lower:
            low = np.nextafter(low, dtype.type(np.inf))
        if float(high) >= self.upper:
            high = np.nextafter(high, dtype.type(-np.inf))
        return float(low), float(high)

    def _on_grain(self, numbers: Floats, model: Floats) -> Floats:
        """Round times to the grain of the data where only rounding parts them from it.

        Times over decades in nanoseconds have more digits than a float64; their grain, such as
        the second, brings back those that were lost.
        """
        column, near = self.column, np.rint(numbers)
        bent = self.bent(near)
        reach = np.abs(model) + (np.abs(bent) + abs(column.location)) / column.scale
        close = np.abs(self.to_model(bent) - model) <= 8 * np.finfo(np.float64).eps * reach
        return np.where(close, near, numbers)


def _log_gap(low: Any, high: Any) -> Floats:
    """Return log(high - low), also where the difference is beyond the largest float."""
    gap, half = high - low, high / 2 - low / 2
    return np.where(np.isinf(gap), np.log(half) + math.log(2), np.log(gap))


def with_atoms(axis: SmoothAxis) -> Column:
    """Return the column with its atoms on the model's scale."""
    bare = replace(axis, points=())

    def place(point: float) -> float:
        if point == axis.lower:
            edge = bare.point(np.array([np.nextafter(point, np.inf)]))[0]
            return min(-_BEYOND, 2 * float(edge))
        if point == axis.upper:
            edge = bare.point(np.array([np.nextafter(point, -np.inf)]))[0]
            return max(_BEYOND, 2 * float(edge))
        return float(bare.point(np.array([point]))[0])

    atoms: list[float] = []
    for point in axis.points:
        atom = place(point)
        # Atoms that round to one place are set apart, with room for what lies between.
        least = atoms[-1] + 8 * np.spacing(abs(atoms[-1])) if atoms else -np.inf
        atoms.append(max(atom, float(least)))
    return replace(axis.column, atoms=tuple(atoms))
