"""Each query once, over a density; column names become positions at the door (`named_rows`)."""

from marginals.queries.copula import Copula
from marginals.queries.estimate import Estimate
from marginals.queries.independence import (
    IndependenceResult,
    IndependenceTester,
    independence_test,
)
from marginals.queries.information import (
    InformationMatrix,
    entropy,
    mutual_information,
    mutual_information_matrix,
    pointwise_mutual_information,
    total_correlation,
)
from marginals.queries.outside_data import OutsideDataWarning
from marginals.queries.positions import draws_of
from marginals.queries.rank_correlation import RankCorrelations, rank_correlations
from marginals.queries.selectivity import Counts
from marginals.queries.table_density import TableDensity, TableView
from marginals.queries.uniforms import Uniforms

__all__ = [
    "Copula",
    "Counts",
    "Estimate",
    "IndependenceResult",
    "IndependenceTester",
    "InformationMatrix",
    "OutsideDataWarning",
    "RankCorrelations",
    "TableDensity",
    "TableView",
    "Uniforms",
    "draws_of",
    "entropy",
    "independence_test",
    "mutual_information",
    "mutual_information_matrix",
    "pointwise_mutual_information",
    "rank_correlations",
    "total_correlation",
]
