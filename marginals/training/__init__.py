"""Fit one model by maximum likelihood on any mix of exact, interval and missing cells."""

from marginals.training.config import FitConfig
from marginals.training.fit import fit
from marginals.training.result import FitError, FitResult, Record

__all__ = ["FitConfig", "FitError", "FitResult", "Record", "fit"]
