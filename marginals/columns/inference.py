"""From a table to its schema."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.axes import axis, standardised
from marginals.columns.axis import quiet
from marginals.columns.cell_reading import Floats, exact_time, whole_parts
from marginals.columns.dtypes import family
from marginals.columns.ends import ends, refuse, refuse_empty
from marginals.columns.guess import guess, told, value_notes
from marginals.columns.kinds import Categorical, Continuous, Integer, Kind
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.schema import Column, Name, Schema
from marginals.columns.table_coercion import as_frame, check_names, column_of, upper_columns

__all__ = ["infer"]

_LARGEST = 2**53  # up to here float64 holds every whole number
_FARTHEST = 2.0**64  # from 0, of a reference; of Python's own integers any
_ROUNDED = 0.01  # of a step: how far from the lattice values may be and count as on it


def infer(frame: Any, given: Mapping[Name, Kind] | None = None, upper: Any = None) -> Schema:
    """Say what each column of a table is, and how it stands on the model's scale.

    Args:
        frame: a DataFrame, array or tensor.
        given: the kinds of some columns, which are not guessed then.
        upper: the upper ends of censored cells, `frame` holding the lower ones.

    >>> schema = infer(pd.DataFrame({"age": [31, 40, 25], "city": ["Oslo", "Bergen", "Oslo"]}))
    >>> [column.kind for column in schema]
    [Integer(), Categorical(categories=('Bergen', 'Oslo'))]
    """
    frame = as_frame(frame)
    names = check_names(frame)
    if not names or not len(frame):
        raise ValueError(
            f"Expected a table with rows and columns; got {len(frame)} row(s) and {len(names)} "
            "column(s). Give at least one of each."
        )
    blank = Schema(tuple(Column(name, Continuous(), "float64", "") for name in names))
    kinds = {names[blank.index(name)]: _kind(name, kind) for name, kind in (given or {}).items()}
    high = {} if upper is None else upper_columns(blank, frame, upper)
    with quiet():
        columns = [
            _column(name, column_of(frame, i), kinds.get(name), high.get(i))
            for i, name in enumerate(names)
        ]
    return Schema(tuple(columns))


def _kind(name: Name, kind: Any) -> Kind:
    if isinstance(kind, Continuous | Integer | Categorical):
        return kind
    remedy = f"Write {kind.__name__}()." if isinstance(kind, type) else "Give one of these."
    raise TypeError(
        f"Expected the kind of column {name!r} to be Continuous(...), Integer(...) or "
        f"Categorical(...); got {kind!r}. {remedy}"
    )


def _column(name: Name, series: Any, kind: Kind | None, upper: Any) -> Column:
    found = guess(name, series, upper is not None) if kind is None else told(name, series, kind)
    column = Column(name, found.kind, found.dtype, found.reason, notes=found.notes)
    if isinstance(column.kind, Categorical):
        ordered = isinstance(series.dtype, pd.CategoricalDtype) and bool(series.dtype.ordered)
        column = replace(column, ordered=ordered)
        ends(column, series, upper)  # raises for a value that is none of the categories
        return column
    _check_units(column)
    column = _referred(column, series, upper)
    low, high = ends(column, series, upper)
    _check_values(column, series, low, high)
    column = standardised(column, low if low is high else np.concatenate([low, high]))
    _check_intervals(column, series, low, high)
    exact = low[(low == high) & np.isfinite(low)]
    if family(column.dtype) != "number":
        return column
    return replace(column, notes=column.notes + value_notes(column.kind, exact))


def _check_units(column: Column) -> None:
    """Refuse bounds, atoms or a resolution of another kind than the column's values."""
    kind, values = column.kind, family(column.dtype)
    spans: Any = {"number": int | float, "time": pd.Timestamp, "span": pd.Timedelta}[values]
    told = [("lower", kind.lower), ("upper", kind.upper)]  # type: ignore[union-attr]
    if isinstance(kind, Continuous):
        told += [("atoms", atom) for atom in kind.atoms]
        step: Any = int | float if values == "number" else pd.Timedelta
        if kind.resolution is not None and not isinstance(kind.resolution, step):
            told.append(("resolution", kind.resolution))
            spans = step
    for name, value in told:
        if value is not None and not isinstance(value, spans):
            raise TypeError(
                f"Expected `{name}` of column {column.name!r} to fit its dtype {column.dtype}; got "
                f"{value!r}. Use a number, for times pd.Timestamp, for durations pd.Timedelta."
            )


