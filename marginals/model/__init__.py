"""Densities: the paper's model, its variants, views, mixtures, and everything they are asked."""

from marginals.model.autoregressive import sample_autoregressive
from marginals.model.build import build
from marginals.model.copula import CopulaDensity
from marginals.model.density import Density
from marginals.model.distribution import DensityDistribution
from marginals.model.evidence import Evidence
from marginals.model.mixture import Mixture
from marginals.model.nmdma import NMDMA
from marginals.model.tensor_density import TensorDensity
from marginals.model.univariate import Univariates
from marginals.model.view import View

__all__ = [
    "NMDMA",
    "CopulaDensity",
    "Density",
    "DensityDistribution",
    "Evidence",
    "Mixture",
    "TensorDensity",
    "Univariates",
    "View",
    "build",
    "sample_autoregressive",
]
