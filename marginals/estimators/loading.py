"""Loading whatever a model file holds."""

import os

from marginals.densities import Density
from marginals.estimators.mdma import MDMA, restore
from marginals.io.container import FileError
from marginals.io.model_files import load_with_extra


def load(path: str | os.PathLike[str], device: str = "cpu") -> Density | MDMA:
    """Load a model file: an estimator if one was saved, else the density.

    Nothing in the file is executed; one that is damaged raises `FileError`.
    """
    density, extra = load_with_extra(path, device)
    if extra.get("estimator") != "MDMA":
        return density
    try:
        model = restore(density, extra)
        counts = {i: c for i, c in enumerate(density.categories) if c is not None}
        fits = len(model.schema_) == density.columns and dict(model.schema_.categories) == counts
    except Exception as error:
        # The content may be anything that has a right checksum, and fail anywhere.
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if not fits:
        raise _damaged(path, "the schema is not that of the density")
    return model


def _damaged(path: str | os.PathLike[str], cause: str) -> FileError:
    return FileError(
        f"Expected `path` to hold a model of a table; got {os.fspath(path)!r}, whose content does "
        f"not fit together ({cause[:300]}). Save the model again."
    )
