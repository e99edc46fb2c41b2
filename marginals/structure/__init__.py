"""Trees of column groups: frozen data, and the functions that build them."""

from marginals.structure.builders import balanced, coupled, flat, from_data, random
from marginals.structure.correlation import absolute_correlation
from marginals.structure.tree import Node, Tree

__all__ = [
    "Node",
    "Tree",
    "absolute_correlation",
    "balanced",
    "coupled",
    "flat",
    "from_data",
    "random",
]
