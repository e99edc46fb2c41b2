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
_MOST_LISTED = 1000  # values of a column that may determine another


def table_relations(frame: Any, columns: Sequence[Column]) -> list[str]:
    """Describe the columns that carry no information of their own; declared ones are meant."""
    if len(frame) > _ROWS:
        frame = frame.sample(_ROWS, random_state=0)
    numeric, discrete, identifiers = {}, {}, []
    for i, column in enumerate(columns):
        series = column_of(frame, i)
        if column.declared:
            continue
        if series.dtype.kind in "iuf" and not isinstance(column.kind, Categorical):
            numeric[column.name] = series.to_numpy(dtype=np.float64, na_value=np.nan)
        if column.listed is not None and len(column.listed) <= _MOST_LISTED:
            discrete[column.name] = pd.factorize(series)[0]
        if _is_identifier(column, series):
            identifiers.append(column.name)
    return find_relations(numeric, discrete, identifiers)


def about(relations: list[str]) -> str:
    """Return the text of the warning."""
    listed = "\n".join(f"- {text}." for text in relations)
    return (
        f"Some columns may carry no information of their own:\n{listed}\nDeclare the kinds of "
        "those that you keep in `columns`."
    )


def _is_identifier(column: Column, series: Any) -> bool:
    """Say whether each row has its own string, or whole numbers count the rows."""
    if series.isna().any() or not series.is_unique:
        return False
    if isinstance(column.kind, Categorical):
        return True
    whole = isinstance(column.kind, Integer) and series.dtype.kind in "iu"
    return whole and (
        series.is_monotonic_increasing or series.max() - series.min() == len(series) - 1
    )
