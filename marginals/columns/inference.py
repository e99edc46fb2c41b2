"""From a table to its schema: guess what each column is, and place it on the model's scale."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.axis import quiet
from marginals.columns.cell_reading import whole_parts
from marginals.columns.column_axis import standardised
from marginals.columns.dtypes import UNITS, family, name_of, parse, unit
from marginals.columns.encoded_cells import Ends
from marginals.columns.encoding import check_possible, read_ends
from marginals.columns.guesses import shown_by_numbers, shown_by_times, smooth_numbers
from marginals.columns.kinds import Categorical, Continuous, Discrete, Integer, Kind
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.plain_values import in_order, plain
from marginals.columns.reference_point import both_ends, referred
from marginals.columns.relations import SchemaWarning
from marginals.columns.rounding import Rounding
from marginals.columns.schema import Column, Name, Schema
from marginals.columns.table_coercion import as_frame, check_names, column_of, row_of, upper_columns
from marginals.columns.table_relations import about, table_orders, table_relations
from marginals.columns.table_scales import with_lines

__all__ = ["infer"]

_LARGEST = 2**53  # up to here float64 holds every whole number
_ROWS = 100_000  # examined for notes
_OBJECT_NUMBERS = {"integer": "whole numbers", "decimal": "decimals"} | dict.fromkeys(
    ("floating", "mixed-integer-float"), "numbers"
)


def infer(
    frame: Any,
    given: Mapping[Name, Kind] | None = None,
    upper: Any = None,
    guess: bool | str = True,
    unknown: str = "error",
) -> Schema:
    """Infer the kind of each column of a table, and its map to the model's scale.

    The kind follows from the dtype. With `guess`, the values refine it if at least 30 are observed:
    few values that all repeat become a table of probabilities; a grid becomes a lattice; values
    that repeat more often than a smooth density allows become atoms; and values that pile up, or
    are never negative, get bounds. A `SchemaWarning` names columns that repeat others. With
    `guess="smooth"`, all these numbers are continuous, and returned values and quantiles are
    rounded to values like those in the table.

    Args:
        frame: a DataFrame, array or tensor.
        given: kinds declared for some columns; these are not inferred.
        upper: the upper ends of censored cells, if `frame` holds the lower ends. Columns with such
            cells have the kind of their dtype.
        guess: whether to use values as well as dtypes; "smooth" models all numbers as smooth.
        unknown: how to treat a category that a kind does not list; see `Schema.reading`.

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
    if guess not in (True, False, "smooth"):
        raise ValueError(f"Expected `guess` to be True, False or 'smooth'; got {guess!r}.")
    blank = Schema(tuple(Column(name, Continuous(), "float64", "") for name in names))
    kinds = {names[blank.index(name)]: _kind(name, kind) for name, kind in (given or {}).items()}
    high = {} if upper is None else upper_columns(blank, frame, upper)
    with quiet():
        columns = [
            _column(name, column_of(frame, i), kinds.get(name), high.get(i), guess, unknown)
            for i, name in enumerate(names)
        ]
        if guess:
            columns = with_lines(columns, frame, high)
        related = bool(guess) and len(columns) > 1
        relations = table_relations(frame, columns) if related else []
        if related and upper is None:
            above = table_orders(frame, columns)
            columns = [
                replace(column, above=above[column.name]) if column.name in above else column
                for column in columns
            ]
    if relations:
        warnings.warn(about(relations), SchemaWarning, stacklevel=3)
    return Schema(tuple(columns))


def _kind(name: Name, kind: Any) -> Kind:
    if isinstance(kind, Kind):
        return kind
    remedy = f"Write {kind.__name__}()." if isinstance(kind, type) else "Give one of these."
    raise TypeError(
        f"Expected the kind of column {name!r} to be Continuous(...), Integer(...), "
        f"Discrete(...) or Categorical(...); got {kind!r}. {remedy}"
    )


