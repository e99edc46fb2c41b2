"""Columns whose margin was replaced by a distribution of the user's."""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from marginals.columns.axis import Axis, Exact, Flags, no_values
from marginals.columns.cell_reading import Floats
from marginals.columns.margin import Margin
from marginals.columns.schema import Column

__all__ = ["GluedAxis"]


@final
@dataclass(frozen=True)
class GluedAxis(Axis):
    """Values of a glued margin, on the model's scale at the same level of the column's own margin.

    Args:
        column: the column, without atoms or resolution.
        margin: the map between the two.
    """

    column: Column
    margin: Margin

    def wrong(self, numbers: Floats) -> Flags:
        """Say which values are on or beyond a bound of the margin."""
        lower, upper = self.margin.bounds
        return (numbers <= lower) | (numbers >= upper)

    def exact(self, numbers: Floats) -> Exact:
        """Return the cells of values: points, with the slope of the map."""
        inside = np.where(self.wrong(numbers), np.nan, numbers)
        model = self.margin.to_model(inside)
        slope = self.margin.log_slope(inside, model)
        # Cells without a value have none; where the margin has no density the slope is -inf.
        return Exact(model, model, np.where(np.isnan(slope), 0.0, slope))

    def point(self, numbers: Floats) -> Floats:
        """Return values on the model's scale; NaN where they cannot occur."""
        return self.margin.to_model(np.where(self.wrong(numbers), np.nan, numbers))

    def between(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the cells of all values in (low, high]."""
        return no_values(self._end(low), self._end(high))

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values at points of the model's scale, strictly between the bounds."""
        return self.margin.to_numbers(model)

    def fault(self, number: float) -> tuple[str, str]:
        """Say on which side of a bound a value should have been."""
        lower, upper = self.margin.bounds
        side = f"above {lower:g}" if number <= lower else f"below {upper:g}"
        return f"to lie {side}, inside of its margin", "Correct the value, or glue another margin."

    def _end(self, numbers: Floats) -> Floats:
        lower, upper = self.margin.bounds
        below, above = numbers <= lower, numbers >= upper
        return np.where(below, -np.inf, np.where(above, np.inf, self.point(numbers)))
