"""Which columns of a table carry no information of their own, in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.kinds import Categorical, Integer
from marginals.columns.relations import find_relations
from marginals.columns.schema import Column
from marginals.columns.table_coercion import column_of

__all__ = ["about", "table_relations"]

_ROWS = 100_000  # examined
_LARGEST = 2.0**53  # larger whole numbers are not exact as floats
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
