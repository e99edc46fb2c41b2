"""Load the model of a table from a file, for queries alone."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from marginals.columns import Schema
from marginals.densities import Density
from marginals.io.model_files import load_density
from marginals.io.safe_files import FileError, Path
from marginals.queries.table_density import TableDensity, TableView

Model = TypeVar("Model", bound=TableDensity)


def load_view(path: Path, device: str = "cpu") -> Density | TableView:
    """Load a model file for queries: the distribution of a table, or a density without names.

    Unlike `marginals.load` it does not import scikit-learn, which takes longer than most queries.

    Args:
        path: the file.
        device: where to put the model.
    """
    return load_with(path, device, _view)


def load_with(
    path: Path,
    device: str,
    restore: Callable[[Density, Schema, Mapping[str, Any]], Model],
) -> Density | Model:
    """Load a model file and restore the model of a table from it; else return its density.

    Args:
        path: the file.
        device: where to put the model.
        restore: makes a model from the density, the schema and the JSON stored with them.
    """
    density, extra = load_density(path, device)
    if extra.get("estimator") != "MDMA":
        return density
    try:
        schema = Schema.from_dict(extra["schema"])
        model = restore(density, schema, extra)
        counts = {i: c for i, c in enumerate(density.categories) if c is not None}
        fits = len(schema) == density.columns and dict(schema.categories) == counts
        cause = "the schema is not that of the density"
    except Exception as error:
        # The content may be anything with a right checksum, and fail anywhere.
        fits, cause = False, f"{type(error).__name__}: {error}"
    if not fits:
        raise FileError(
            f"Expected `path` to hold a model of a table; got {os.fspath(path)!r}, whose content "
            f"does not fit together ({cause[:300]}). Save the model again."
        )
    return model


def _view(density: Density, schema: Schema, extra: Mapping[str, Any]) -> TableView:
    unknown = extra["params"].get("handle_unknown", "error")
    return TableView(density, schema.reading(unknown), str(extra["kind"]), int(extra["rows"]))