def _column(
    name: Name, series: Any, kind: Kind | None, upper: Any, guess: bool | str, unknown: str
) -> Column:
    if kind is not None:
        found = _completed(name, series, kind)
    else:
        found = _guessed(name, series, upper)
        if guess and _exact(series, upper):
            found = _with_values(name, found, series, guess == "smooth")
    column = Column(name, found.kind, found.dtype, found.reason, notes=found.notes)
    column = replace(column, rounding=found.rounding)
    if isinstance(column.kind, Categorical):
        own = isinstance(series.dtype, pd.CategoricalDtype) and bool(series.dtype.ordered)
        alone = not column.declared and any("identifier" in note for note in column.notes)
        column = replace(column, ordered=own or column.kind.ordered, alone=alone)
        # Raises for a value that is none of the categories.
        read_ends(replace(column, unknown=unknown), series, upper)
        return column
    _check_units(column)
    column = referred(replace(column, offset=found.offset or 0.0), series, upper, found.offset)
    _check_atoms(column)
    ends = read_ends(column, series, upper)
    _check_values(column, series, ends)
    column = standardised(column, both_ends(ends))
    _check_intervals(column, series, ends)
    exact = ends.low[(ends.low == ends.high) & np.isfinite(ends.low)]
    if family(column.dtype) != "number" or found.looked:
        return column
    return replace(column, notes=column.notes + _value_notes(column, exact))


def _check_units(column: Column) -> None:
    """Refuse bounds, atoms or a resolution of another kind than the column's values."""
    kind, values = column.kind, family(column.dtype)
    spans: Any = {"number": int | float, "time": pd.Timestamp, "span": pd.Timedelta}[values]
    assert not isinstance(kind, Categorical)
    given = [("lower", kind.lower), ("upper", kind.upper)]
    if isinstance(kind, Discrete):
        given = [("values", value) for value in kind.values or ()]
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


def _check_atoms(column: Column) -> None:
    """Refuse atoms of a rounded column that are not among its values."""
    line = column.axis
    if not isinstance(line, LatticeAxis) or isinstance(column.kind, Integer) or not line.points:
        return
    off = line.only(np.array(line.points))
    wrong = off[0] > off[1]
    if wrong.any():
        atom = column.kind.atoms[int(wrong.argmax())]  # type: ignore[union-attr]
        raise ValueError(
            f"Expected `atoms` of column {column.name!r} to lie on its grid; got {atom!r}. Leave "
            "it out, or choose another `resolution`."
        )


def _check_values(column: Column, series: Any, ends: Ends) -> None:
    check_possible(column.axis, series, ends)
    huge = np.isfinite(ends.low) & (np.abs(ends.low + column.reference) > _LARGEST)
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


# Guesses ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Guess:
    """A kind, the dtype that values come back with, why, and notes.

    `offset` is where an inferred grid starts, `looked` whether values were looked at. `rounding` is
    how numbers of a smooth column become values.
    """

    kind: Kind
    dtype: str
    reason: str
    notes: tuple[str, ...] = ()
    offset: float | None = None
    looked: bool = False
    rounding: Rounding | None = None


def _exact(series: Any, upper: Any) -> bool:
    """Say whether no cell is censored."""
    if upper is None:
        return True
    if any(getattr(side.dtype, "kind", "") not in "iuf" for side in (series, upper)):
        return bool(series.reset_index(drop=True).equals(upper.reset_index(drop=True)))
    low, high = (side.to_numpy(dtype=np.float64, na_value=np.nan) for side in (series, upper))
    return bool(np.array_equal(low, high, equal_nan=True))


