"""Load a model file: an estimator or a density."""

from marginals.densities import Density
from marginals.estimators.mdma import MDMA, restore
from marginals.io.safe_files import Path
from marginals.queries.table_files import load_with


def load(path: Path, device: str = "cpu") -> Density | MDMA:
    """Load a model file: an estimator if one was saved, else the density.

    Nothing in the file is executed. A file that is damaged or was written by another version
    raises `FileError`.

    Args:
        path: The file.
        device: The device for the model.
    """
    return load_with(path, device, restore)
