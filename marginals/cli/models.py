"""Load the models and read the tables that commands are given."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from marginals.columns import Schema

ROWS = 65_536  # read, processed and written at a time


def load_model(path: str) -> Any:
    """Load the model of a table for queries, without scikit-learn."""
    from marginals.queries.table_files import load_view

    return _loaded(path, load_view)


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
    model = load(path)
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
    model: Any, path: str, format: str | None, everything: bool = False
) -> Iterator["pd.DataFrame"]:
    """Read a table in batches: the columns of the model, or all.

    Args:
        model: Its schema gives the types of columns in text files.
        path: The file.
        format: The option `--format`.
        everything: Whether to keep columns that the model does not have.
    """
    from marginals.io import tables

    own = [str(name) for name in model.schema_.names]
    present = None if everything else tables.names(path, format)
    chosen = None if present is None else [name for name in own if name in present]
    for frame in tables.batches(path, ROWS, format, chosen, dtypes(model.schema_)):
        shared = [name for name in frame.columns if str(name) in own]
        if not shared:
            raise ValueError(
                f"Expected {path!r} to have columns of the model; got none of {own[:20]}. "
                "Check the table's header."
            )
        yield renamed(frame if everything else frame[shared], model.schema_)


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
