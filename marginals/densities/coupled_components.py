"""The normal components of coupled columns, and the matrices by which they answer for rows."""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from marginals.densities.coupled_lattices import CoupledLattices
from marginals.leaves import SharedLeaves
from marginals.numerics import factors, select
from marginals.numerics.regression import Regression
from marginals.runtime.derived import Derived
from marginals.tensors.couplings import Couplings


class Components(NamedTuple):
    """Normal components of n coupled columns on the learned scale."""

    location: Tensor  # (n, K)
    log_scale: Tensor  # (n, K)
    loadings: Tensor  # (K, n, r)
    unique: Tensor  # (K, n)

    def with_floor(self, log_floor: Tensor) -> "Components":
        """Add independent noise to each column, with log deviations (n,); -inf is none."""
        wide = 0.5 * torch.logaddexp(2 * self.log_scale, 2 * log_floor[:, None])
        kept = (self.log_scale - wide).exp().T  # (K, n)
        added = (2 * (log_floor[:, None] - wide)).exp().T
        return Components(
            self.location,
            wide,
            self.loadings * kept[..., None],
            self.unique * kept.square() + added,
        )

    def rows_first(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the same with components first: (K, n), (K, n), (K, n, r), (K, n)."""
        return self.location.T, self.log_scale.T, self.loadings, self.unique


@final
class ComponentMatrices:
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
