"""What is known of a cell: exact, an interval with open or closed ends, a set, a union, or missing.

`cell.py` holds single cells as users and query strings give them, `evidence.py` rows of cells as
densities take them.
"""

from marginals.cells.cell import AnyOf, Cell, Exact, Interval, OneOf, as_cell
from marginals.cells.evidence import Evidence, as_evidence

__all__ = ["AnyOf", "Cell", "Evidence", "Exact", "Interval", "OneOf", "as_cell", "as_evidence"]
