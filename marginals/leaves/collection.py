"""The leaves of a whole table: each column belongs to one family."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.cells.distinct_cells import DistinctCells, find_distinct
from marginals.cells.evidence import Evidence
from marginals.leaves.atoms import AtomLeaves
from marginals.leaves.categorical import CategoricalLeaves
from marginals.leaves.family import LeafEvaluation, LeafFamily
from marginals.leaves.neural import NeuralLeaves
from marginals.leaves.shared import SharedLeaves
from marginals.numerics import select
from marginals.runtime.backend import QUERY, Backend
from marginals.runtime.derived import Derived

FAMILIES: dict[str, Callable[..., LeafFamily]] = {
    "neural": NeuralLeaves,
    "atoms": AtomLeaves,
    "categorical": CategoricalLeaves,
    "shared": SharedLeaves,
}

# Rows from which on it pays to look for repeated intervals.
_WORTH_SEARCHING = 64
# Values of the CDF that are kept, at most.
_MOST_KEPT = 1 << 20


@final
class Leaves(nn.Module):
    """Families of leaves, each with its own columns of the table.

    Args:
        families: one family for each kind of column present.
        columns: for each family, the table's columns it serves, in the family's own order.

    >>> both = Leaves([NeuralLeaves(2, 4), CategoricalLeaves([3], 4)], [(0, 2), (1,)])
    >>> both.columns, both.width
    (3, 4)
    """

    def __init__(self, families: Sequence[LeafFamily], columns: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.families = nn.ModuleList(families)
        self.owned = tuple(tuple(owned) for owned in columns)
        self._place = {
            column: (family, position)
            for family, owned in enumerate(self.owned)
            for position, column in enumerate(owned)
        }
        self._cdfs = Derived(most=4)
        self._check()

    def _check(self) -> None:
        every = sorted(column for owned in self.owned for column in owned)
        if every != list(range(len(every))) or not every:
            raise ValueError(
                f"Expected `columns` to name each of 0..{len(every) - 1} once; got {self.owned}."
            )
        for family, owned in zip(self, self.owned, strict=True):
            if family.size[0] != len(owned):
                raise ValueError(
                    f"Expected {family.size[0]} columns for the {family.kind} leaves; got {owned}."
                )
        widths = {family.size[1] for family in self}
        if len(widths) > 1:
            raise ValueError(f"Expected all families to have one width; got {sorted(widths)}.")

    def __iter__(self) -> Any:
        return iter(self.families)

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return len(self._place)

    @property
    def width(self) -> int:
        """Number of components M."""
        return self.family_of(0)[0].size[1]

    def family_of(self, column: int) -> tuple[LeafFamily, int]:
        """Return the family of a column and the column's position in it."""
        family, position = self._place[column]
        module = self.families[family]
        assert isinstance(module, LeafFamily)
        return module, position

    @cached_property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        counts = {
            column: count
            for family, owned in zip(self, self.owned, strict=True)
            if isinstance(family, CategoricalLeaves)
            for column, count in zip(owned, family.categories, strict=True)
        }
        return tuple(counts.get(column) for column in range(self.columns))

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return {
            column: points
            for family, owned in zip(self, self.owned, strict=True)
            if isinstance(family, AtomLeaves)
            for column, points in zip(owned, family.atoms, strict=True)
        }

    def log_values(self, cells: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the log value of each cell under each component, (n, B, M); 0 where missing."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            return [_log_values(family, _of_family(cells, own, at), backend)]

        return self._gather(cells.columns, one)[0]

    def evaluate(self, x: Tensor, columns: Sequence[int]) -> LeafEvaluation:
        """Return log CDF, log survival and log density (or mass) at `x` (n, B)."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            out = family.evaluate(x[at], own)
            return [out.log_cdf, out.log_sf, out.log_density]

        return LeafEvaluation(*self._gather(columns, one))

    def cdf(self, x: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the CDF at `x` (n, B), (n, B, M), to absolute machine precision.

        Values at few points are kept: many queries ask for the same grid, given other evidence.
        """

        def made() -> Tensor:
            return self._gather(columns, lambda family, own, at: [family.cdf(x[at], own)])[0]

        if not x.is_cpu or x.numel() * self.width > _MOST_KEPT:
            return made()
        key = tuple(columns), x.shape, x.dtype, x.detach().contiguous().numpy().tobytes()
        return self._cdfs.get(key, [*self.parameters(), *self.buffers()], made)

    def invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return quantiles (n, B, Q) of mixtures of each column's leaves with weights (n, B, M)."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            return [family.invert(log_u[at], log_1mu[at], log_weights[at], own)]

        return self._gather(columns, one)[0]

    def rough_invert(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> Tensor:
        """Return points (n, B, Q) near the quantiles."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            return [family.rough_invert(log_u[at], log_1mu[at], log_weights[at], own).double()]

        return self._gather(columns, one)[0]

    def bracket(
        self, log_u: Tensor, log_1mu: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return ends (n, B, Q) between which quantiles lie, in float64."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            ends = family.bracket(log_u[at], log_1mu[at], log_weights[at], own)
            return [end.double() for end in ends]

        low, high = self._gather(columns, one)
        return low, high

    def tails(
        self, x: Tensor, log_weights: Tensor, columns: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density of mixtures (n, B, M) at x, (n, Q, B)."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            return list(family.tails(x[at], log_weights[at], own))

        below, above, density = self._gather(columns, one)
        return below, above, density

    def expect(
        self, function: Callable[[Tensor, Sequence[int]], Tensor], columns: Sequence[int]
    ) -> Tensor:
        """Return E f(X, columns) under each leaf, (n, M)."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            requested = [columns[i] for i in at]
            return [family.expect(lambda x: function(x, requested), own)]

        return self._gather(columns, one)[0]

    def sample(
        self, components: Tensor, cells: Evidence, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw from leaf `components[i, r]` of column i within the cell of each row, (n, B)."""

        def one(family: LeafFamily, own: list[int], at: list[int]) -> list[Tensor]:
            return [family.sample(components[at], _of_family(cells, own, at), generator)]

        return self._gather(cells.columns, one)[0]

    def _gather(
        self,
        columns: Sequence[int],
        function: Callable[[LeafFamily, list[int], list[int]], list[Tensor]],
    ) -> list[Tensor]:
        """Apply a function to each family's share of `columns`, and order the results."""
        shares: dict[int, list[int]] = {}
        for at, column in enumerate(columns):
            shares.setdefault(self._place[column][0], []).append(at)
        parts: list[list[Tensor]] = []
        order: list[int] = []
        for index, share in shares.items():
            family = self.families[index]
            assert isinstance(family, LeafFamily)
            own = [self._place[columns[at]][1] for at in share]
            parts.append(function(family, own, share))
            order += share
        if len(parts) == 1:
            return parts[0]
        back = sorted(range(len(order)), key=order.__getitem__)
        return [select(torch.cat(answers), back) for answers in zip(*parts, strict=True)]

    def row_cost(self) -> int:
        """Return the number of floats that evaluating one row holds at a time."""
        return sum(family.row_cost() for family in self)

    def config(self) -> dict[str, Any]:
        """Return the argument of `from_config`, as JSON."""
        return {
            "families": [{"kind": f.kind, **f.config()} for f in self],
            "columns": [list(owned) for owned in self.owned],
        }

    @staticmethod
    def from_config(config: dict[str, Any]) -> "Leaves":
        """Rebuild leaves from their configuration, without their parameters."""
        families = []
        for part in config["families"]:
            options = {key: option for key, option in part.items() if key != "kind"}
            families.append(FAMILIES[part["kind"]](**options))
        return Leaves(families, config["columns"])


def _of_family(cells: Evidence, own: list[int], at: list[int]) -> Evidence:
    """Return the cells at some places, under the family's own names of their columns."""
    chosen = cells.select([cells.columns[i] for i in at])
    return chosen.renamed(dict(zip(chosen.columns, own, strict=True)))


def _log_values(family: LeafFamily, cells: Evidence, backend: Backend) -> Tensor:
    """Return log values (n, B, M), evaluating each distinct cell once where they repeat."""
    groups = cells.distinct_cells
    worth = cells.has_intervals and len(cells) >= _WORTH_SEARCHING
    if not groups and worth and not (backend.host_free or cells.lower.is_cuda):
        groups = find_distinct(cells, len(cells) // 2, still=())
    if not groups:
        return family.log_values(cells, backend)
    order = [c for group in groups for c in group.columns]
    parts = [_spread(family, group, cells, backend) for group in groups]
    rest = [c for c in cells.columns if c not in order]
    if rest:
        parts.append(family.log_values(cells.select(rest), backend))
        order += rest
    if len(parts) == 1 and tuple(order) == cells.columns:
        return parts[0]
    return select(torch.cat(parts), [order.index(c) for c in cells.columns])


def _spread(family: LeafFamily, group: DistinctCells, cells: Evidence, backend: Backend) -> Tensor:
    """Return log values (n, B, M) of columns by their distinct cells, and their exact cells."""
    found = group.spread(family.log_values(group.table, backend))
    if not group.partial:
        return found
    inside = group.index >= 0  # (n, B)
    upper = cells.select(group.columns).upper
    x = torch.where(inside.T, torch.nan, upper)
    exact = family.log_values(Evidence(group.columns, x, x), backend)
    return torch.where(inside[..., None], found, exact)
