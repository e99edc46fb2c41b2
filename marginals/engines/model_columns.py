"""The model's columns in rows as a file stores them: which they are, and their types in text."""

from typing import Any

import pandas as pd

from marginals.columns import Categorical, Integer, Schema
from marginals.columns.dtypes import base, family, parse
from marginals.io.stored_rows import StoredRows

ROWS = 65_536  # read, processed and written at a time
_COMMON = {bool: "boolean", int: "Int64", float: "float64"}  # the types of categories


def model_frame(schema: Schema, rows: StoredRows, start: int = 0) -> pd.DataFrame:
    """Return the model's columns of stored rows, under the model's names.

    Args:
        schema: of the model. It gives the types of columns in text files.
        rows: as the file stores them.
        start: the number of the first row, from which the index counts.
    """
    own = {str(name) for name in schema.names}
    shared = [name for name in rows.names if name in own]
    if not shared:
        raise ValueError(
            f"Expected the table to have columns of the model, {sorted(own)[:20]}; got none of "
            f"them in {list(rows.names)[:20]}. Check the table's header."
        )
    frame = rows.frame(shared, text_dtypes(schema))[shared]
    frame.index = pd.RangeIndex(start, start + len(rows))
    return renamed(frame, schema)


def renamed(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Give columns the names in the model; in files every name is text."""
    own = {str(name): name for name in schema.names if not isinstance(name, str)}
    return frame.rename(columns=own) if own else frame


def text_dtypes(schema: Schema) -> dict[str, Any]:
    """Return the types of columns that a text file does not show: text and times."""
    found: dict[str, Any] = {}
    for column in schema:
        if isinstance(column.kind, Categorical):
            if all(isinstance(value, str) for value in column.kind.categories or ()):
                found[str(column.name)] = str
        elif family(column.dtype) != "number":
            found[str(column.name)] = parse(base(column.dtype))
    return found


def written_dtypes(schema: Schema) -> dict[str, Any]:
    """Return the types of the model's columns when a text file becomes Parquet, Arrow or JSON."""
    found = dict(text_dtypes(schema))
    for column in schema:
        name = str(column.name)
        if isinstance(column.kind, Categorical):
            types = {type(value) for value in column.kind.categories or ()}
            found.setdefault(name, _COMMON.get(next(iter(types)), str) if len(types) == 1 else str)
        elif isinstance(column.kind, Integer):
            found.setdefault(name, "UInt64" if column.dtype.lower() == "uint64" else "Int64")
        else:
            found.setdefault(name, "float64")
    return found
