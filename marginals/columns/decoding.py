"""From the model's scale back to tables."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.columns.axes import axis
from marginals.columns.axis import quiet
from marginals.columns.cell_reading import Floats
from marginals.columns.cell_writing import restored
from marginals.columns.kinds import Categorical
from marginals.columns.schema import Column, Name, Schema

__all__ = ["decode", "decode_column"]


def decode(schema: Schema, x: Tensor, columns: Any = None) -> Any:
    """Return points (N, n) of the model's scale as a DataFrame of some columns, all by default.

    Names, dtypes and categories are those of the table fitted; NaN is missing. A column of
    intervals comes back as intervals without width, which `encode` reads as exact values.
    """
    positions = schema.positions(columns)
    if x.ndim != 2 or x.shape[1] != len(positions):
        raise ValueError(
            f"Expected `x` to have shape (N, {len(positions)}), a column for each asked for; got "
            f"{tuple(x.shape)}. Select the same columns of both."
        )
    data = {i: _series(schema.columns[i], x[:, place]) for place, i in enumerate(positions)}
    frame = pd.DataFrame(data, index=pd.RangeIndex(len(x)))
    frame.columns = pd.Index([schema.names[i] for i in positions])
    return frame


def decode_column(schema: Schema, column: Name, values: Tensor) -> Any:
    """Return points of any shape as an array of the column's values.

    One dim gives an array of the column's dtype, numpy's or pandas'; any other shape a numpy array,
    of Python objects where numpy has no such dtype. Of intervals, the numbers inside.
    """
    array = _decoded(schema[column], values.reshape(-1))
    return array if values.ndim == 1 else np.asarray(array).reshape(tuple(values.shape))


def _decoded(column: Column, values: Tensor) -> Any:
    model: Floats = values.detach().cpu().double().numpy()
    held = np.float32 if values.dtype == torch.float32 else np.float64
    with quiet():
        return restored(column, axis(column).numbers(model, held))


def _series(column: Column, values: Tensor) -> Any:
    array = _decoded(column, values)
    if isinstance(column.kind, Categorical) or not column.dtype.startswith("interval["):
        return pd.Series(array, dtype=array.dtype)
    closed = column.dtype.removesuffix("]").rsplit(", ", 1)[1]
    return pd.Series(pd.arrays.IntervalArray.from_arrays(array, array, closed))