def _with_values(name: Name, found: _Guess, series: Any, smooth: bool) -> _Guess:
    """Refine a guess from the dtype by what the values show; numbers may have to be smooth."""
    kind, dtype = found.kind, found.dtype
    if (
        isinstance(kind, Categorical | Discrete)
        or dtype == "object"
        or dtype.startswith("interval[")
    ):
        return found
    if family(dtype) == "number":
        values = series.dropna().to_numpy(dtype=np.float64)
        values = values[np.isfinite(values)]
        shown = (smooth_numbers if smooth else shown_by_numbers)(kind, values, dtype)
    else:
        whole = whole_parts(Column(name, Continuous(), dtype, ""), series)
        shown = shown_by_times(whole, UNITS[unit(dtype)])
    if shown is None:
        return found
    notes = tuple(note for note in found.notes if not note.startswith("whole numbers only"))
    reason = "; ".join((found.reason, *shown.reasons))
    notes += shown.notes
    return _Guess(shown.kind, dtype, reason, notes, shown.offset, True, shown.rounding)


def _guessed(name: Any, series: Any, upper: Any) -> _Guess:
    """Guess the kind of a column from the cells of both frames.

    A column without censored cells has the kind that it has without `upper`.
    """
    sides = [series] if upper is None else [series, upper]
    if len(sides) < 2 or any(getattr(side.dtype, "kind", "") not in "iuf" for side in sides):
        return _guess(name, series)
    if _exact(series, upper):
        return _guess(name, series)
    low, high = (side.to_numpy(dtype=np.float64, na_value=np.nan) for side in sides)
    finite = [values[np.isfinite(values)] for values in (low, high)]
    whole = all(bool((np.rint(values) == values).all()) for values in finite)
    integers = [side for side in sides if side.dtype.kind in "iu"]
    if integers and whole:  # the other side is a float where it is infinite
        return _guess(name, integers[0], censored=True)
    return _guess(name, series.astype(parse(_float_dtype(series))), censored=True)


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
        notes.append(
            f"{count} categories in {rows} rows, independent of all other columns: leave it out if "
            "it is an identifier, or declare it"
        )
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
    if isinstance(kind, Discrete) and kind.values is None:
        kind = Discrete(_occurring(name, series))
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


def _occurring(name: Any, series: Any) -> tuple[Any, ...]:
    """Return the distinct values of a discrete column."""
    if not series.notna().any():
        raise ValueError(
            f"Expected column {name!r} to hold a value; got only missing values. Give "
            "Discrete(values=[...])."
        )
    return tuple(plain(value, f"column {name!r}") for value in series.dropna().unique())


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
    if isinstance(kind, Discrete):
        return all(
            isinstance(value, int | float) and float(value).is_integer()
            for value in kind.values or ()
        )
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


def _value_notes(column: Column, values: Any) -> tuple[str, ...]:
    """Note what a column's exact values show: rounding, or a value that repeats.

    Only one is advised. A rounded or integer column needs no atoms: each of its values has a mass.
    """
    kind = column.kind
    if not isinstance(kind, Continuous) or kind.resolution is not None or len(values) < 20:
        return ()
    values = values[:: max(1, len(values) // _ROWS)]
    distinct, counts = np.unique(values, return_counts=True)
    step = _rounding(values, distinct)
    if step is not None:
        instead = " instead of atoms" if kind.atoms else ""
        return (f"multiples of {step} only: consider resolution={step}{instead}",)
    if len(distinct) < 2 or any("Integer()" in note for note in column.notes):
        return ()
    second, most = np.partition(counts, -2)[-2:]
    value = distinct[counts.argmax()]
    if not (most > 0.05 * len(values) and most > 3 * second and value not in kind.atoms):
        return ()
    share = f"{100 * most / len(values):.0f} %"
    listed = ", ".join(f"{atom:g}" for atom in sorted({*kind.atoms, float(value)}))
    listed = listed if kind.atoms else f"{listed},"
    return (f"{share} of rows are exactly {value:g}: consider atoms=({listed})",)


def _rounding(values: Any, distinct: Any) -> str | None:
    """Return the decimal step of which all values are multiples, if values repeat."""
    whole = bool((np.rint(distinct) == distinct).all())
    if whole or len(distinct) < 3 or 2 * len(distinct) > len(values):
        return None
    for digits in (1, 2, 3):
        scaled = distinct * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) < 1e-9 * np.maximum(1, np.abs(scaled))).all():
            return f"{10.0**-digits:g}"
    return None
