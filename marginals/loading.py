"""Loading whatever a model file holds."""

import os

from marginals.estimator import MDMA, restore
from marginals.model import Density
from marginals.model.files import load_with_extra


def load(path: str | os.PathLike[str], device: str = "cpu") -> Density | MDMA:
    """Load a model file: an estimator if one was saved, else the density."""
    density, extra = load_with_extra(path, device)
    return restore(density, extra) if extra and extra.get("estimator") == "MDMA" else density
