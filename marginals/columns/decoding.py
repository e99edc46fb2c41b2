"""From the model's scale back to tables: `encoding` and `cell_reading`, backwards."""

import datetime
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from marginals.columns.axis import Flags, quiet
from marginals.columns.cell_reading import Floats, exact_time
from marginals.columns.dtypes import (
    UNITS,
    base,
    category_dtype,
    family,
    float_type,
    parse,
    unit,
    zone,
)
from marginals.columns.kinds import Categorical, Continuous, Integer
from marginals.columns.schema import Column, Name, Schema

__all__ = ["decode", "decode_column", "restored"]

_YEARS = (datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))  # the calendar of Python


def decode(schema: Schema, x: Tensor, columns: Any = None) -> Any:
    """Convert points (N, n) from the model's scale to a DataFrame.

    Names, dtypes and categories are as in the fitted table; NaN is missing. A column of intervals
    becomes intervals of zero width, which `encode` reads as exact values.

    Args:
        schema: the schema of the fitted table.
        x: points, one column for each of `columns`.
        columns: names or positions; None for all.
    """
    positions = schema.positions(columns)
    if x.ndim != 2 or x.shape[1] != len(positions):
        raise ValueError(
            f"Expected `x` to have shape (N, {len(positions)}), one per column; got "
            f"{tuple(x.shape)}. Select the same columns of both."
        )
    data = {i: _series(schema.columns[i], x[:, place]) for place, i in enumerate(positions)}
    frame = pd.DataFrame(data, index=pd.RangeIndex(len(x)))
    frame.columns = pd.Index([schema.names[i] for i in positions])
    return frame


def decode_column(schema: Schema, column: Name, values: Tensor) -> Any:
    """Convert points of any shape to an array of the column's values.

    A one-dimensional tensor gives an array of the column's numpy or pandas dtype. Any other shape
    gives a numpy array, of Python objects if numpy lacks the dtype. A column of intervals gives
    numbers.

    Args:
        schema: the schema of the fitted table.
        column: a name or position.
        values: points.
    """
    array = _decoded(schema[column], values.reshape(-1))
    return array if values.ndim == 1 else np.asarray(array).reshape(tuple(values.shape))


def _decoded(column: Column, values: Tensor) -> Any:
    model: Floats = values.detach().cpu().double().numpy()
    held = np.float32 if values.dtype == torch.float32 else np.float64
    with quiet():
        numbers = column.axis.numbers(model, held)
        return restored(column, numbers if column.rounding is None else column.rounding(numbers))


def _series(column: Column, values: Tensor) -> Any:
    array = _decoded(column, values)
    if isinstance(column.kind, Categorical) or not column.dtype.startswith("interval["):
        return pd.Series(array, dtype=array.dtype)
    closed = column.dtype.removesuffix("]").rsplit(", ", 1)[1]
    return pd.Series(pd.arrays.IntervalArray.from_arrays(array, array, closed))


# From numbers to values -------------------------------------------------------------------------


def restored(column: Column, numbers: Floats) -> Any:
    """Return numbers (N,) as an array of the column's dtype; NaN is missing."""
    missing = np.isnan(numbers)
    if isinstance(column.kind, Categorical):
        return _categories(column, np.where(missing, -1, numbers).astype(np.int64))
    if family(column.dtype) != "number":
        return _times(column, numbers, missing)
    dtype = parse(base(column.dtype))
    if isinstance(column.kind, Integer):
        return _integers(dtype, column.reference, numbers, missing)
    if dtype.kind in "iu":  # rounded to whole numbers
        return _integers(dtype, 0, numbers, missing)
    floats = _narrowed(numbers, float_type(column.dtype))
    return floats if dtype == floats.dtype else _as_dtype(floats.astype(object), missing, dtype)


