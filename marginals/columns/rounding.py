"""From numbers of a smooth column to values that its table has: the nearest, within bounds."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = ["Rounding"]

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class Rounding:
    """An increasing map to values that can occur, for columns that are modelled as smooth.

    The map is increasing, so draws and quantiles of the rounded column are rounded draws and
    quantiles of the smooth one.

    Args:
        values: the values of the column in rising order, if they repeat; the nearest is taken.
        step, offset: the grid of a column without such values; None for no grid.
        lower, upper: bounds, None for none.

    >>> Rounding(values=(36.0, 60.0))(np.array([40.0, 55.0, np.nan]))
    array([36., 60., nan])
    >>> Rounding(step=5.0, lower=0.0)(np.array([-20.0, 12.0]))
    array([ 0., 10.])
    """

    values: tuple[float, ...] = ()
    step: float | None = None
    offset: float = 0.0
    lower: float | None = None
    upper: float | None = None

    def __call__(self, numbers: Floats) -> Floats:
        """Return the nearest value of each number; NaN stays.

        Args:
            numbers: numbers of the smooth column.
        """
        if self.values:
            every = np.asarray(self.values)
            nearest = every[np.searchsorted((every[1:] + every[:-1]) / 2, numbers)]
            return np.where(np.isnan(numbers), np.nan, nearest)
        if self.step is not None:
            digits = max(0, 6 - math.floor(math.log10(self.step)))  # 0.3 instead of 3 * 0.1
            numbers = np.rint((numbers - self.offset) / self.step) * self.step + self.offset
            numbers = np.round(numbers, digits)
        return self.clipped(numbers)

    @property
    def is_coarse(self) -> bool:
        """Whether several numbers are rounded to one value; bounds alone round none."""
        return bool(self.values) or self.step is not None

    def cells(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the ends between which numbers are rounded to each value.

        Args:
            values: values that numbers are rounded to.
        """
        if self.values:
            every = np.asarray(self.values)
            ends = np.concatenate([[-np.inf], (every[1:] + every[:-1]) / 2, [np.inf]])
            at = np.searchsorted(every, values)
            return ends[at], ends[at + 1]
        half = 0.0 if self.step is None else self.step / 2
        least = -np.inf if self.lower is None else self.lower
        most = np.inf if self.upper is None else self.upper
        low = np.where(values - half <= least, -np.inf, values - half)
        return low, np.where(values + half >= most, np.inf, values + half)

    def neighbours(self, values: Floats, steps: int) -> Floats:
        """Return the values so many steps above each value, within the bounds.

        Args:
            values: values that numbers are rounded to.
            steps: 1 for the next value, -1 for the one before.
        """
        if self.values:
            at = np.searchsorted(self.values, values) + steps
            return np.asarray(self.values)[np.clip(at, 0, len(self.values) - 1)]
        return self(values + steps * (self.step or 0.0))

    def clipped(self, numbers: Any) -> Any:
        """Return numbers moved into the bounds, as means are, which need not be values.

        Args:
            numbers: numbers of the smooth column.
        """
        ends = (self.values[0], self.values[-1]) if self.values else (self.lower, self.upper)
        return numbers if ends == (None, None) else np.clip(numbers, *ends)
