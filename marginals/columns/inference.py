"""From a table to its schema: guess what each column is, and place it on the model's scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.axis import quiet
from marginals.columns.cell_reading import Floats, exact_time, whole_parts
from marginals.columns.column_axis import standardised
from marginals.columns.dtypes import family, name_of, parse
from marginals.columns.encoding import Ends, check_possible, read_ends
from marginals.columns.kinds import Categorical, Continuous, Integer, Kind
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.plain_values import in_order, plain
from marginals.columns.schema import Column, Name, Schema
from marginals.columns.table_coercion import as_frame, check_names, column_of, row_of, upper_columns

__all__ = ["infer"]

_LARGEST = 2**53  # up to here float64 holds every whole number
_FARTHEST = 2.0**64  # from 0, of a reference; of Python's own integers any
_ROUNDED = 0.01  # in steps: how far from the lattice values may be and count as on it
_ROWS = 100_000  # examined for notes
_OBJECT_NUMBERS = {"integer": "whole numbers", "decimal": "decimals"} | dict.fromkeys(
    ("floating", "mixed-integer-float"), "numbers"
)


def infer(
    frame: Any,
    given: Mapping[Name, Kind] | None = None,
    upper: Any = None,
    unknown: str = "error",
) -> Schema:
    """Infer what each column of a table is, and its place on the model's scale.

    Args:
        frame: a DataFrame, array or tensor.
        given: the kinds of some columns, which are not guessed then.
        upper: the upper ends of censored cells, `frame` holding the lower ones.
        unknown: what to do with a category that a kind does not list; see `Schema.reading`.

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
            _column(name, column_of(frame, i), kinds.get(name), high.get(i), unknown)
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


def _column(name: Name, series: Any, kind: Kind | None, upper: Any, unknown: str) -> Column:
    found = (
        _guess(name, series, upper is not None) if kind is None else _completed(name, series, kind)
    )
    column = Column(name, found.kind, found.dtype, found.reason, notes=found.notes)
    if isinstance(column.kind, Categorical):
        own = isinstance(series.dtype, pd.CategoricalDtype) and bool(series.dtype.ordered)
        column = replace(column, ordered=own or column.kind.ordered)
        # Raises for a value that is none of the categories.
        read_ends(replace(column, unknown=unknown), series, upper)
        return column
    _check_units(column)
    column = _referred(column, series, upper)
    ends = read_ends(column, series, upper)
    _check_values(column, series, ends)
    column = standardised(column, _both(ends))
    _check_intervals(column, series, ends)
    exact = ends.low[(ends.low == ends.high) & np.isfinite(ends.low)]
    if family(column.dtype) != "number":
        return column
    return replace(column, notes=column.notes + _value_notes(column.kind, exact))


def _check_units(column: Column) -> None:
    """Refuse bounds, atoms or a resolution of another kind than the column's values."""
    kind, values = column.kind, family(column.dtype)
    spans: Any = {"number": int | float, "time": pd.Timestamp, "span": pd.Timedelta}[values]
    given = [("lower", kind.lower), ("upper", kind.upper)]  # type: ignore[union-attr]
    if isinstance(kind, Continuous):
        given += [("atoms", atom) for atom in kind.atoms]
        step: Any = int | float if values == "number" else pd.Timedelta
        if kind.resolution is not None and not isinstance(kind.resolution, step):
            given.append(("resolution", kind.resolution))
            spans = step
    for name, value in given:
        if value is not None and not isinstance(value, spans):
            raise TypeError(
                f"Expected `{name}` of column {column.name!r} to fit its dtype {column.dtype}; got "
                f"{value!r}. Use a number, for times pd.Timestamp, for durations pd.Timedelta."
            )


def _check_values(column: Column, series: Any, ends: Ends) -> None:
    check_possible(column.axis, series, ends)
    huge = np.abs(ends.low + column.reference) > _LARGEST
    if isinstance(column.kind, Integer) and series.dtype.kind == "f" and huge.any():
        at = int(huge.argmax())
        raise ValueError(
            f"Expected whole numbers of column {column.name!r} to be at most 2**53 as floats; got "
            f"{series.iloc[at]} in row {series.index[at]!r}. Use an integer dtype or Continuous()."
        )


def _check_intervals(column: Column, series: Any, ends: Ends) -> None:
    low, high, *closed = ends
    places = np.flatnonzero(low < high)
    lower, upper = column.axis.between(low[places], high[places], *closed)
    empty = places[lower > upper]
    if len(empty):
        raise ValueError(
            f"Expected each cell of column {column.name!r} to hold a value that it can take; got "
            f"an interval without any{row_of(series, int(empty[0]))}. Widen it, or leave the cell "
            "missing."
        )


