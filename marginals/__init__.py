"""Learn the joint distribution of a table, then ask it anything, in closed form."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

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
from marginals.synthesis import synthesis_report
from marginals.table import Categorical, Continuous, Integer
from marginals.training import FitConfig, FitResult, fit

if TYPE_CHECKING:
    from marginals.causal import causal_graph

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
    "causal_graph",
    "cross_fit",
    "fit",
    "load",
    "save",
    "synthesis_report",
]


def __getattr__(name: str) -> Any:
    """Import what needs an optional package when it is asked for."""
    if name == "causal_graph":
        return import_module("marginals.causal").causal_graph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
