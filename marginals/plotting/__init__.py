"""Pictures of fitted tables. They need matplotlib: pip install "marginals[plot]"."""

from marginals.plotting.copula_plots import copula, tails
from marginals.plotting.course import training
from marginals.plotting.gaps import missingness
from marginals.plotting.heat import dependence
from marginals.plotting.matrix import pairs
from marginals.plotting.network import graph
from marginals.plotting.one import conditionals, marginal
from marginals.plotting.synthesis import plot_synthesis

__all__ = [
    "conditionals",
    "copula",
    "dependence",
    "graph",
    "marginal",
    "missingness",
    "pairs",
    "plot_synthesis",
    "tails",
    "training",
]
