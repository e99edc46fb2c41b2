"""The columns and cells of a table that a model can judge."""

from typing import Any

import numpy as np
import pandas as pd

from marginals.cells import Evidence
from marginals.columns import Categorical, Column, Schema, encode
from marginals.columns.plain_values import plain
from marginals.columns.table_coercion import as_frame, check_names, column_of
from marginals.densities import Density


def comparable(schema: Schema, x: Any) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns of a table that can be compared with a model, and notes on the others."""
    table = as_frame(x, schema.names)
    names = check_names(table)
    kept = [name for name in names if name in schema.names]
    ranged = [n for n in kept if isinstance(table[n].dtype, pd.IntervalDtype)]
    ranged = [n for n in ranged if not schema.categories.get(schema.index(n))]
    own = [name for name in kept if name not in ranged]
    if not own or len(table) < 2:
        raise ValueError(
            "Expected a table with at least two rows and a column of the model, "
            f"{list(schema.names[:12])}; got {len(table)} rows and columns {names[:12]}. Give the "
            "table that was fitted, or rows like its own."
        )
    reasons = {
        "columns that the model does not have were left out": [n for n in names if n not in kept],
        "columns of intervals were left out": ranged,
        "the table lacks columns of the model": [n for n in schema.names if n not in names],
    }
    notes = [f"{reason}: {', '.join(map(str, n))}." for reason, n in reasons.items() if n]
    return pd.DataFrame({n: column_of(table, names.index(n)) for n in own}), notes


def known_values(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which categories that were not fitted are missing."""
    return pd.DataFrame({name: _known(schema[name], frame[name]) for name in frame.columns})


def known_cells(density: Density, schema: Schema, frame: pd.DataFrame) -> Evidence:
    """Encode a table; a category that was not fitted or a value out of bounds becomes missing."""
    return density.checked(encode(schema, known_values(schema, frame), strict="none").evidence)


def _known(column: Column, series: pd.Series) -> pd.Series:
    """Blank the categories that a column does not have."""
    if not isinstance(column.kind, Categorical):
        return series
    codes, distinct = pd.factorize(series)
    seen = [plain(value, f"column {column.name!r}") in column.codes for value in distinct]
    keep = np.array([*seen, True])[codes]  # -1 is missing
    return series if keep.all() else series.where(keep)
