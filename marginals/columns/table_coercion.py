"""Frames, arrays and tensors as DataFrames, and the columns of a schema in them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from marginals.columns.schema import Name, Schema

__all__ = [
    "as_frame",
    "as_series",
    "check_names",
    "column_of",
    "input_frame",
    "matched",
    "row_of",
    "upper_columns",
    "value_of",
]


def as_frame(data: Any, names: Sequence[Name] | None = None) -> Any:
    """Return a DataFrame; the columns of an array are called `names`, else 0, 1, ...

    >>> as_frame(np.zeros((3, 2))).columns.tolist()
    [0, 1]
    """
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, Tensor):
        data = _numpy(data)
    if not isinstance(data, np.ndarray):
        raise TypeError(
            f"Expected a DataFrame, an array or a tensor; got {type(data).__name__}. Convert it "
            "with pd.DataFrame."
        )
    if data.ndim != 2:
        raise ValueError(
            f"Expected two dims, rows and columns; got shape {data.shape}. Reshape your data: one "
            "column with reshape(-1, 1), one row with reshape(1, -1)."
        )
    if names is not None and data.shape[1] != len(names):
        raise ValueError(
            f"Expected {len(names)} columns, as in the fitted table; got {data.shape[1]}. Give "
            "all of them, or a DataFrame with some by name."
        )
    return pd.DataFrame(data, columns=None if names is None else list(names))


def input_frame(x: Any) -> pd.DataFrame:
    """Return an estimator's input as a frame; errors have the wording that scikit-learn checks."""
    if isinstance(x, pd.DataFrame):
        return x
    if hasattr(x, "tocsr"):  # a scipy matrix or array
        raise TypeError("Expected a dense table; got a sparse one: sparse input is not supported.")
    array = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data using "
            "array.reshape(-1, 1) if it has a single column."
        )
    if array.shape[1] == 0:
        raise ValueError(f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: split it into real and imaginary parts.")
    return pd.DataFrame(array)


def as_series(values: Any) -> Any:
    """Return one column of values as a Series; a single value is a column of one."""
    if isinstance(values, pd.Series):
        return _dense(values.reset_index(drop=True).rename(None))
    if isinstance(values, Tensor):
        values = _numpy(values)
    if isinstance(values, np.ndarray) and values.ndim > 1:
        raise ValueError(f"Expected values in one dim; got shape {values.shape}. Ravel them.")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        values = values[()]
    if not pd.api.types.is_list_like(values):
        return pd.Series([values])
    # From a list with None, pandas makes floats of integers, and huge ones lose digits.
    listed = isinstance(values, list | tuple)
    integers = listed and pd.api.types.infer_dtype(values, skipna=True) == "integer"
    return _dense(pd.Series(values, dtype=object if integers else None))


def _numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach().cpu()
    # numpy has no bfloat16.
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


def column_of(frame: Any, position: int) -> Any:
    """Return a column as a dense Series."""
    return _dense(frame.iloc[:, position])


def _dense(series: Any) -> Any:
    if isinstance(series.dtype, pd.SparseDtype):
        return series.sparse.to_dense()
    return _from_arrow(series) if isinstance(series.dtype, pd.ArrowDtype) else series


def _from_arrow(series: Any) -> Any:
    """Return Arrow's times, decimals and dictionaries as pandas' own; other dtypes as they are."""
    inside = str(series.dtype.pyarrow_dtype)
    if inside.startswith(("timestamp", "date")):
        return pd.Series(pd.to_datetime(series.astype(object)), name=series.name)
    if inside.startswith("duration"):
        return pd.Series(pd.to_timedelta(series.astype(object)), name=series.name)
    if inside.startswith("decimal"):
        return series.astype("float64")
    listed = inside.startswith("dictionary")
    return series.astype(object).astype("category") if listed else series


def check_names(frame: Any) -> list[Name]:
    """Return the names of a frame's columns: distinct strings or whole numbers."""
    names = frame.columns.tolist()
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise TypeError(
                f"Expected column names to be strings or whole numbers; got {name!r}. Rename the "
                "columns."
            )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"Expected each column name once; got {twice[0]!r} twice. Rename one.")
    return list(names)


def matched(schema: Schema, data: Any, columns: Any = None) -> tuple[Any, tuple[int, ...]]:
    """Return a frame and, for each of its columns, the position in the schema.

    `columns` selects columns of a frame, and names those of an array.
    """
    chosen = None if columns is None else schema.positions(columns)
    if not isinstance(data, pd.DataFrame):
        names = schema.names if chosen is None else [schema.names[i] for i in chosen]
        frame = as_frame(data, names)
        return frame, schema.positions() if chosen is None else chosen
    positions = tuple(schema.index(name) for name in check_names(data))
    if chosen is None:
        return data, positions
    absent = [schema.names[i] for i in chosen if i not in positions]
    if absent:
        raise ValueError(
            f"Expected the requested columns to be in the frame; got none called {absent[0]!r}. "
            "Add it, or request fewer."
        )
    return data.iloc[:, [positions.index(i) for i in chosen]], chosen


def value_of(series: Any, position: int) -> Any:
    """Return a value as Python prints it, for errors."""
    value = series.iloc[position]
    times = np.datetime64 | np.timedelta64
    return value.item() if isinstance(value, np.generic) and not isinstance(value, times) else value


def row_of(series: Any, position: int) -> str:
    """Say where a value is, for errors: in a frame by its row's label."""
    if series.name is not None:
        return f" in row {series.index[position]!r}"
    return "" if len(series) == 1 else f" at position {position}"


def upper_columns(schema: Schema, frame: Any, upper: Any) -> dict[int, Any]:
    """Return the upper ends of a frame's columns, by their position in the schema."""
    upper = as_frame(upper, frame.columns.tolist())
    if len(upper) != len(frame):
        raise ValueError(
            f"Expected `upper` to have the {len(frame)} rows of the lower ends; got {len(upper)}. "
            "Give both for the same rows."
        )
    extra = [name for name in check_names(upper) if name not in frame.columns]
    if extra:
        raise ValueError(
            f"Expected `upper` to have columns of the lower ends; got {extra[0]!r}, which is none "
            "of them. Leave it out."
        )
    return {schema.index(name): column_of(upper, i) for i, name in enumerate(upper.columns)}
