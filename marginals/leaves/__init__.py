"""Univariate families: for column j and component k, a distribution phi_kj."""

from marginals.leaves.atoms import AtomLeaves
from marginals.leaves.categorical import CategoricalLeaves
from marginals.leaves.collection import Leaves
from marginals.leaves.family import LeafEvaluation, LeafFamily
from marginals.leaves.neural import NeuralLeaves
from marginals.leaves.shared import SharedLeaves

__all__ = [
    "AtomLeaves",
    "CategoricalLeaves",
    "LeafEvaluation",
    "LeafFamily",
    "Leaves",
    "NeuralLeaves",
    "SharedLeaves",
]
