"""Log values of coupled cells under each normal component."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled_intervals import Tied, log_intervals, tie
from marginals.densities.coupled_lattices import Components, CoupledLattices
from marginals.leaves import SharedLeaves
from marginals.numerics import factors, index_of, select
from marginals.tensors.couplings import Couplings


@final
@dataclass(frozen=True)
class CoupledComponents:
    """The components of coupled columns.

    Args:
        family: the leaves, whose learned scales are used.
        couplings: weights and correlations.
        lattices: of the columns, which add a floor to the deviations.
        coupled: the columns, in the order of the family.
    """

    family: SharedLeaves
    couplings: Couplings
    lattices: CoupledLattices
    coupled: tuple[int, ...]

    def own(self, columns: Sequence[int]) -> list[int]:
        """Return the positions of coupled columns in their family."""
        return [self.coupled.index(c) for c in columns]

    def components(self, own: Sequence[int]) -> Components:
        """Return the components of some coupled columns, by their positions in the family."""
        loadings, unique = (select(part, own, 1) for part in self.couplings.loadings())
        location, log_scale = self.family.locations(own), self.family.log_scales(own)
        found = Components(location, log_scale, loadings, unique)
        if not any(self.coupled[i] in self.lattices.columns for i in own):
            return found
        return found.with_floor(select(self.lattices.log_floor(self.family, self.coupled), own))

    def log_complete(self, cells: Evidence, host_free: bool = False) -> Tensor:
        """Return the log value of coupled cells that are all exact, (B, K)."""
        own = self.own(cells.columns)
        y, log_slope = self.family.scale(cells.upper.T, own)
        parts = self.components(own)
        value = factors.log_density_of_rows(
            y.T,
            parts.location.T,
            parts.log_scale.T,
            parts.loadings,
            parts.unique,
            host_free=host_free,
        )
        return value + log_slope.sum(0)[:, None]

    def log_patterns(self, cells: Evidence, host_free: bool) -> Tensor:
        """Return the log value of coupled cells with few patterns of missing ones, (B, K)."""
        seen = ~cells.upper.isnan()  # (B, n)
        value = self.couplings.raw.new_zeros(len(cells), len(self.couplings.raw))
        for known in set(cells.patterns):
            if known:
                bits = index_of([int(c in known) for c in cells.columns], seen.device).bool()
                match = (seen == bits).all(1)
                # Rows with other patterns are computed too, then masked.
                some = cells.select([c for c in cells.columns if c in known])
                part = self.log_complete(some, host_free)
                value = torch.where(match[:, None], part, value)
        return value

    def tie(self, cells: Evidence) -> Tied:
        """Bring coupled cells onto the scale of their components' scores."""
        own = self.own(cells.columns)
        return tie(self.family, own, self.components(own), cells)

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
