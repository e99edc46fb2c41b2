"""Load the models and read the tables that commands are given."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from marginals.columns import Schema
    from marginals.io.stored_rows import StoredRows

ROWS = 65_536  # read, processed and written at a time
_COMMON = {bool: "boolean", int: "Int64", float: "float64"}  # the types of categories


def load_model(path: str, handle_unknown: str | None = None) -> Any:
    """Load the model of a table for queries, without scikit-learn.

    Args:
        path: of the model file.
        handle_unknown: how it reads categories not seen in training; None for as it was saved.
    """
    from marginals.queries.table_files import load_view

    model = _loaded(path, load_view)
    return model if handle_unknown is None else model.reading(handle_unknown)


def load_estimator(path: str) -> Any:
    """Load the model of a table with its settings and training history."""
    from marginals.estimators.loading import load

    return _loaded(path, load)


def _loaded(path: str, load: Callable[[str], Any]) -> Any:
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"Expected a model at {path!r}; there is no such file. Make one with: "
            f"marginals fit data.csv -o {path}."
        )
    model: Any = load(path)
    if not hasattr(model, "schema_"):
        raise ValueError(
            f"Expected {path!r} to hold a model of a table; got a bare {type(model).__name__}. "
            "Fit it with `marginals fit`, or save a `marginals.MDMA`."
        )
    return model


def evidence(model: Any, given: str) -> dict[Any, Any] | None:
    """Parse conditions as evidence for a model; None if there are none."""
    from marginals.language import parse_conditions, to_evidence

    return to_evidence(parse_conditions(given), model.schema_, given) or None


def read_table(path: str, format: str | None, schema: "Schema | None" = None) -> "pd.DataFrame":
    """Read a whole table; with a schema, give its columns the model's names."""
    from marginals.io import tables

    frame = tables.read(path, format)
    return frame if schema is None else renamed(frame, schema)


def table(
    model: Any, path: str, format: str | None, keep: Sequence[str] | None = ()
) -> Iterator[tuple["StoredRows", "pd.DataFrame"]]:
    """Read a table in batches: rows as the file stores them, and the model's columns of them.

    Args:
        model: Its schema gives the types of columns in text files.
        path: The file.
        format: The option `--format`.
        keep: Columns to read besides those of the model; None for all.
    """
    from marginals.io import tables

    own = [str(name) for name in model.schema_.names]
    present = None if keep is None else tables.names(path, format)
    wanted = None if present is None else [n for n in present if n in own or n in (keep or ())]
    types, start = dtypes(model.schema_), 0
    for rows in tables.stored(path, ROWS, format, wanted):
        shared = [name for name in rows.names if name in own]
        if not shared:
            raise ValueError(
                f"Expected {path!r} to have columns of the model; got none of {own[:20]}. "
                "Check the table's header."
            )
        with tables.explained(path, tables.format_of(path, format)):
            frame = rows.frame(shared, types)[shared]
        frame.index = range(start, start + len(rows))
        start += len(rows)
        yield rows, renamed(frame, model.schema_)


def renamed(frame: "pd.DataFrame", schema: "Schema") -> "pd.DataFrame":
    """Give columns the names in the model; in files every name is text."""
    own = {str(name): name for name in schema.names if not isinstance(name, str)}
    return frame.rename(columns=own) if own else frame


def named(
    names: Iterable[Any], texts: Iterable[str], option: str, what: str = "columns of the table"
) -> list[Any]:
    """Return those of `names` that an option lists; in commands every name is text."""
    from marginals.columns.plain_values import did_you_mean

    known = {str(name): name for name in names}
    wanted = [text.strip() for text in texts]
    for text in wanted:
        if text not in known:
            hint = did_you_mean(text, list(known))
            raise ValueError(f"Expected {option} to name {what}; got {text!r}. {hint}")
    return [known[text] for text in wanted]


def without(frame: "pd.DataFrame", ignore: list[str]) -> "pd.DataFrame":
    """Drop the columns that `--ignore` names."""
    return frame.drop(columns=named(frame.columns, ignore, "--ignore"))


def dtypes(schema: "Schema") -> dict[str, Any]:
    """Return the types of columns that a text file does not show: text and times."""
    from marginals.columns import Categorical
    from marginals.columns.dtypes import base, family, parse

    found: dict[str, Any] = {}
    for column in schema:
        if isinstance(column.kind, Categorical):
            if all(isinstance(value, str) for value in column.kind.categories or ()):
                found[str(column.name)] = str
        elif family(column.dtype) != "number":
            found[str(column.name)] = parse(base(column.dtype))
    return found


def written_dtypes(schema: "Schema") -> dict[str, Any]:
    """Return the types of the model's columns when a text file becomes Parquet, Arrow or JSON."""
    from marginals.columns import Categorical, Integer

    found = dict(dtypes(schema))
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