def _check_values(column: Column, series: Any, low: Floats, high: Floats) -> None:
    line = axis(column)
    exact = low == high
    wrong = exact & line.wrong(low)
    if wrong.any():
        refuse(line, series, low, wrong)
    whole = isinstance(column.kind, Integer) and series.dtype.kind == "f"
    huge = np.abs(low + column.reference) > _LARGEST
    if whole and huge.any():
        at = int(huge.argmax())
        raise ValueError(
            f"Expected whole numbers of column {column.name!r} to be at most 2**53 as floats; got "
            f"{series.iloc[at]} in row {series.index[at]!r}. Use an integer dtype or Continuous()."
        )


def _check_intervals(column: Column, series: Any, low: Floats, high: Floats) -> None:
    interval = low < high
    if interval.any():
        lower, upper = axis(column).between(low[interval], high[interval])
        empty = np.zeros(len(low), dtype=bool)
        empty[interval] = lower > upper
        if empty.any():
            refuse_empty(column, series, empty)


# The reference, from which numbers are counted ------------------------------------------------


def _referred(column: Column, series: Any, upper: Any) -> Column:
    """Return the column with reference, offset and grain."""
    if family(column.dtype) != "number":
        return _referred_time(column, series, upper)
    if isinstance(column.kind, Integer):
        low, high = ends(column, series, upper)
        middle = _middle(np.concatenate([low, high]))
        if column.dtype == "object":
            reference = _exactly(middle, [series] if upper is None else [series, upper])
        else:
            reference = int(min(max(middle, -_FARTHEST), _FARTHEST))
        return replace(column, reference=_within(reference, column.kind.lower, column.kind.upper))
    if isinstance(column.kind, Continuous) and column.kind.resolution is not None:
        return _on_lattice(column, np.concatenate(ends(column, series, upper)))
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
    assert isinstance(kind, Continuous)
    sides = [series] if upper is None else [series, upper]
    if isinstance(series.dtype, pd.IntervalDtype):
        sides = [pd.Series(series.array.left), pd.Series(series.array.right)]
    known = [whole_parts(column, side) for side in sides if side.notna().any()]
    whole = np.concatenate([np.empty(0, np.int64), *known])
    if not len(whole):
        # Any time will do, if it is not beyond a bound.
        bounds = [bound for bound in (kind.lower, kind.upper) if bound is not None]
        return replace(column, reference=math.floor(exact_time(column, bounds[0])) if bounds else 0)
    reference = int(np.partition(whole, len(whole) // 2)[len(whole) // 2])
    grain = int(np.gcd.reduce(whole - np.int64(reference)))
    return replace(column, reference=reference, grain=max(abs(grain), 1))


def _on_lattice(column: Column, values: Floats) -> Column:
    """Find where the lattice of a rounded column starts, and its value amid the data."""
    kind = column.kind
    assert isinstance(kind, Continuous)
    step = float(kind.resolution)
    values = values[np.isfinite(values)]
    starts = [float(bound) for bound in (kind.lower, kind.upper) if bound is not None]
    starts = [0.0, *starts, *(math.fmod(value, step) for value in values[:1])]
    fits = [start for start in starts if _fits(values, start, step, kind)]
    if not fits:
        note = f"some values are no multiples of {step:g}: rounded to them"
        bounded = starts[1] if kind.lower is not None or kind.upper is not None else 0.0
        column = replace(column, notes=(*column.notes, note), offset=bounded)
    else:
        column = replace(column, offset=fits[0])
    line = axis(column)
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
