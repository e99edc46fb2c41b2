"""Learn the joint distribution of a table, then ask it anything, in closed form."""

from importlib.metadata import PackageNotFoundError, version

from marginals.crossfit import CrossFit, cross_fit
from marginals.estimator import MDMA
from marginals.imputer import MDMAImputer
from marginals.loading import load
from marginals.model import (
    NMDMA,
    Density,
    Evidence,
    Mixture,
    TensorDensity,
    build,
)
from marginals.model.files import save
from marginals.outliers import MDMAOutlierDetector
from marginals.predictors import MDMAClassifier, MDMARegressor
from marginals.storage import FileError
from marginals.structure import Tree
from marginals.table import Categorical, Continuous, Integer
from marginals.training import FitConfig, FitResult, fit

try:
    __version__ = version("marginals")
except PackageNotFoundError:  # run from a folder that was never installed
    __version__ = "0"

__all__ = [
    "MDMA",
    "NMDMA",
    "Categorical",
    "Continuous",
    "CrossFit",
    "Density",
    "Evidence",
    "FileError",
    "FitConfig",
    "FitResult",
    "Integer",
    "MDMAClassifier",
    "MDMAImputer",
    "MDMAOutlierDetector",
    "MDMARegressor",
    "Mixture",
    "TensorDensity",
    "Tree",
    "build",
    "cross_fit",
    "fit",
    "load",
    "save",
]