def _both(ends: Ends) -> Floats:
    """Return the ends of all cells, or the values if all cells are exact."""
    return ends.low if ends.low is ends.high else np.concatenate([ends.low, ends.high])


# The reference, from which numbers are counted ------------------------------------------------


def _referred(column: Column, series: Any, upper: Any) -> Column:
    """Return the column with reference, offset and grain."""
    if family(column.dtype) != "number":
        return _referred_time(column, series, upper)
    if isinstance(column.kind, Integer):
        middle = _middle(_both(read_ends(column, series, upper)))
        if column.dtype == "object":
            reference = _exactly(middle, [series] if upper is None else [series, upper])
        else:
            reference = int(min(max(middle, -_FARTHEST), _FARTHEST))
        return replace(column, reference=_within(reference, column.kind.lower, column.kind.upper))
    if isinstance(column.kind, Continuous) and column.kind.resolution is not None:
        return _on_lattice(column, _both(read_ends(column, series, upper)))
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


# Guesses ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Guess:
    """A kind, the dtype that values come back with, why, and notes."""

    kind: Kind
    dtype: str
    reason: str
    notes: tuple[str, ...] = ()


def _guess(name: Any, series: Any, censored: bool = False) -> _Guess:
    """Guess the kind of a column; `censored` floats are never taken for integers."""
    dtype = series.dtype
    if isinstance(dtype, pd.IntervalDtype):
        return _Guess(Continuous(), _float_inside(dtype), "intervals")
    if isinstance(dtype, pd.CategoricalDtype):
        if not len(dtype.categories):
            return _nothing_known("float64")
        return _Guess(Categorical(list(dtype.categories)), name_of(dtype), "category")
    letter = dtype.kind
    if letter == "c":
        raise TypeError(
            f"Expected column {name!r} to hold real numbers; got {dtype}: complex data not "
            "supported. Split it into real and imaginary parts."
        )
    if letter == "b":
        return _Guess(Categorical([False, True]), name_of(dtype), name_of(dtype))
    if letter in "iu":
        return _Guess(Integer(), name_of(dtype), name_of(dtype))
    if letter in "mM":
        zone = getattr(dtype, "tz", None)
        moved = zone is not None and name_of(dtype) != str(dtype)
        notes = (f"comes back in UTC instead of {zone}",) if moved else ()
        return _Guess(Continuous(), name_of(dtype), name_of(dtype), notes)
    if bool(series.isna().all()):
        return _nothing_known(name_of(dtype) if letter == "f" else "float64")
    if letter == "f":
        return _of_floats(series, name_of(dtype), censored)
    return _of_objects(name, series, censored)


def _nothing_known(dtype: str) -> _Guess:
    return _Guess(Continuous(), dtype, "no value seen", ("all values are missing: leave it out",))


def _of_floats(series: Any, dtype: str, censored: bool, holder: str = "") -> _Guess:
    values = series.dropna().to_numpy(dtype=np.float64)
    whole = bool((np.rint(values) == values).all() and (np.abs(values) < _LARGEST).all())
    gaps = len(values) < len(series)
    if whole and gaps and not censored and len(np.unique(values)) >= 2:
        return _Guess(Integer(), dtype, f"{holder or dtype} with gaps, whole numbers only")
    notes = ("whole numbers only: consider Integer()",) if whole and not censored else ()
    return _Guess(Continuous(), dtype, holder or dtype, notes)


def _of_objects(name: Any, series: Any, censored: bool) -> _Guess:
    dtype = name_of(series.dtype)
    found = pd.api.types.infer_dtype(series.dropna().to_numpy(dtype=object))
    if found == "complex":
        raise TypeError(
            f"Expected column {name!r} to hold real numbers; got complex data not supported. Split "
            "it into real and imaginary parts."
        )
    if found in _OBJECT_NUMBERS:
        holder = f"{dtype} with {_OBJECT_NUMBERS[found]} only"
        if found == "integer":
            return _Guess(Integer(), dtype, holder)
        if found == "decimal":
            return _Guess(Continuous(), "float64", holder, ("comes back as float64",))
        return _of_floats(series, dtype, censored, holder)
    if found == "boolean":
        return _Guess(Categorical([False, True]), dtype, f"{dtype} with booleans only")
    values = _category_values(name, series)
    noun = {"string": "strings", "date": "dates", "datetime": "times"}.get(found, "values")
    reason = f"{dtype} with {len(values)} distinct {noun}"
    notes = _category_notes(len(values), int(series.notna().sum()), found)
    return _Guess(Categorical(values), dtype, reason, notes)


def _category_notes(count: int, rows: int, found: str) -> tuple[str, ...]:
    notes = []
    if found in ("date", "datetime"):
        notes.append("times as objects are categories: convert with pd.to_datetime")
    if count > 20 and count > rows / 2:
        notes.append(f"{count} categories in {rows} rows: leave it out if it is an identifier")
    return tuple(notes)