def _narrowed(numbers: Floats, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Cast to a narrower float, to its largest instead of infinity."""
    most = float(np.finfo(dtype).max)
    return np.where(np.isinf(numbers), numbers, np.clip(numbers, -most, most)).astype(dtype)


def _as_dtype(values: npt.NDArray[Any], missing: Flags, dtype: Any) -> Any:
    """Cast Python objects; where a plain dtype has no missing value, as pandas would."""
    values[missing] = np.nan if dtype.kind == "O" else None
    if missing.any() and dtype.kind in "iub" and isinstance(dtype, np.dtype):
        dtype = np.dtype(object if dtype.kind == "b" else np.float64)
    try:
        array = pd.Series(values, dtype=object).astype(dtype).array
    except ValueError:  # intervals of integers, which have no missing value
        return values
    return array.to_numpy() if isinstance(dtype, np.dtype) else array


def _categories(column: Column, codes: npt.NDArray[np.int64]) -> Any:
    assert isinstance(column.kind, Categorical)
    categories = column.kind.categories or ()
    if column.dtype.startswith("category["):
        dtype = category_dtype(column.dtype, categories, column.ordered)
        return pd.Categorical.from_codes(codes, dtype=dtype)
    values = np.empty(len(categories) + 1, dtype=object)
    values[:-1] = categories
    return _as_dtype(values[codes], codes < 0, parse(column.dtype))


def _integers(dtype: Any, reference: int, numbers: Floats, missing: Flags) -> Any:
    if dtype.kind == "f":
        values = _narrowed(numbers + float(reference), float_type(str(dtype)))
        return values if dtype == values.dtype else _as_dtype(values.astype(object), missing, dtype)
    plain = getattr(dtype, "numpy_dtype", dtype)
    if plain.kind not in "iu":  # Python's own integers
        clipped = np.clip(np.where(missing, 0, numbers), *_reach(reference, None))
        values = clipped.astype(np.int64).astype(object) + reference
        return _as_dtype(values, missing, dtype)
    info = np.iinfo(plain)
    low, high = _reach(reference, (int(info.min), int(info.max)))
    away = np.clip(np.rint(np.where(missing, 0, numbers)), low, high).astype(np.int64)
    # Sums of uint64 wrap around, so that any that fits the dtype is right.
    exact = (away.view(np.uint64) + np.uint64(reference % 2**64)).astype(plain)
    far = np.abs(numbers) >= 2.0**63 - 2.0**14  # beyond int64, and the digits of a float
    if far.any():
        span = _inner(int(info.min), int(info.max))
        exact[far] = np.clip(numbers[far] + float(reference), *span).astype(plain)
    if isinstance(dtype, np.dtype):
        return np.where(missing, np.nan, exact) if missing.any() else exact
    array = pd.Series(exact).astype(_nullable(plain))
    array[missing] = pd.NA
    return array.astype(dtype).array


def _nullable(plain: np.dtype[Any]) -> str:
    return plain.name.capitalize().replace("Ui", "UI")


def _reach(reference: int, span: tuple[int, int] | None) -> tuple[float, float]:
    """Return the least and the greatest number to which the reference can be added."""
    most = 2**63 - 2**10  # the largest float that int64 holds
    low, high = (-most, most) if span is None else (side - reference for side in span)
    return _inner(max(low, -most), min(high, most))


def _inner(low: int, high: int) -> tuple[float, float]:
    """Return the least and the greatest float of a range of whole numbers."""
    least, greatest = float(low), float(high)
    return (
        least if int(least) >= low else float(np.nextafter(least, np.inf)),
        greatest if int(greatest) <= high else float(np.nextafter(greatest, -np.inf)),
    )


def _times(column: Column, numbers: Floats, missing: Flags) -> Any:
    name = unit(column.dtype)
    span = _calendar(name) if family(column.dtype) == "time" else (1 - 2**63, 2**63 - 1)
    low, high = _reach(column.reference, span)
    steps = np.clip(np.where(missing, 0, numbers), low / column.grain, high / column.grain)
    grains = np.floor(steps)
    units = np.rint((steps - grains) * column.grain).astype(np.int64)
    away = np.clip(grains.astype(np.int64) * column.grain + units, int(low), int(high))
    whole = np.clip(away + np.int64(column.reference), *_bounds(column))
    if family(column.dtype) == "span":
        values = whole.view(f"m8[{name}]")
        values[missing] = np.array("NaT", values.dtype)
        return pd.Series(values).array
    values = whole.view(f"M8[{name}]")
    values[missing] = np.array("NaT", values.dtype)
    own, series = zone(column.dtype), pd.Series(values)
    return (series if own is None else series.dt.tz_localize("UTC").dt.tz_convert(own)).array


def _bounds(column: Column) -> tuple[int, int]:
    """Return the first and the last time that the kind admits, in whole units."""
    kind, whole = column.kind, np.iinfo(np.int64)
    first, last = int(whole.min), int(whole.max)
    if not isinstance(kind, Continuous):  # few values, which need no bounds
        return first, last
    if kind.lower is not None:
        low = exact_time(column, kind.lower)
        first = math.ceil(low) if _attained(kind, kind.lower) else math.floor(low) + 1
    if kind.upper is not None:
        high = exact_time(column, kind.upper)
        last = math.floor(high) if _attained(kind, kind.upper) else math.ceil(high) - 1
    return first, last


def _attained(kind: Continuous, bound: Any) -> bool:
    return kind.resolution is not None or bound in kind.atoms


def _calendar(name: str) -> tuple[int, int]:
    """Return the first and the last time, in units, that Python's calendar and int64 hold."""
    epoch = datetime.datetime(1970, 1, 1)
    seconds = [round((year - epoch).total_seconds()) for year in _YEARS]
    low, high = (second * UNITS[name] for second in seconds)
    return max(low, -(2**63) + 2**40), min(high, 2**63 - 2**40)
