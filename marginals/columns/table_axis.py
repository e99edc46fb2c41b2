"""Columns of few numbers: each value is a code of a table of probabilities."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from marginals.columns.axis import Axis, ExactCells, Flags, Floats, checked
from marginals.columns.plain_values import shown
from marginals.columns.schema import Column

__all__ = ["TableAxis"]

_NEAR = 1e-9  # relative distance from a value that is only rounding
_LISTED = 8  # values shown in an error


@final
@dataclass(frozen=True)
class TableAxis(Axis):
    """Few numbers in rising order; the model's scale holds their codes 0, 1, ...

    Args:
        column: the column.
        points: its values as numbers.
    """

    column: Column
    points: tuple[float, ...]

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.points[0], self.points[-1]

    @cached_property
    def values(self) -> Floats:
        """The values as numbers, in the order of their codes."""
        return np.array(self.points, dtype=np.float64)

    def wrong(self, numbers: Floats) -> Flags:
        """Say which values are not in the table."""
        return ~np.isnan(numbers) & np.isnan(self.point(numbers))

    def fault(self, number: float) -> tuple[str, str]:
        """Return the values in the table."""
        listed = self.column.listed or ()
        text = ", ".join(map(shown, listed[:_LISTED]))
        more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
        return f"to hold one of {text}{more}", "Correct the value, or list it in Discrete(values=)."

    def has_mass(self, numbers: Floats) -> Flags:
        """Return True."""
        return np.ones(len(numbers), dtype=bool)

    def exact(self, numbers: Floats) -> ExactCells:
        """Return the codes of values."""
        codes = self.point(numbers)
        return ExactCells(codes, codes, np.zeros(len(numbers)))

    def point(self, numbers: Floats) -> Floats:
        """Return the codes of values; NaN for a number that is not in the table."""
        codes = np.clip(np.searchsorted(self.values, numbers), 0, len(self.values) - 1)
        return np.where(self.values[codes] == numbers, codes.astype(np.float64), np.nan)

    def between(
        self, low: Floats, high: Floats, low_closed: bool = False, high_closed: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the cells of all values between two ends."""
        first = np.searchsorted(self.values, low, "left" if low_closed else "right")
        last = np.searchsorted(self.values, high, "right" if high_closed else "left") - 1
        lower = np.where(first == 0, -np.inf, first - 1.0)
        upper = np.where(last == len(self.values) - 1, np.inf, last.astype(np.float64))
        return checked(lower, upper, first > last)

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values of the nearest codes."""
        codes = np.clip(np.rint(np.nan_to_num(model)), 0, len(self.values) - 1)
        return np.where(np.isnan(model), np.nan, self.values[codes.astype(np.int64)])

    def snapped(self, numbers: Floats) -> Floats:
        """Return numbers with those that are a value of the table but for rounding set to it."""
        above = np.clip(np.searchsorted(self.values, numbers), 1, max(len(self.values) - 1, 1))
        pair = self.values[np.stack([above - 1, np.minimum(above, len(self.values) - 1)])]
        nearest = np.where(np.abs(pair[0] - numbers) <= np.abs(pair[1] - numbers), *pair)
        close = np.abs(nearest - numbers) <= _NEAR * np.abs(nearest)
        return np.where(close, nearest, numbers)
