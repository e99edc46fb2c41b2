"""Learn the joint distribution of a table once, then query any columns given any others.

Names are imported when they are first used, so that `import marginals` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginals.causal import causal_graph
    from marginals.cells import Evidence
    from marginals.columns import (
        Categorical,
        Continuous,
        Discrete,
        Integer,
        Schema,
        SchemaWarning,
    )
    from marginals.densities import NMDMA, Density, Mixture, TensorDensity
    from marginals.densities.build import build
    from marginals.estimators.cross_fit import CrossFit, cross_fit
    from marginals.estimators.imputer import MDMAImputer
    from marginals.estimators.loading import load
    from marginals.estimators.mdma import MDMA
    from marginals.estimators.outlier_detector import MDMAOutlierDetector
    from marginals.estimators.predictors import MDMAClassifier, MDMARegressor
    from marginals.estimators.updating import UpdateResult
    from marginals.io.model_files import save
    from marginals.io.safe_files import FileError
    from marginals.queries import OutsideDataWarning, TableView
    from marginals.structure import Tree
    from marginals.synthesis import synthesis_report
    from marginals.training import FitConfig, FitResult, fit

    __version__: str

__all__ = [
    "MDMA",
    "NMDMA",
    "Categorical",
    "Continuous",
    "CrossFit",
    "Density",
    "Discrete",
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
    "OutsideDataWarning",
    "Schema",
    "SchemaWarning",
    "TableView",
    "TensorDensity",
    "Tree",
    "UpdateResult",
    "build",
    "causal_graph",
    "cross_fit",
    "fit",
    "load",
    "save",
    "synthesis_report",
]

# The module of each public name; a test compares it with the imports above.
_HOMES = {
    "causal": ["causal_graph"],
    "cells": ["Evidence"],
    "columns": ["Categorical", "Continuous", "Discrete", "Integer", "Schema", "SchemaWarning"],
    "densities": ["NMDMA", "Density", "Mixture", "TensorDensity"],
    "densities.build": ["build"],
    "estimators.cross_fit": ["CrossFit", "cross_fit"],
    "estimators.imputer": ["MDMAImputer"],
    "estimators.loading": ["load"],
    "estimators.mdma": ["MDMA"],
    "estimators.outlier_detector": ["MDMAOutlierDetector"],
    "estimators.predictors": ["MDMAClassifier", "MDMARegressor"],
    "estimators.updating": ["UpdateResult"],
    "io.model_files": ["save"],
    "io.safe_files": ["FileError"],
    "queries": ["OutsideDataWarning", "TableView"],
    "structure": ["Tree"],
    "synthesis": ["synthesis_report"],
    "training": ["FitConfig", "FitResult", "fit"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Public packages below the top: classes that methods return, and functions for experts.
_PACKAGES = (
    *("causal", "cells", "checking", "columns", "densities", "engines", "language", "leaves"),
    *("plotting", "queries", "sql", "structure", "synthesis", "training"),
)


def __getattr__(name: str) -> Any:
    """Import a public name or package when it is first used."""
    if name in _HOME_OF:
        found = getattr(import_module(f"marginals.{_HOME_OF[name]}"), name)
    elif name in _PACKAGES:
        found = import_module(f"marginals.{name}")
    elif name == "__version__":
        found = _version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("marginals")
    except PackageNotFoundError:  # run from a folder that was never installed
        return "0"
