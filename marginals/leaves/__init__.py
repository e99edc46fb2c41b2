"""Univariate families: for column j and component k, a distribution phi_kj."""

from marginals.leaves.atoms import AtomLeaves
from marginals.leaves.base import Cells, LeafEvaluation, LeafFamily, Truncation
from marginals.leaves.categorical import CategoricalLeaves
from marginals.leaves.columns import Leaves
from marginals.leaves.neural import NeuralLeaves
from marginals.leaves.shared import SharedLeaves

__all__ = [
    "AtomLeaves",
    "CategoricalLeaves",
    "Cells",
    "LeafEvaluation",
    "LeafFamily",
    "Leaves",
    "NeuralLeaves",
    "SharedLeaves",
    "Truncation",
]
