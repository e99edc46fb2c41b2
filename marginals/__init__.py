"""Learn the joint distribution of a table, then ask it anything, in closed form."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from marginals.cells import Evidence
from marginals.columns import Categorical, Continuous, Integer
from marginals.densities import NMDMA, Density, Mixture, TensorDensity, build
from marginals.estimators.cross_fit import CrossFit, cross_fit
from marginals.estimators.imputer import MDMAImputer
from marginals.estimators.loading import load
from marginals.estimators.mdma import MDMA
from marginals.estimators.outlier_detector import MDMAOutlierDetector
from marginals.estimators.predictors import MDMAClassifier, MDMARegressor
from marginals.io.container import FileError
from marginals.io.model_files import save
from marginals.structure import Tree
from marginals.synthesis import synthesis_report
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
