"""Guessing the kind of a column from its dtype and values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.dtypes import family, name_of, parse
from marginals.columns.kinds import Categorical, Continuous, Integer, Kind
from marginals.columns.plain_values import in_order, plain

__all__ = ["Guess", "category_values", "guess", "told", "value_notes"]

_LARGEST = 2.0**53  # up to here float64 holds every whole number
_ROWS = 100_000  # looked at for notes
_OBJECT_NUMBERS = {"integer": "whole numbers", "decimal": "decimals"} | dict.fromkeys(
    ("floating", "mixed-integer-float"), "numbers"
)


@dataclass(frozen=True)
class Guess:
    """A kind, the dtype that values come back with, why, and notes."""

    kind: Kind
    dtype: str
    reason: str
    notes: tuple[str, ...] = ()


def guess(name: Any, series: Any, censored: bool = False) -> Guess:
    """Guess the kind of a column; `censored` floats are never taken for integers."""
    dtype = series.dtype
    if isinstance(dtype, pd.IntervalDtype):
        return Guess(Continuous(), _float_inside(dtype), "intervals")
    if isinstance(dtype, pd.CategoricalDtype):
        if not len(dtype.categories):
            return _nothing_known("float64")
        return Guess(Categorical(list(dtype.categories)), name_of(dtype), "category")
    letter = dtype.kind
    if letter == "c":
        raise TypeError(
            f"Expected column {name!r} to hold real numbers; got {dtype}: complex data not "
            "supported. Split it into real and imaginary parts."
        )
    if letter == "b":
        return Guess(Categorical([False, True]), name_of(dtype), name_of(dtype))
    if letter in "iu":
        return Guess(Integer(), name_of(dtype), name_of(dtype))
    if letter in "mM":
        zone = getattr(dtype, "tz", None)
        moved = zone is not None and name_of(dtype) != str(dtype)
        notes = (f"comes back in UTC instead of {zone}",) if moved else ()
        return Guess(Continuous(), name_of(dtype), name_of(dtype), notes)
    if bool(series.isna().all()):
        return _nothing_known(name_of(dtype) if letter == "f" else "float64")
    if letter == "f":
        return _of_floats(series, name_of(dtype), censored)
    return _of_objects(name, series, censored)


def _nothing_known(dtype: str) -> Guess:
    return Guess(Continuous(), dtype, "no value seen", ("all values are missing: leave it out",))


def _of_floats(series: Any, dtype: str, censored: bool, holder: str = "") -> Guess:
    values = series.dropna().to_numpy(dtype=np.float64)
    whole = bool((np.rint(values) == values).all() and (np.abs(values) < _LARGEST).all())
    gaps = len(values) < len(series)
    if whole and gaps and not censored and len(np.unique(values)) >= 2:
        return Guess(Integer(), dtype, f"{holder or dtype} with gaps, whole numbers only")
    notes = ("whole numbers only: consider Integer()",) if whole and not censored else ()
    return Guess(Continuous(), dtype, holder or dtype, notes)


def _of_objects(name: Any, series: Any, censored: bool) -> Guess:
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
            return Guess(Integer(), dtype, holder)
        if found == "decimal":
            return Guess(Continuous(), "float64", holder, ("comes back as float64",))
        return _of_floats(series, dtype, censored, holder)
    if found == "boolean":
        return Guess(Categorical([False, True]), dtype, f"{dtype} with booleans only")
    values = category_values(name, series)
    noun = {"string": "strings", "date": "dates", "datetime": "times"}.get(found, "values")
    reason = f"{dtype} with {len(values)} distinct {noun}"
    notes = _category_notes(len(values), int(series.notna().sum()), found)
    return Guess(Categorical(values), dtype, reason, notes)


def _category_notes(count: int, rows: int, found: str) -> tuple[str, ...]:
    notes = []
    if found in ("date", "datetime"):
        notes.append("times as objects are categories: convert with pd.to_datetime")
    if count > 20 and count > rows / 2:
        notes.append(f"{count} categories in {rows} rows: leave it out if it is an identifier")
    return tuple(notes)


def category_values(name: Any, series: Any) -> list[Any]:
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


def told(name: Any, series: Any, kind: Kind) -> Guess:
    """Return a kind that was given, completed by what the column holds."""
    if isinstance(kind, Categorical):
        return _told_categories(name, series, kind)
    guessed = guess(name, series, censored=True)
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
        return Guess(kind, dtype, "given", notes)
    return Guess(kind, guessed.dtype, "given", guessed.notes)


def _told_categories(name: Any, series: Any, kind: Categorical) -> Guess:
    values = category_values(name, series) if kind.categories is None else kind.categories
    if not values:
        raise ValueError(
            f"Expected column {name!r} to hold a category; got only missing values. Give "
            "Categorical(categories=[...])."
        )
    dtype = name_of(series.dtype)
    if dtype.startswith("category[") or _holds(dtype, values):
        return Guess(Categorical(values), dtype, "given")
    return Guess(Categorical(values), "object", "given", ("comes back as object",))


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


def value_notes(kind: Kind, values: Any) -> tuple[str, ...]:
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
