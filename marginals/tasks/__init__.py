"""What a density is asked beyond probabilities: information and independence.

All of it needs an abstract `Density` and column positions, no more.
"""

from marginals.tasks.copula import Copula
from marginals.tasks.copula_ranks import RankCorrelations, rank_correlations
from marginals.tasks.estimate import Estimate
from marginals.tasks.independence import IndependenceResult, independence_test, independence_tests
from marginals.tasks.information import (
    InformationMatrix,
    entropy,
    folded_information,
    folded_information_matrix,
    mutual_information,
    mutual_information_matrix,
    pointwise_mutual_information,
    total_correlation,
)
from marginals.tasks.uniforms import Uniforms

__all__ = [
    "Copula",
    "Estimate",
    "IndependenceResult",
    "InformationMatrix",
    "RankCorrelations",
    "Uniforms",
    "entropy",
    "folded_information",
    "folded_information_matrix",
    "independence_test",
    "independence_tests",
    "mutual_information",
    "mutual_information_matrix",
    "pointwise_mutual_information",
    "rank_correlations",
    "total_correlation",
]
