"""Load the models and read the tables that commands are given."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from marginals.cli.options import Engine, Unknown

if TYPE_CHECKING:
    import pandas as pd

    from marginals.columns import Schema
    from marginals.io.stored_rows import StoredRows


@final
@dataclass(frozen=True)
class OnRay:
    """Where a job runs on Ray.

    Args:
        model: the address of the model's file.
        workers: the number of processes; None for one for each core or GPU.
    """

    model: str
    workers: int | None


def on_ray(model: str, engine: Engine, workers: int | None) -> OnRay | None:
    """Return how to run on Ray, or say how to install it; None for this process."""
    if engine is not Engine.ray:
        return None
    from marginals.engines.ray_cluster import ray_module

    ray_module()
    return OnRay(absolute(model), workers)


def absolute(path: str) -> str:
    """Return a path for processes in other folders; addresses stay as they are."""
    return path if "://" in path else os.path.abspath(path)


def load_model(path: str, handle_unknown: Unknown | None = None) -> Any:
    """Load the model of a table for queries, without scikit-learn.

    Args:
        path: of the model file.
        handle_unknown: how it reads categories not seen in training; None for as it was saved.
    """
    from marginals.queries.table_files import load_view

    model = _loaded(path, load_view)
    return model if handle_unknown is None else model.reading(handle_unknown.value)


def load_estimator(path: str) -> Any:
    """Load the model of a table with its settings and training history."""
    from marginals.estimators.loading import load

    return _loaded(path, load)


def _loaded(path: str, load: Callable[[str], Any]) -> Any:
    if "://" not in path and not os.path.exists(path):
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
    from marginals.engines.model_columns import renamed
    from marginals.io import tables

    frame = tables.read(path, format)
    return frame if schema is None else renamed(frame, schema)


def table(
    model: Any, path: str, format: str | None
) -> Iterator[tuple["StoredRows", "pd.DataFrame"]]:
    """Read a table in batches: rows as the file stores them, and the model's columns of them.

    Args:
        model: Its schema gives the types of columns in text files.
        path: The file.
        format: The option `--format`.
    """
    from marginals.engines import model_columns
    from marginals.io import tables

    own = [str(name) for name in model.schema_.names]
    present, start = tables.names(path, format), 0
    wanted = None if present is None else [name for name in present if name in own]
    for rows in tables.stored(path, model_columns.ROWS, format, wanted):
        with tables.explained(path, tables.format_of(path, format)):
            frame = model_columns.model_frame(model.schema_, rows, start)
        start += len(rows)
        yield rows, frame


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
