"""Nonnegative tensors over the component indices of all columns, contracted in log space."""

from marginals.tensors.component_tensor import ComponentTensor
from marginals.tensors.cp import CPTensor
from marginals.tensors.full import FullTensor
from marginals.tensors.hierarchical import HierarchicalTensor

__all__ = ["CPTensor", "ComponentTensor", "FullTensor", "HierarchicalTensor"]
