"""Each question about a density or a table, once."""

from marginals.queries.copula import Copula
from marginals.queries.estimate import Estimate
from marginals.queries.independence import IndependenceResult, independence_test, independence_tests
from marginals.queries.independence_tester import IndependenceTester
from marginals.queries.information import (
    InformationMatrix,
    entropy,
    folded_information,
    folded_information_matrix,
    mutual_information,
    mutual_information_matrix,
    pointwise_mutual_information,
    total_correlation,
)
from marginals.queries.rank_correlation import RankCorrelations, rank_correlations
from marginals.queries.table_copula import TableCopula
from marginals.queries.table_density import TableDensity, TableView
from marginals.queries.uniforms import Uniforms

__all__ = [
    "Copula",
    "Estimate",
    "IndependenceResult",
    "IndependenceTester",
    "InformationMatrix",
    "RankCorrelations",
    "TableCopula",
    "TableDensity",
    "TableView",
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
