"""One cell of evidence in a dict: a value, a pair or a set."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.columns.cell_reading import codes_of
from marginals.columns.ends import check_closed
from marginals.columns.kinds import Categorical, Integer
from marginals.columns.schema import Column

__all__ = ["known_cell"]


def known_cell(column: Column, cell: Any) -> tuple[Any, Any, Tensor | None]:
    """Return a value, or the two ends, as Series of one; and of a set the mask (1, C)."""
    if isinstance(cell, Tensor | np.ndarray) and cell.ndim == 0:
        cell = cell.item() if isinstance(cell, Tensor) else cell[()]
    if isinstance(cell, set | frozenset | list):
        return _one(np.nan), None, _mask(column, cell)
    if isinstance(cell, pd.Interval) and not isinstance(column.kind, Categorical):
        check_closed(column, cell.closed)
        cell = (cell.left, cell.right)
    if isinstance(cell, tuple):
        if len(cell) != 2:
            raise TypeError(
                f"Expected a pair (low, high) for column {column.name!r}; got {cell!r}. Use None "
                "for an open end."
            )
        return _one(cell[0]), _one(cell[1]), None
    if not pd.api.types.is_scalar(cell) and not pd.api.types.is_hashable(cell):
        raise TypeError(
            f"Expected a value, a pair (low, high) or a set for column {column.name!r}; got "
            f"{type(cell).__name__}. For one piece of evidence per row, give a DataFrame."
        )
    return _one(cell), None, None


def _one(value: Any) -> Any:
    return pd.Series([np.nan if value is None else value])


def _mask(column: Column, values: Iterable[Any]) -> Tensor:
    if not isinstance(column.kind, Categorical):
        steps = isinstance(column.kind, Integer)
        meant = "all values after low up to high" if steps else "the values between"
        raise TypeError(
            f"Expected a value or a pair (low, high) for column {column.name!r}, which is not "
            f"categorical; got a set. Use a pair for {meant}, or declare the column as "
            "Categorical() when fitting."
        )
    listed = list(values)
    codes = codes_of(column, pd.Series(listed, dtype=object))
    if not listed or np.isnan(codes).any():
        raise ValueError(
            f"Expected the set for column {column.name!r} to hold categories; got {listed!r}. Name "
            "at least one, and none that is missing."
        )
    mask = torch.zeros(1, len(column.kind.categories or ()), dtype=torch.bool)
    mask[0, codes.astype(np.int64).tolist()] = True
    return mask
