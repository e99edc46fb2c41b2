"""From numbers to the model's scale and back: what every kind of column must answer.

Numbers are what `read.numbers` gives: float64, NaN where missing. The model's scale is float64 too,
with a cell as in `Evidence`: equal ends are an exact value, else it is (lower, upper]. On the way
numbers may be infinite or NaN, which is meant: callers switch numpy's warnings off (`quiet`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from marginals.columns.cell_reading import Floats
from marginals.columns.schema import Column

__all__ = ["Axis", "CodeAxis", "Exact", "Flags", "no_values", "quiet", "to_model", "to_numbers"]

Flags = npt.NDArray[np.bool_]


def quiet() -> Any:
    """Switch off numpy's warnings of overflow and the like, in this thread."""
    return np.errstate(all="ignore")


_FARTHEST = float(np.finfo(np.float64).max)  # the density is 0 long before


class Exact(NamedTuple):
    """Cells of exact values: their ends, and log |d model / d user| where they have no width."""

    lower: Floats
    upper: Floats
    log_slope: Floats


class Axis(ABC):
    """The values that a column can take, on the model's scale."""

    column: Column

    @abstractmethod
    def wrong(self, numbers: Floats) -> Flags:
        """Say which values cannot occur; a missing one is none."""

    @abstractmethod
    def exact(self, numbers: Floats) -> Exact:
        """Return the cells of values, arbitrary for those that cannot occur."""

    @abstractmethod
    def point(self, numbers: Floats) -> Floats:
        """Return values on the model's scale; of a lattice, the middles of their cells."""

    @abstractmethod
    def between(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the cells of all values in (low, high]; (inf, -inf) where there is none."""

    @abstractmethod
    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the values at points of the model's scale that was held in `dtype`."""

    @abstractmethod
    def fault(self, number: float) -> tuple[str, str]:
        """Say what a value that cannot occur should have been, and what to do."""


@final
@dataclass(frozen=True)
class CodeAxis(Axis):
    """The categories 0, 1, ..., which are their own scale."""

    column: Column
    count: int

    def wrong(self, numbers: Floats) -> Flags:
        """Return none: categories are checked as they are read."""
        return np.zeros(len(numbers), dtype=bool)

    def exact(self, numbers: Floats) -> Exact:
        """Return the codes."""
        return Exact(numbers, numbers, np.zeros(len(numbers)))

    def point(self, numbers: Floats) -> Floats:
        """Return the codes."""
        return numbers

    def between(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the codes after `low` up to `high`."""
        return no_values(low, high, low >= self.count - 1)

    def numbers(self, model: Floats, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return the nearest codes."""
        return np.clip(np.rint(model), 0, self.count - 1)

    def fault(self, number: float) -> tuple[str, str]:
        """Never asked, as no code is wrong."""
        raise AssertionError(number)


def no_values(low: Floats, high: Floats, empty: Flags | None = None) -> tuple[Floats, Floats]:
    """Write (inf, -inf) where a cell is empty; keep width where rounding took it."""
    nothing = (low == np.inf) | (high == -np.inf)
    nothing = nothing if empty is None else nothing | empty
    # A cell without width would be an exact value, with a density instead of a mass.
    low = np.where(high <= low, np.nextafter(high, -np.inf), low)
    return np.where(nothing, np.inf, low), np.where(nothing, -np.inf, high)


def to_model(bent: Floats, column: Column) -> Floats:
    """Subtract the location and divide by the scale, without overflow."""
    scaled = (bent - column.location) / column.scale
    halves = (bent / 2 - column.location / 2) / column.scale * 2
    overflow = np.isfinite(bent) & ~(np.abs(scaled) <= _FARTHEST)
    return np.where(overflow, np.clip(halves, -_FARTHEST, _FARTHEST), scaled)


def to_numbers(model: Floats, column: Column) -> Floats:
    """Undo `to_model`."""
    bent: Any = model * column.scale + column.location
    halves = (model / 2 * column.scale + column.location / 2) * 2
    return np.where(np.isfinite(bent), bent, halves)
