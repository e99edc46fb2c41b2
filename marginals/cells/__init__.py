"""Evidence about cells: exact values, intervals, sets, missing and impossible cells."""

from marginals.cells.evidence import Evidence, as_evidence

__all__ = ["Evidence", "as_evidence"]
