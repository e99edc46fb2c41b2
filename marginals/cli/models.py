"""Models and tables as the commands need them."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns import Categorical, Schema
from marginals.columns.dtypes import base, family, parse
from marginals.io import tables
from marginals.language import parse_conditions, to_evidence

ROWS = 65_536  # read, worked on and written at a time


def load_model(path: str) -> Any:
    """Load a model with its schema."""
    from marginals.estimators.loading import load

    if not os.path.exists(path):
        raise FileNotFoundError(
            f"Expected a model at {path!r}; there is no such file. Make one with: "
            f"marginals fit data.csv -o {path}."
        )
    model = load(path)
    if not hasattr(model, "schema_"):
        raise ValueError(
            f"Expected {path!r} to hold a model of a table; got a bare {type(model).__name__}. "
            "Fit it with `marginals fit`, or save a `marginals.MDMA`."
        )
    return model


def evidence(model: Any, given: str) -> dict[Any, Any] | None:
    """Read conditions as evidence for a model; None if there are none."""
    return to_evidence(parse_conditions(given), model.schema_, given) or None


def format_for(path: str, format: str | None) -> str | None:
    """Return the format to read or write a path in: its suffix goes before `--format`."""
    if path == "-" or format is None:
        return format
    try:
        return tables.format_of(path)
    except tables.FrameError:
        return tables.format_of(path, format)


def table(
    model: Any, path: str, format: str | None, everything: bool = False
) -> Iterator[pd.DataFrame]:
    """Read a table in batches: the columns that the model knows, or all.

    Args:
        model: tells the types of the columns in text files.
        path: the file.
        format: the option of the command.
        everything: whether to keep columns that the model does not know.
    """
    kind = format_for(path, format)
    wanted = [str(name) for name in model.schema_.names]
    present = None if everything else tables.names(path, kind)
    chosen = None if present is None else [name for name in wanted if name in present]
    for frame in tables.batches(path, ROWS, kind, chosen, dtypes(model.schema_)):
        known = [name for name in frame.columns if str(name) in wanted]
        if not known:
            raise tables.FrameError(
                f"Expected {path!r} to have columns of the model; got none of {wanted[:20]}. "
                "Check the table's header."
            )
        yield renamed(frame if everything else frame[known], model.schema_)


def renamed(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Give columns the names that the model has; in files every name is text."""
    own = {str(name): name for name in schema.names if not isinstance(name, str)}
    return frame.rename(columns=own) if own else frame


def as_frame(model: Any, rows: Any) -> pd.DataFrame:
    """Return rows as a frame; a model that was fitted to an array gives arrays."""
    if isinstance(rows, pd.DataFrame):
        return rows
    return pd.DataFrame(np.asarray(rows), columns=[str(name) for name in model.schema_.names])


def dtypes(schema: Schema) -> dict[str, Any]:
    """Return the types of columns that a text file does not show: text, and times."""
    told: dict[str, Any] = {}
    for column in schema:
        if isinstance(column.kind, Categorical):
            if all(isinstance(value, str) for value in column.kind.categories or ()):
                told[str(column.name)] = str
        elif family(column.dtype) != "number":
            told[str(column.name)] = parse(base(column.dtype))
    return told