def _category_values(name: Any, series: Any) -> list[Any]:
    """Return the distinct values of a column: as its categories are ordered, else sorted."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return [plain(value, f"column {name!r}") for value in series.cat.categories]
    try:
        distinct = series.dropna().unique()
    except TypeError:
        for value in series.dropna():
            plain(value, f"column {name!r}")
        raise
    return in_order(plain(value, f"column {name!r}") for value in distinct)


def _completed(name: Any, series: Any, kind: Kind) -> _Guess:
    """Return a kind that was given, completed by what the column holds."""
    if isinstance(kind, Categorical):
        return _completed_categories(name, series, kind)
    guessed = _guess(name, series, censored=True)
    if isinstance(guessed.kind, Categorical):
        raise TypeError(
            f"Expected column {name!r} to hold numbers or times, as {kind!r} says; got "
            f"{guessed.reason}. Convert the column, or declare it as Categorical()."
        )
    spread = family(guessed.dtype) != "number" or guessed.dtype.startswith("interval[")
    if isinstance(kind, Integer) and spread:
        raise TypeError(
            f"Expected column {name!r} to hold whole numbers, as {kind!r} says; got "
            f"{guessed.dtype}. Declare it as Continuous(resolution=...)."
        )
    if isinstance(guessed.kind, Integer) and not _whole(kind):
        dtype = _float_dtype(series)
        notes = () if dtype == guessed.dtype else (f"comes back as {dtype}",)
        return _Guess(kind, dtype, "given", notes)
    return _Guess(kind, guessed.dtype, "given", guessed.notes)


def _completed_categories(name: Any, series: Any, kind: Categorical) -> _Guess:
    values = _category_values(name, series) if kind.categories is None else kind.categories
    if not values:
        raise ValueError(
            f"Expected column {name!r} to hold a category; got only missing values. Give "
            "Categorical(categories=[...])."
        )
    dtype = name_of(series.dtype)
    if dtype.startswith("category[") or _holds(dtype, values):
        return _Guess(replace(kind, categories=values), dtype, "given")
    note = ("comes back as object",)
    return _Guess(replace(kind, categories=values), "object", "given", note)


def _holds(dtype: str, values: Sequence[Any]) -> bool:
    """Say whether a dtype holds all of some values unchanged."""
    try:
        held = pd.Series(list(values), dtype=object).astype(parse(dtype))
        return [plain(value, "it") for value in held] == list(values)
    except (ValueError, TypeError, OverflowError):
        return False


def _whole(kind: Kind) -> bool:
    """Say whether all values of a kind are whole numbers if those seen are."""
    step = getattr(kind, "resolution", None)
    return isinstance(kind, Integer) or (isinstance(step, float | int) and float(step).is_integer())


def _float_dtype(series: Any) -> str:
    """Return the float dtype for values that came as integers."""
    dtype = series.dtype
    if dtype.kind not in "iu":
        return name_of(dtype)
    return "float64" if isinstance(dtype, np.dtype) else "Float64"


def _float_inside(dtype: Any) -> str:
    """Return the name of an interval dtype, with floats for integers."""
    whole = dtype.subtype.kind in "iu"
    return f"interval[float64, {dtype.closed}]" if whole else name_of(dtype)


def _value_notes(kind: Kind, values: Any) -> tuple[str, ...]:
    """Return notes on what a column's exact values show: a value that repeats, or rounding."""
    if not isinstance(kind, Continuous) or kind.resolution is not None or len(values) < 20:
        return ()
    values = values[:: max(1, len(values) // _ROWS)]
    distinct, counts = np.unique(values, return_counts=True)
    notes = []
    if len(distinct) > 1:
        second, most = np.partition(counts, -2)[-2:]
        value = distinct[counts.argmax()]
        if most > 0.05 * len(values) and most > 3 * second and value not in kind.atoms:
            share = f"{100 * most / len(values):.0f} %"
            notes.append(f"{share} of rows are exactly {value:g}: consider atoms=({value:g},)")
    return (*notes, *_rounding(values, distinct))


def _rounding(values: Any, distinct: Any) -> tuple[str, ...]:
    """Note the decimal step of which all values are multiples, if values repeat."""
    whole = bool((np.rint(distinct) == distinct).all())
    if whole or len(distinct) < 3 or 2 * len(distinct) > len(values):
        return ()
    for digits in (1, 2, 3):
        scaled = distinct * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) < 1e-9 * np.maximum(1, np.abs(scaled))).all():
            step = f"{10.0**-digits:g}"
            return (f"multiples of {step} only: consider resolution={step}",)
    return ()
