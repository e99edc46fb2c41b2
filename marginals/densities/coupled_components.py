"""The normal components of coupled columns: their matrices, and log values of cells."""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled_intervals import Tied, log_intervals, tie
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.normal_components import Components
from marginals.leaves import SharedLeaves
from marginals.numerics import factors, index_of, select
from marginals.numerics.regression import Regression
from marginals.runtime.derived import Derived
from marginals.tensors.couplings import Couplings


class ComponentValues(NamedTuple):
    """Log values of evidence under each component."""

    loose: Tensor  # (n, B, K), of each column that is not coupled
    tied: Tensor  # (B, K), of all exact coupled cells together
    ranges: Tensor  # (B, K), of all coupled ranges given the exact coupled cells

    def total(self) -> Tensor:
        """Return the log value of everything, (B, K)."""
        return self.loose.sum(0) + self.tied + self.ranges


@final
class CoupledComponents:
    """Components of any columns with their matrices, kept from query to query; see `Derived`.

    Args:
        family: the leaves of the coupled columns.
        couplings: their correlations.
        lattices: which of them are lattices.
        coupled: their names in the table. All methods take positions in the family.
    """

    def __init__(
        self,
        family: SharedLeaves,
        couplings: Couplings,
        lattices: CoupledLattices,
        coupled: Sequence[int],
    ) -> None:
        self.family, self.couplings = family, couplings
        self.lattices, self.coupled = lattices, tuple(coupled)
        self._made = Derived()

    def own(self, columns: Sequence[int]) -> list[int]:
        """Return the positions of coupled columns in their family."""
        return [self.coupled.index(c) for c in columns]

    def of(self, own: Sequence[int]) -> Components:
        """Return the components of some columns."""
        return self._made.get(("of", tuple(own)), self._parameters(), lambda: self._make(own))

    def whitening(self, own: Sequence[int], host_free: bool = False) -> factors.Whitening:
        """Return what whitens complete rows of some columns."""

        def make() -> factors.Whitening:
            return factors.Whitening.of(*self.of(own).rows_first(), host_free=host_free)

        return self._made.get(("whitening", tuple(own)), self._parameters(), make)

    def conditional(
        self, x: Tensor, held: Sequence[int], asked: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return means (n, B, K) and log deviations (n, 1, K) of columns given others.

        Args:
            x: exact values of the given columns, (E, B).
            held: the given columns.
            asked: the n columns.
        """
        found = self._regression(held, asked)
        return found.mean(self.family.scale(x, held)[0].T), found.log_width

    def log_complete(self, cells: Evidence, host_free: bool = False) -> Tensor:
        """Return the log value of coupled cells that are all exact, (B, K)."""
        own = self.own(cells.columns)
        y, log_slope = self.family.scale(cells.upper.T, own)
        value = self.whitening(own, host_free).log_density(y.T)
        return value + log_slope.sum(0)[:, None]

    def log_patterns(self, cells: Evidence, host_free: bool) -> Tensor:
        """Return the log value of coupled cells with few patterns of missing ones, (B, K)."""
        seen = ~cells.upper.isnan()  # (B, n)
        value = self.couplings.raw.new_zeros(len(cells), len(self.couplings.raw))
        for known in set(cells.patterns):
            if not known:
                continue
            bits = index_of([int(c in known) for c in cells.columns], seen.device).bool()
            match = (seen == bits).all(1)
            some = cells.select([c for c in cells.columns if c in known])
            if host_free:  # rows with other patterns are computed too, then masked
                value = torch.where(match[:, None], self.log_complete(some, host_free), value)
                continue
            rows = match.nonzero()[:, 0]
            if len(rows):
                value = value.index_copy(0, rows, self.log_complete(some.rows(rows)))
        return value

    def tie(self, cells: Evidence) -> Tied:
        """Bring coupled cells onto the scale of their components' scores."""
        own = self.own(cells.columns)
        return tie(self.family, own, self.of(own), cells)

    def log_exact(self, tied: Tied, host_free: bool = False) -> Tensor:
        """Return the log density of the exact coupled cells under each component, (B, K)."""
        parts = (tied.scores, tied.loadings, tied.unique, tied.exact, tied.patterns)
        return factors.log_density(*parts, host_free=host_free) + tied.log_slope

    def log_ranges(self, tied: Tied, log_weights: Tensor) -> Tensor:
        """Return the log probability of ranges given the exact coupled cells, (B, K).

        The components have log weights (B, K) given all other evidence.
        """
        if tied.low is None:
            return torch.zeros_like(log_weights)
        return log_intervals(tied, log_weights).to(log_weights.dtype)

    def _regression(self, held: Sequence[int], asked: Sequence[int]) -> Regression:
        def make() -> Regression:
            return Regression.of(*self.of([*held, *asked]).rows_first(), given=len(held))

        return self._made.get(("regression", tuple(held), tuple(asked)), self._parameters(), make)

    def _make(self, own: Sequence[int]) -> Components:
        loadings, unique = (select(part, own, 1) for part in self.couplings.loadings())
        location, log_scale = self.family.locations(own), self.family.log_scales(own)
        found = Components(location, log_scale, loadings, unique)
        if not any(self.coupled[i] in self.lattices.columns for i in own):
            return found
        return found.with_floor(select(self.lattices.log_floor(self.family, self.coupled), own))

    def _parameters(self) -> list[Tensor]:
        """Return everything that the components depend on."""
        family, couplings, lattices = self.family, self.couplings, self.lattices
        found: list[Tensor] = [family.centres, family.spreads]
        found += [couplings.own, couplings.common, couplings.log_scale]
        if lattices.columns:
            found += [*family.learned.state(), lattices.probes, lattices.probe_widths]
        return found
