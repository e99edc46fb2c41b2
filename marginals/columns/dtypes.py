"""The dtypes of columns as text, from which they are restored."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd

__all__ = [
    "CLOCK_CHANGES",
    "UNITS",
    "Family",
    "base",
    "category_dtype",
    "family",
    "float_type",
    "name_of",
    "parse",
    "unit",
    "zone",
]

Family = Literal["number", "time", "span"]
# A local time that clocks repeat is the first of the two; one that they skip is the next instant.
CLOCK_CHANGES: dict[str, Any] = {"ambiguous": True, "nonexistent": "shift_forward"}
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second


def name_of(dtype: Any) -> str:
    """Return the name of a pandas dtype; that of a category names the dtype of its categories.

    >>> name_of(pd.Series(["a", "b"], dtype="category").cat.set_categories([1, 2]).dtype)
    'category[int64]'
    """
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category[{name_of(dtype.categories.dtype)}]"
    try:
        pd.api.types.pandas_dtype(str(dtype))
    except (TypeError, AttributeError):  # a time zone without a name of its own
        return f"datetime64[{dtype.unit}, UTC]" if hasattr(dtype, "tz") else "object"
    return str(dtype)


def parse(name: str) -> Any:
    """Return the pandas dtype of a name; of a category, see `category_dtype`."""
    dtype = pd.api.types.pandas_dtype(name)
    text = isinstance(dtype, np.dtype) and dtype.kind == "U"  # "str" before pandas 3
    return np.dtype(object) if text else dtype


def category_dtype(name: str, categories: Sequence[Any], ordered: bool) -> Any:
    """Return the category dtype of a name such as "category[int64]"."""
    inner = name.removeprefix("category[").removesuffix("]")
    index = pd.Index(list(categories))
    try:
        fitting = pd.Index(list(categories), dtype=parse(inner))
    except (TypeError, ValueError):
        fitting = None
    # Categories that were given may not fit the dtype of those in the table.
    fits = fitting is not None and fitting.tolist() == index.tolist()
    return pd.CategoricalDtype(fitting if fits else index, ordered)


@cache
def base(name: str) -> str:
    """Return the dtype of the values inside of intervals, else the dtype itself.

    >>> base("interval[datetime64[ns, UTC], right]"), base("Int64")
    ('datetime64[ns, UTC]', 'Int64')
    """
    if not name.startswith("interval["):
        return name
    return name.removeprefix("interval[").rsplit(", ", 1)[0]


@cache
def family(name: str) -> Family:
    """Say whether a column that is not categorical holds numbers, times or durations."""
    inner = base(name)
    if inner.startswith("datetime64"):
        return "time"
    return "span" if inner.startswith("timedelta64") else "number"


@cache
def unit(name: str) -> str:
    """Return the unit of times and durations: "s", "ms", "us" or "ns"."""
    return base(name).split("[")[1].split(",")[0].rstrip("]")


@cache
def zone(name: str) -> Any:
    """Return the time zone of a column of times, None without one."""
    return getattr(parse(base(name)), "tz", None)


@cache
def float_type(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a column's floats; float64 unless the column has narrower ones."""
    dtype = parse(base(name))
    dtype = getattr(dtype, "numpy_dtype", dtype)
    narrow = dtype.kind == "f" and dtype.itemsize < 8
    return np.dtype(dtype) if narrow else np.dtype(np.float64)
