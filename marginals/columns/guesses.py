"""What the values of a numeric column show: few values, a grid, atoms and bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.columns.dtypes import float_type
from marginals.columns.kinds import Continuous, Discrete, Integer, Kind
from marginals.columns.natural_bounds import Bounds, find_bounds
from marginals.columns.point_masses import find_atoms, is_table
from marginals.columns.rounding import Rounding
from marginals.columns.value_grid import Step, infer_step, infer_whole_step

__all__ = ["Shown", "shown_by_numbers", "shown_by_times", "smooth_numbers"]

Floats = npt.NDArray[np.float64]

_ROWS = 30  # fewer values say nothing beyond their dtype
_LARGEST = 2.0**53  # whole numbers beyond are not exact as floats
# A grid with more steps than this in a standard deviation does not matter, unless most values
# repeat; float32 could not tell the cells of an even finer one apart.
_FINE, _FINEST = 1e5, 1e6
_MOST_ROUNDED = 1000  # distinct values to which draws of a smooth column are rounded
_SECOND = 10**9  # in ns: the finest step of times whose values do not repeat


@dataclass(frozen=True)
class Shown:
    """A kind that fits the values, where its grid starts, why, notes, and how to round draws."""

    kind: Kind
    offset: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rounding: Rounding | None = None


def shown_by_numbers(kind: Continuous | Integer, values: Floats, dtype: str) -> Shown | None:
    """Return what numbers show beyond the kind that follows from their dtype, or None.

    Args:
        kind: `Integer()` if all values are whole by their dtype.
        values: the observed values.
        dtype: the name of the column's dtype.

    >>> shown_by_numbers(Continuous(), np.repeat([36.0, 60.0], 50), "float64").kind
    Discrete(values=(36.0, 60.0))
    """
    if len(values) < _ROWS or not (np.abs(values) < _LARGEST).all():
        return None
    distinct, counts = np.unique(values, return_counts=True)
    number = int if isinstance(kind, Integer) else _decimal(dtype)
    if len(distinct) == 1:
        return Shown(Discrete((number(distinct[0]),)), reasons=("always the same value",))
    if is_table(counts):
        table = Discrete(tuple(number(value) for value in distinct))
        return Shown(table, reasons=(f"{len(distinct)} values, each often",))
    eps = float(np.finfo(float_type(dtype)).eps)
    grid = infer_step(distinct, counts, eps)
    step = _useful(grid, distinct, counts)
    whole = step is not None and step.step == 1 and step.offset == 0 and not step.off
    if isinstance(kind, Continuous) and whole:
        kind, number = Integer(), int
    width = step.step if step else (1.0 if isinstance(kind, Integer) else None)
    atoms = _on_grid(find_atoms(distinct, counts, width), distinct, step, eps)
    bounds = find_bounds(distinct, counts, atoms, width)
    masses = {number(distinct[i]) for i in atoms}
    if width is None:  # an end that occurs has no density
        masses |= {number(end) for end in (bounds.lower, bounds.upper) if end in distinct}
    ends = _ends(bounds, number)
    reasons = _atom_reason(len(masses)) + bounds.reasons
    if isinstance(kind, Integer) and (step is None or step.step == 1):
        return Shown(Integer(*ends, tuple(masses)), None, reasons)
    if step is None:
        found = Continuous(*ends, None, tuple(masses))
        return Shown(found, None, reasons, rounding=_fine_rounding(grid, found))
    resolution = int(step.step) if isinstance(kind, Integer) else step.step
    found = Continuous(*ends, resolution, tuple(masses))
    return Shown(found, step.offset, (f"multiples of {_text(step)}", *reasons), _off_note(step))


def smooth_numbers(kind: Continuous | Integer, values: Floats, dtype: str) -> Shown | None:
    """Return what numbers show if they are to be smooth: how draws are rounded to such values.

    A column with atoms among values that do not repeat has no smooth density, and keeps its kind.

    Args:
        kind, values, dtype: as in `shown_by_numbers`.

    >>> smooth_numbers(Continuous(), np.repeat([36.0, 60.0], 50), "float64").rounding.values
    (36.0, 60.0)
    """
    if len(values) < _ROWS or not (np.abs(values) < _LARGEST).all():
        return None
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 2:
        return shown_by_numbers(kind, values, dtype)
    if 2 * len(distinct) < len(values) and len(distinct) <= _MOST_ROUNDED:
        rounding = Rounding(tuple(distinct.tolist()))
        return Shown(Continuous(), reasons=("smooth, rounded to values seen",), rounding=rounding)
    step = infer_step(distinct, counts, float(np.finfo(float_type(dtype)).eps))
    step = _useful(step, distinct, counts)
    width = None if step is None else float(step.step)
    if find_atoms(distinct, counts, width):
        return shown_by_numbers(kind, values, dtype)
    bounds = find_bounds(distinct, counts, [], width)
    lower, upper = (None if end is None else float(end) for end in (bounds.lower, bounds.upper))
    if step is None:
        rounded = None if lower is upper is None else Rounding(lower=lower, upper=upper)
        return Shown(Continuous(), None, bounds.reasons, (), rounded)
    rounding = Rounding((), width, float(step.offset), lower, upper)
    reasons = (f"smooth, rounded to multiples of {_text(step)}", *bounds.reasons)
    return Shown(Continuous(), None, reasons, _off_note(step), rounding)


def shown_by_times(whole: npt.NDArray[np.int64], unit: int) -> Shown | None:
    """Return the step of times or durations in whole units, None if there is none.

    Args:
        whole: the observed times.
        unit: how many units make a second.
    """
    if len(whole) < _ROWS:
        return None
    distinct, counts = np.unique(whole, return_counts=True)
    if len(distinct) < 3:
        return None
    step = infer_whole_step(distinct, counts, _natural(unit))
    if step is None:
        return None
    nanoseconds = step.step * (_SECOND // unit)
    repeated = len(distinct) < 0.5 * len(whole)
    if nanoseconds < _SECOND and not repeated:
        return None
    resolution = pd.Timedelta(nanoseconds, "ns")
    return Shown(
        Continuous(resolution=resolution), step.offset, (f"steps of {resolution}",), _off_note(step)
    )


def _natural(unit: int) -> list[int]:
    """Return a day, an hour, a minute, a second, and so on down to one unit, in units."""
    fractions = [unit // 1000**power for power in range(4) if 1000**power <= unit]
    return [86_400 * unit, 3600 * unit, 60 * unit, *fractions]


# Parts ------------------------------------------------------------------------------------------


def _decimal(dtype: str) -> Any:
    """Return the function that takes a float of a dtype to the decimal that it stands for."""
    narrow = float_type(dtype)
    if narrow == np.float64:
        return float
    return lambda value: float(str(narrow.type(value)))


def _useful(step: Step | None, distinct: Any, counts: Any) -> Step | None:
    """Return the grid, None if it is so fine that it does not matter."""
    if step is None:
        return None
    mean = np.average(distinct, weights=counts)
    spread = np.sqrt(np.average((distinct - mean) ** 2, weights=counts))
    repeated = len(distinct) < 0.5 * counts.sum()
    return step if spread / step.step <= (_FINEST if repeated else _FINE) else None


def _fine_rounding(step: Step | None, kind: Continuous) -> Rounding | None:
    """Return how draws of a continuous column get back on a grid that is too fine to matter.

    Without an atom there, a bound is no value: the first and last multiples lie within it.
    """
    if step is None:
        return None
    inner = [
        None if end is None else end if end in kind.atoms else end + side * step.step
        for end, side in ((kind.lower, 1), (kind.upper, -1))
    ]
    lower, upper = (None if end is None else float(end) for end in inner)
    return Rounding((), float(step.step), float(step.offset), lower, upper)


def _on_grid(atoms: list[int], distinct: Any, step: Step | None, eps: float) -> list[int]:
    """Leave out the few atoms off the grid, which are rounded to it."""
    if step is None:
        return atoms
    steps = (distinct[atoms] - step.offset) / step.step
    on = np.abs(steps - np.rint(steps)) < 1e-6 + 8 * eps * np.abs(steps)
    return [atom for atom, kept in zip(atoms, on, strict=True) if kept]


def _ends(bounds: Bounds, number: Any) -> tuple[Any, Any]:
    lower, upper = (
        end if end is None or isinstance(end, int) else number(end)
        for end in (bounds.lower, bounds.upper)
    )
    return lower, upper


def _atom_reason(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return ("1 value repeats" if count == 1 else f"{count} values repeat",)


def _text(step: Step) -> str:
    return f"{step.step:g}" + (f" from {step.offset:g}" if step.offset else "")


def _off_note(step: Step) -> tuple[str, ...]:
    if not step.off:
        return ()
    return (f"{100 * step.off:.2g} % of the values are off this grid: rounded to it",)
