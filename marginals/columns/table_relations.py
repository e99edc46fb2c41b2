"""Which columns of a table carry no information of their own, in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.dtypes import family
from marginals.columns.kinds import Categorical, Integer
from marginals.columns.relations import find_relations
from marginals.columns.row_orders import find_orders
from marginals.columns.schema import Column
from marginals.columns.table_coercion import column_of

__all__ = ["about", "table_orders", "table_relations"]

_ROWS = 100_000  # examined
_LARGEST = 2.0**53  # larger whole numbers are not exact as floats
# Rows of independent columns that must break an order before it counts: fewer may obey by chance.
_BROKEN_BY_CHANCE, _MOST_ORDERED = 20, 300
_MOST_LISTED = 1000  # values of a column that may rename another


def table_relations(frame: Any, columns: Sequence[Column]) -> list[str]:
    """Describe the columns that carry no information of their own; declared ones are meant."""
    if len(frame) > _ROWS:
        frame = frame.iloc[np.sort(np.random.default_rng(0).permutation(len(frame))[:_ROWS])]
    numeric, discrete, identifiers = {}, {}, []
    for i, column in enumerate(columns):
        series = column_of(frame, i)
        if column.declared or isinstance(series.dtype, pd.IntervalDtype):
            continue
        values = codes = None
        if series.dtype.kind in "iuf" and not isinstance(column.kind, Categorical):
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
            if not (np.abs(values) >= _LARGEST).any():
                numeric[column.name] = values
        if column.listed is not None and len(column.listed) <= len(frame):
            codes = pd.factorize(series if values is None else values)[0]
        if codes is not None and len(column.listed or ()) <= _MOST_LISTED:
            discrete[column.name] = codes
        if _is_identifier(column, values, codes):
            identifiers.append(column.name)
    return find_relations(numeric, discrete, identifiers)


def table_orders(frame: Any, columns: Sequence[Column]) -> dict[Any, tuple[Any, ...]]:
    """Return for some columns the others that never exceed them, by name."""
    if len(frame) > _ROWS:
        frame = frame.iloc[np.sort(np.random.default_rng(0).permutation(len(frame))[:_ROWS])]
    names, values, kinds = [], [], []
    for i, column in enumerate(columns):
        series = column_of(frame, i)
        if not isinstance(column.kind, Categorical) and series.dtype.kind in "iufmM":
            names.append(column.name)
            values.append(_as_floats(series))
            kinds.append(family(column.dtype))
    if len(names) > _MOST_ORDERED:
        return {}
    found: dict[Any, tuple[Any, ...]] = {}
    for low, high in find_orders(values, kinds, _BROKEN_BY_CHANCE):
        found[names[high]] = (*found.get(names[high], ()), names[low])
    return found


def _as_floats(series: Any) -> Any:
    if series.dtype.kind in "mM":
        # Whole nanoseconds as floats may tie, but never change order.
        whole = series.to_numpy(dtype=f"{series.dtype.kind}8[ns]").astype(np.int64)
        return np.where(series.isna(), np.nan, whole.astype(np.float64))
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def about(relations: list[str]) -> str:
    """Return the text of the warning."""
    listed = "\n".join(f"- {text}." for text in relations)
    return (
        f"Some columns may carry no information of their own:\n{listed}\nDeclare the kinds of "
        "those that you keep in `columns`."
    )


def _is_identifier(column: Column, values: Any, codes: Any) -> bool:
    """Say whether most rows have their own string, or whole numbers count the rows."""
    if isinstance(column.kind, Categorical):
        return column.alone
    if not isinstance(column.kind, Integer) or values is None or np.isnan(values).any():
        return False
    distinct = np.unique(values)
    if len(distinct) < len(values):
        return False
    return bool((np.diff(values) > 0).all() or distinct[-1] - distinct[0] == len(values) - 1)
