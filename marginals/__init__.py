"""Learn the joint distribution of a table, then ask it anything, in closed form."""

from importlib.metadata import PackageNotFoundError, version

from marginals.model import (
    NMDMA,
    Density,
    Evidence,
    Mixture,
    TensorDensity,
    build,
)
from marginals.model.files import load, save
from marginals.storage import FileError
from marginals.structure import Tree
from marginals.training import FitConfig, FitResult, fit

try:
    __version__ = version("marginals")
except PackageNotFoundError:  # run from a folder that was never installed
    __version__ = "0"

__all__ = [
    "NMDMA",
    "Density",
    "Evidence",
    "FileError",
    "FitConfig",
    "FitResult",
    "Mixture",
    "TensorDensity",
    "Tree",
    "build",
    "fit",
    "load",
    "save",
]
