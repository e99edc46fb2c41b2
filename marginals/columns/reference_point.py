"""The number from which the values of a column are counted, and where its lattice starts."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.cell_reading import Floats, exact_time, whole_parts
from marginals.columns.dtypes import family, unit
from marginals.columns.encoded_cells import Ends
from marginals.columns.encoding import read_ends
from marginals.columns.kinds import Continuous, Discrete, Integer
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.schema import Column

__all__ = ["both_ends", "referred"]

_FARTHEST = 2.0**64  # from 0, of a reference; of Python's own integers any
_ROUNDED = 0.01  # in steps: how far from the lattice values may be and count as on it


def both_ends(ends: Ends) -> Floats:
    """Return the ends of all cells, or the values if all cells are exact."""
    return ends.low if ends.low is ends.high else np.concatenate([ends.low, ends.high])


def referred(column: Column, series: Any, upper: Any, offset: float | None) -> Column:
    """Return the column with reference, offset and grain; an `offset` of its grid if inferred."""
    if family(column.dtype) != "number":
        return _referred_time(column, series, upper)
    if isinstance(column.kind, Integer):
        middle = _middle(both_ends(read_ends(column, series, upper)))
        if column.dtype == "object":
            reference = _exactly(middle, [series] if upper is None else [series, upper])
        else:
            reference = int(min(max(middle, -_FARTHEST), _FARTHEST))
        return replace(column, reference=_within(reference, column.kind.lower, column.kind.upper))
    if isinstance(column.kind, Continuous) and column.kind.resolution is not None:
        return _on_lattice(column, both_ends(read_ends(column, series, upper)), offset)
    return column


def _middle(values: Floats) -> float:
    values = values[np.isfinite(values)]
    return float(np.partition(values, len(values) // 2)[len(values) // 2]) if len(values) else 0.0


def _exactly(middle: float, sides: list[Any]) -> int:
    """Return a value of the data that rounds to a float: near 1e50 floats lie far apart."""
    values = (value for side in sides for value in side.dropna())
    return int(next((value for value in values if float(value) == middle), middle))


def _within(value: int, lower: int | None, upper: int | None) -> int:
    value = value if lower is None else max(value, lower)
    return value if upper is None else min(value, upper)


def _referred_time(column: Column, series: Any, upper: Any) -> Column:
    kind = column.kind
    assert isinstance(kind, Continuous | Discrete)
    sides = [series] if upper is None else [series, upper]
    if isinstance(series.dtype, pd.IntervalDtype):
        sides = [pd.Series(series.array.left), pd.Series(series.array.right)]
    known = [whole_parts(column, side) for side in sides if side.notna().any()]
    whole = np.concatenate([np.empty(0, np.int64), *known])
    if not len(whole):
        # Any time will do, if it is not beyond a bound.
        bounds = [bound for bound in (kind.lower, kind.upper) if bound is not None]
        return replace(column, reference=math.floor(exact_time(column, bounds[0])) if bounds else 0)
    reference = _middle_time(column, whole)
    grain = int(np.gcd.reduce(whole - np.int64(reference)))
    return replace(column, reference=reference, grain=max(abs(grain), 1))


def _middle_time(column: Column, whole: Any) -> int:
    """Return a time amid the data; of a rounded column, on the grid of most."""
    step = getattr(column.kind, "resolution", None)
    if step is not None:
        units = step / pd.Timedelta(1, unit(column.dtype))
        if units >= 1 and units == int(units):
            rest = (whole - whole.min()) % int(units)
            found, counts = np.unique(rest, return_counts=True)
            whole = whole[rest == found[counts.argmax()]]
    return int(np.partition(whole, len(whole) // 2)[len(whole) // 2])


def _on_lattice(column: Column, values: Floats, offset: float | None) -> Column:
    """Find where the lattice of a rounded column starts, and its value amid the data."""
    kind = column.kind
    assert isinstance(kind, Continuous)
    step = float(kind.resolution)
    values = values[np.isfinite(values)]
    starts = [float(bound) for bound in (kind.lower, kind.upper) if bound is not None]
    starts = [0.0, *starts, *(math.fmod(value, step) for value in values[:1])]
    fits = [start for start in starts if offset is None and _fits(values, start, step, kind)]
    if offset is not None:
        column = replace(column, offset=offset)
    elif not fits:
        note = f"some values are no multiples of {step:g}: rounded to them"
        bounded = starts[1] if kind.lower is not None or kind.upper is not None else 0.0
        column = replace(column, notes=(*column.notes, note), offset=bounded)
    else:
        column = replace(column, offset=fits[0])
    line = column.axis
    assert isinstance(line, LatticeAxis)
    middle = np.clip(np.rint((_middle(values) - column.offset) / step), -_FARTHEST, _FARTHEST)
    return replace(column, reference=int(np.clip(middle, line.first, line.last)))


def _fits(values: Floats, start: float, step: float, kind: Continuous) -> bool:
    """Say whether values are multiples of a step from a start, and some lie within the bounds."""
    steps = (values - start) / step
    if not (np.abs(steps - np.rint(steps)) <= _ROUNDED).all():
        return False
    if kind.lower is None or kind.upper is None:
        return True
    return bool(np.floor((kind.upper - start) / step) >= np.ceil((kind.lower - start) / step))
