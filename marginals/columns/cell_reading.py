"""Values of a column as numbers: times as steps from a reference, categories as codes."""

import re
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.columns.dtypes import CLOCK_CHANGES, UNITS, family, float_type, unit, zone
from marginals.columns.kinds import Categorical, Continuous, Discrete, Integer
from marginals.columns.plain_values import plain, shown
from marginals.columns.schema import Column
from marginals.columns.table_coercion import row_of, value_of

__all__ = ["Floats", "exact_time", "number_of", "numbers", "whole_parts"]

Floats = npt.NDArray[np.float64]
_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal"}
_EXACT = 2.0**63 - 2.0**14  # integers this close to the reference are subtracted exactly
_ZONE = re.compile(r":.*(Z|[+-]\d\d(:?\d\d)?)$")  # of a time in text
_BEYOND = (pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta)
_LISTED = 8  # categories shown in an error


def numbers(column: Column, series: Any) -> Floats:
    """Return a Series as float64, NaN where missing, counted from the column's reference."""
    if isinstance(column.kind, Categorical):
        return _codes(column, series)
    if bool(series.isna().all()):
        return np.full(len(series), np.nan)
    if family(column.dtype) == "number":
        return _plain_numbers(column, series)
    values, missing, factor = _times(column, series)
    away = _minus(values, column.reference * factor, column.grain * factor)
    return np.where(missing, np.nan, away)


def number_of(column: Column, value: Any) -> float:
    """Return a single value as a number; NaN if missing."""
    if isinstance(column.kind, Categorical):
        return _code(column, value)
    if family(column.dtype) == "number":
        number = _plain_number(column, value)
        if number is not None:
            return number
    return float(numbers(column, pd.Series([value]))[0])


# Numbers --------------------------------------------------------------------------------------


def _plain_number(column: Column, value: Any) -> float | None:
    """Return a number as `numbers` would, without a Series; None for any other value."""
    reference = column.reference if isinstance(column.kind, Integer) else 0
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        whole = int(value)
        return float(whole - reference) if abs(whole) < 2**63 else None
    if isinstance(value, float | np.floating):
        return float(_to_declared(column, np.array(value, dtype=np.float64))) - reference
    return None


def _plain_numbers(column: Column, series: Any) -> Floats:
    kind = series.dtype.kind
    reference = column.reference if isinstance(column.kind, Integer) else 0
    if kind in "iu":
        missing = series.isna().to_numpy(dtype=bool)
        raw = series.to_numpy(dtype=np.uint64 if kind == "u" else np.int64, na_value=0)
        return np.where(missing, np.nan, _minus(raw, reference))
    if kind == "f":
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return _to_declared(column, values) - reference
    if kind != "O" or isinstance(series.dtype, pd.CategoricalDtype):
        _refuse(column, "numbers", series)
    return _objects(column, series, reference)


def _objects(column: Column, series: Any, reference: int) -> Floats:
    known = series.notna().to_numpy(dtype=bool)
    values = series.to_numpy(dtype=object)
    if pd.api.types.infer_dtype(values[known]) not in _NUMBERS:
        wrong = (i for i in np.flatnonzero(known).tolist() if not _is_number(values[i]))
        _refuse(column, "numbers", series, next(wrong, None))
    result = np.full(len(values), np.nan)
    try:
        # As Python's own numbers, which do not overflow.
        plain_values = (v.item() if isinstance(v, np.generic) else v for v in values[known])
        result[known] = [float(value - reference) for value in plain_values]
    except OverflowError:
        raise ValueError(
            f"Expected column {column.name!r} to hold numbers within reach of floats; got one "
            "beyond 1e308. Rescale the column."
        ) from None
    return _to_declared(column, result)


def _is_number(value: Any) -> bool:
    return pd.api.types.infer_dtype([value]) in _NUMBERS


def _minus(values: npt.NDArray[Any], reference: int, step: int = 1) -> Floats:
    """Count steps from a reference: exactly, unless the difference is beyond what int64 holds."""
    rough = values.astype(np.float64) - float(reference)
    if step > _EXACT:
        return rough / step
    # Arithmetic of uint64 wraps around, so the difference is right whenever it fits into int64.
    wrapped = values.astype(np.uint64) - np.uint64(reference % 2**64)
    whole, rest = np.divmod(wrapped.view(np.int64), np.int64(step))
    return np.where(np.abs(rough) < _EXACT, whole + rest / step, rough / step)


def _to_declared(column: Column, values: Floats) -> Floats:
    """Set values that are a declared one, rounded to the column's float32, to it."""
    kind, dtype = column.kind, float_type(column.dtype)
    if dtype == np.float64 or not isinstance(kind, Continuous | Discrete):
        return values
    listed = kind.atoms if isinstance(kind, Continuous) else kind.values or ()
    for special in (kind.lower, kind.upper, *listed):
        if special is not None:
            held = float(np.asarray(special).astype(dtype))
            values = np.where(values == held, float(special), values)
    return values


# Times ----------------------------------------------------------------------------------------


def whole_parts(column: Column, series: Any) -> npt.NDArray[np.int64]:
    """Return the times or durations that are not missing in whole units of the column."""
    values, missing, factor = _times(column, series)
    return values[~missing] // factor


def exact_time(column: Column, value: Any) -> Fraction:
    """Return a single time or duration in units of the column."""
    values, _, factor = _times(column, pd.Series([value]))
    return Fraction(int(values[0]), factor)


