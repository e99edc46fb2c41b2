"""Densities that are built of leaves."""

from marginals.densities.density import Density
from marginals.leaves import Leaves


class LeafDensity(Density):
    """A density over the columns of its leaves.

    Args:
        leaves: the univariate families of all columns.
    """

    def __init__(self, leaves: Leaves) -> None:
        super().__init__()
        self.leaves = leaves

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return self.leaves.columns

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        return tuple(self.leaves.categories(c) for c in range(self.columns))

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """By column, the points that have a mass of their own."""
        return self.leaves.atoms()
