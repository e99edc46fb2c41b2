"""Pictures of fitted tables. They need matplotlib: pip install "marginals[plot]"."""

from marginals.plotting.course import training
from marginals.plotting.gaps import missingness
from marginals.plotting.heat import dependence
from marginals.plotting.matrix import pairs
from marginals.plotting.one import conditionals, marginal

__all__ = ["conditionals", "dependence", "marginal", "missingness", "pairs", "training"]
