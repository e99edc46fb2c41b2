"""Plots of fitted tables, with matplotlib: pip install "marginals[plot]"."""

from marginals.plotting.copula_plots import copula, tails
from marginals.plotting.dependence_plot import dependence
from marginals.plotting.graph_plot import graph
from marginals.plotting.marginal_plots import conditionals, marginal
from marginals.plotting.missingness_plot import missingness
from marginals.plotting.pair_plots import pairs
from marginals.plotting.synthesis_plot import plot_synthesis
from marginals.plotting.training_plot import training

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
