"""Densities: the paper's model, its variants, mixtures and views, and every query."""

from marginals.densities.autoregressive import sample_autoregressive
from marginals.densities.build import build
from marginals.densities.coupled import CoupledDensity
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nmdma import NMDMA
from marginals.densities.tensor_density import TensorDensity
from marginals.densities.torch_distribution import DensityDistribution
from marginals.densities.univariates import Univariates
from marginals.densities.view import View

__all__ = [
    "NMDMA",
    "CoupledDensity",
    "Density",
    "DensityDistribution",
    "Mixture",
    "TensorDensity",
    "Univariates",
    "View",
    "build",
    "sample_autoregressive",
]
