"""Conditionals averaged over the members of a mixture."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density, in_batches
from marginals.densities.mixture import Mixture, draw_members
from marginals.densities.univariates import UnivariateMixture
from marginals.numerics import log_shares, logsumexp
from marginals.runtime.backend import QUERY, Backend


@final
class Averaged(Density):
    """A mixture whose conditionals are means of its members' conditionals.

    Given evidence, a mixture weighs each member by how likely it finds that evidence, so that one
    sharp member often answers alone. Here weights stay as they are, which is a better prediction
    where members are uncertain. Every conditional is a distribution, but different conditionals are
    not those of one joint: log values without evidence are the mixture's.

    Args:
        mixture: the mixture.
    """

    def __init__(self, mixture: Mixture) -> None:
        super().__init__()
        self.mixture = mixture

    @property
    def columns(self) -> int:
        """Number of columns D."""
        return self.mixture.columns

    @property
    def categories(self) -> tuple[int | None, ...]:
        """The number of categories of each column, None for a continuous one."""
        return self.mixture.categories

    @property
    def atoms(self) -> dict[int, tuple[float, ...]]:
        """The points with positive mass, by column."""
        return self.mixture.atoms

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        """Return the mixture's log value of each row of checked evidence, (B,)."""
        return self.mixture.contract(evidence, backend)

    def contract_given(
        self, requested: Evidence, given: Evidence, place: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the log values of requested rows given their evidence, and of the evidence."""
        members = self.mixture.densities
        values, log_given = (
            torch.stack(side, -1)
            for side in zip(
                *(m.contract_given(requested, given, place) for m in members), strict=True
            )
        )
        weights = self._weights(log_given)
        weights = weights if place is None else weights[place]
        values = torch.where(weights > -torch.inf, values, 0.0)  # (B, members)
        return logsumexp(values + weights), logsumexp(log_given + self.mixture.log_weights())

    def log_gain(self, evidence: Any, hidden: Tensor) -> Tensor:
        """Return the log value of hidden cells (B, n) of evidence given its other cells, (B,)."""
        gains = torch.stack([m.log_gain(evidence, hidden) for m in self.mixture.densities], -1)
        return logsumexp(gains + self.mixture.log_weights())

    def univariates(
        self, given: Any = None, columns: Sequence[int] | None = None
    ) -> UnivariateMixture:
        """Return p(x_j | the evidence on the other columns) for columns j, all by default."""
        found = self.mixture.univariates(given, columns)
        log_given = torch.stack([part.log_evidence for part in found.members], -1)
        averaged = self._weights(log_given).movedim(-1, 0)  # (members, B, n)
        out = UnivariateMixture(found.members, averaged, found.discrete)
        out.log_evidence = found.log_evidence
        return out

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw `draws` complete rows for each row of checked, possible evidence, (B, S, D)."""

        def log_given(part: Evidence) -> Tensor:
            return torch.stack([m.contract(part) for m in self.mixture.densities], -1)

        with torch.no_grad():
            weights = self._weights(in_batches(log_given, given, self.rows_at_once()))
            return draw_members(self.mixture.densities, weights, given, draws, generator)

    def row_cost(self, given: Evidence | None = None) -> int:
        """Return the number of floats that one row holds at a time."""
        return self.mixture.row_cost(given)

    def _weights(self, log_given: Tensor) -> Tensor:
        """Return the members' log weights (..., members): those that find evidence possible."""
        own = self.mixture.log_weights().to(log_given)
        return log_shares(torch.where(log_given > -torch.inf, own, -torch.inf))[0]


def averaged(density: Density) -> Density:
    """Return a mixture with averaged conditionals; any other density as it is."""
    return Averaged(density) if isinstance(density, Mixture) else density
