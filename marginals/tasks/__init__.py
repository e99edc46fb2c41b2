"""What a density is asked beyond probabilities: information and independence.

All of it needs an abstract `Density` and column positions, no more.
"""

from marginals.tasks.estimate import Estimate
from marginals.tasks.independence import IndependenceResult, independence_test
from marginals.tasks.information import (
    InformationMatrix,
    entropy,
    mutual_information,
    mutual_information_matrix,
    pointwise_mutual_information,
    total_correlation,
)

__all__ = [
    "Estimate",
    "IndependenceResult",
    "InformationMatrix",
    "entropy",
    "independence_test",
    "mutual_information",
    "mutual_information_matrix",
    "pointwise_mutual_information",
    "total_correlation",
]
