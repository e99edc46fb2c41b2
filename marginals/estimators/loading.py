"""Load a model file: an estimator or a density."""

import os

from marginals.densities import Density
from marginals.estimators.mdma import MDMA, restore
from marginals.io.model_files import load_density
from marginals.io.safe_files import FileError, Path


def load(path: Path, device: str = "cpu") -> Density | MDMA:
    """Load a model file: an estimator if one was saved, else the density.

    Nothing in the file is executed. A file that is damaged or was written by another version
    raises `FileError`.

    Args:
        path: The file.
        device: Where to put the model.
    """
    density, extra = load_density(path, device)
    if extra.get("estimator") != "MDMA":
        return density
    try:
        model = restore(density, extra)
        counts = {i: c for i, c in enumerate(density.categories) if c is not None}
        fits = len(model.schema_) == density.columns and dict(model.schema_.categories) == counts
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
