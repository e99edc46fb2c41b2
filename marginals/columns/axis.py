"""The axis of a column: the values it can take, on the model's scale.

An axis maps numbers, as `cell_reading` returns them (float64, NaN where missing), to cells of the
model's scale, as `Evidence` holds them: equal ends are an exact value, else (lower, upper]. Values
on the way may overflow or be NaN by design: callers silence numpy's warnings with `quiet`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from marginals.columns.normal_scores import Floats
from marginals.columns.schema import Column

__all__ = ["Axis", "CodeAxis", "ExactCells", "Flags", "Floats", "checked", "quiet"]

Flags = npt.NDArray[np.bool_]

_FARTHEST = float(np.finfo(np.float64).max)  # the density is 0 long before


def quiet() -> Any:
    """Silence numpy's warnings about overflow and the like, in this thread."""
    return np.errstate(all="ignore")


class ExactCells(NamedTuple):
    """Cells of exact values: their ends, and log |d model / d user| where they have no width."""

    lower: Floats
    upper: Floats
    log_slope: Floats


class Axis(ABC):
    """The values that a column can take, on the model's scale."""

    column: Column

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The ends of the values as numbers, infinite where there is none."""

    @abstractmethod
    def wrong(self, numbers: Floats) -> Flags:
        """Say which values cannot occur; missing ones can."""

    def beyond(self, numbers: Floats) -> Flags:
        """Say which values cannot occur only because of bounds, or of a table of values."""
        return self.wrong(numbers)

    @abstractmethod
    def fault(self, number: float) -> tuple[str, str]:
        """Return what was expected instead of a value that cannot occur, and what to do."""

    @abstractmethod
    def has_mass(self, numbers: Floats) -> Flags:
        """Say which values have a probability of their own, and not only a density."""

    @abstractmethod
    def exact(self, numbers: Floats) -> ExactCells:
        """Return the cells of observed values; arbitrary where a value cannot occur."""

    @abstractmethod
    def point(self, numbers: Floats) -> Floats:
        """Return one point of the model's scale for each value; on a lattice, its cell's middle."""

    @abstractmethod
    def between(
        self, low: Floats, high: Floats, low_closed: bool = False, high_closed: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the cells of all values between two ends; (inf, -inf) where there is none."""

    @abstractmethod
    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values at points of the model's scale, which were stored as `dtype`."""

    def only(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the cells that hold these values and no others, for events."""
        cells = self.exact(numbers)
        return cells.lower, cells.upper

    def snapped(self, numbers: Floats) -> Floats:
        """Return numbers with those that are a value of the column but for rounding set to it."""
        return numbers

    def to_model(self, bent: Floats) -> Floats:
        """Return transformed values on the model's scale."""
        scaled = self._scaled(bent)
        return scaled if self.column.scores is None else self.column.scores(scaled)

    def log_score_slope(self, bent: Floats) -> Floats | float:
        """Return the log slope of the normal scores at transformed values; 0 without any."""
        scores = self.column.scores
        return 0.0 if scores is None else scores.log_slope(self._scaled(bent))

    def _scaled(self, bent: Floats) -> Floats:
        """Subtract the location and divide by the scale, without overflow."""
        location, scale = self.column.location, self.column.scale
        scaled = (bent - location) / scale
        overflow = np.isfinite(bent) & ~(np.abs(scaled) <= _FARTHEST)
        if not overflow.any():
            return scaled
        halves = (bent / 2 - location / 2) / scale * 2
        return np.where(overflow, np.clip(halves, -_FARTHEST, _FARTHEST), scaled)

    def to_numbers(self, model: Floats) -> Floats:
        """Undo `to_model`."""
        model = model if self.column.scores is None else self.column.scores.inverse(model)
        location, scale = self.column.location, self.column.scale
        bent: Any = model * scale + location
        halves = (model / 2 * scale + location / 2) * 2
        return np.where(np.isfinite(bent), bent, halves)


@final
@dataclass(frozen=True)
class CodeAxis(Axis):
    """The codes of categories 0, 1, ..., which are their own scale."""

    column: Column
    count: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The first and the last code."""
        return 0.0, self.count - 1.0

    def wrong(self, numbers: Floats) -> Flags:
        """Return False: categories are checked as they are read."""
        return np.zeros(len(numbers), dtype=bool)

    def fault(self, number: float) -> tuple[str, str]:
        """Never called, as no code is wrong."""
        raise AssertionError(number)

    def has_mass(self, numbers: Floats) -> Flags:
        """Return True."""
        return np.ones(len(numbers), dtype=bool)

    def exact(self, numbers: Floats) -> ExactCells:
        """Return the codes."""
        return ExactCells(numbers, numbers, np.zeros(len(numbers)))

    def point(self, numbers: Floats) -> Floats:
        """Return the codes."""
        return numbers

    def between(
        self, low: Floats, high: Floats, low_closed: bool = False, high_closed: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the codes between two codes."""
        low, high = low - low_closed, high - (not high_closed)
        return checked(low, high, (low >= self.count - 1) | (high < 0) | (low >= high))

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the nearest codes."""
        return np.clip(np.rint(model), 0, self.count - 1)


def checked(low: Floats, high: Floats, empty: Flags | None = None) -> tuple[Floats, Floats]:
    """Write (inf, -inf) where a cell is empty; restore a width that rounding has removed."""
    nothing = (low == np.inf) | (high == -np.inf)
    nothing = nothing if empty is None else nothing | empty
    # A cell without width would be an exact value, with a density instead of a mass.
    low = np.where(high <= low, np.nextafter(high, -np.inf), low)
    return np.where(nothing, np.inf, low), np.where(nothing, -np.inf, high)