def _times(column: Column, series: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], int]:
    """Return values in a fine unit, which are missing, and how many make a unit of the column."""
    code = "M" if family(column.dtype) == "time" else "m"
    if series.dtype.kind != code:
        series = _parsed_times(column, series) if code == "M" else _parsed_spans(column, series)
    elif code == "M":
        _check_zone(column, series.dt.tz is not None)
    own = max(series.dt.unit, unit(column.dtype), key=lambda name: UNITS[name])
    try:
        values = series.dt.as_unit(own).to_numpy(dtype=f"{code}8[{own}]", na_value=None)
    except _BEYOND:
        _refuse_beyond(column)
    return values.view(np.int64), np.isnat(values), UNITS[own] // UNITS[unit(column.dtype)]


def _refuse_beyond(column: Column) -> NoReturn:
    raise ValueError(
        f"Expected column {column.name!r} to hold values within reach of {column.dtype}; got one "
        "beyond. Use a coarser unit, such as seconds, when fitting."
    ) from None


def _check_zone(column: Column, aware: bool) -> None:
    own = zone(column.dtype)
    if aware == (own is not None):
        return
    have, remedy = ("a", "tz_convert(None)") if aware else ("no", f"tz_localize({str(own)!r})")
    raise TypeError(
        f"Expected column {column.name!r} to hold {column.dtype}; got times with {have} time zone. "
        f"Use {remedy}."
    )


def _parsed_spans(column: Column, series: Any) -> Any:
    found = pd.api.types.infer_dtype(series.dropna())
    if found not in ("string", "timedelta", "timedelta64"):
        _refuse(column, "durations", series)
    try:
        return pd.to_timedelta(series.astype(object))
    except _BEYOND:
        _refuse_beyond(column)
    except ValueError:
        _refuse(column, "durations such as '1 days 02:00:00'", series)


def _parsed_times(column: Column, series: Any) -> Any:
    """Read times from text or Python objects; text without a time zone is in the column's own."""
    found = pd.api.types.infer_dtype(series.dropna())
    if found not in ("string", "datetime", "datetime64", "date"):
        _refuse(column, "times", series)
    objects = series.astype(object).reset_index(drop=True)
    aware = objects.map(_has_zone)
    own = zone(column.dtype)
    if own is None or found in ("datetime", "datetime64"):
        _check_zone(column, bool(aware[objects.notna()].any()))
    try:
        # Apart, as some versions of pandas read one in the zone of the other.
        zoned, local = (
            pd.to_datetime(part, format="ISO8601", utc=True)
            for part in (objects[aware], objects[~aware])
        )
    except _BEYOND:
        _refuse_beyond(column)
    except ValueError:
        _refuse(column, "times such as '2024-05-17 08:00'", series)
    local = local.dt.tz_localize(None)
    if own is None:
        return local
    local = local.dt.tz_localize(own, **CLOCK_CHANGES)
    return pd.concat([zoned, local.dt.tz_convert("UTC")]).sort_index()


def _has_zone(time: Any) -> bool:
    if isinstance(time, str):
        return _ZONE.search(time) is not None
    return getattr(time, "tzinfo", None) is not None


# Categories -----------------------------------------------------------------------------------


def _codes(column: Column, series: Any) -> Floats:
    """Return the codes of categories, NaN where missing."""
    try:
        found, distinct = pd.factorize(series)
    except TypeError:
        _refuse_unhashable(column, series)
    values = [plain(value, f"column {column.name!r}") for value in distinct]
    codes = np.array([column.codes.get(value, -1) for value in values] + [-1])[found]
    unseen = (codes < 0) & (found >= 0)
    if unseen.any():
        _refuse_unseen(column, series, int(unseen.argmax()))
    return np.where(found < 0, np.nan, codes.astype(np.float64))


def _code(column: Column, value: Any) -> float:
    found = plain(value, f"column {column.name!r}")
    if found is None:
        return np.nan
    code = column.codes.get(found)
    if code is None:
        _refuse_unseen(column, pd.Series([value], dtype=object), 0)
    return float(code)


def _refuse_unhashable(column: Column, series: Any) -> NoReturn:
    for value in series:
        if not pd.api.types.is_hashable(value):
            plain(value, f"column {column.name!r}")
    raise TypeError(f"Expected column {column.name!r} to hold plain values; got {series.dtype}.")


def _refuse_unseen(column: Column, series: Any, position: int) -> NoReturn:
    assert isinstance(column.kind, Categorical)
    categories = column.kind.categories or ()
    listed = ", ".join(shown(category) for category in categories[:_LISTED])
    more = f" and {len(categories) - _LISTED} more" if len(categories) > _LISTED else ""
    raise ValueError(
        f"Expected column {column.name!r} to hold one of {listed}{more}; got "
        f"{shown(value_of(series, position))}{row_of(series, position)}. Leave the cell missing, "
        "or list the category with Categorical(categories=[...]) when fitting."
    )


def _refuse(column: Column, expected: str, series: Any, position: int | None = None) -> NoReturn:
    if position is None:
        position = int(series.notna().to_numpy(dtype=bool).argmax())
    raise TypeError(
        f"Expected column {column.name!r} ({column.dtype}) to hold {expected}; got "
        f"{shown(value_of(series, position))} ({series.dtype}){row_of(series, position)}. Convert "
        "the column, or declare it as Categorical() when fitting."
    )
