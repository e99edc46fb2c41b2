"""What is known of a cell: exact, an interval, a set or missing."""

from marginals.cells.evidence import Evidence, as_evidence
from marginals.cells.leaf_cells import Cells, Truncation

__all__ = ["Cells", "Evidence", "Truncation", "as_evidence"]
