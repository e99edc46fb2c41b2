"""Univariates given as a table: the masses of a column's codes for each row of evidence."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation
from marginals.numerics import log_shares


@final
class CodeMasses(Univariates):
    """The distribution of one categorical column given each of B rows of evidence.

    Args:
        column: The column.
        log_masses: Log masses of its codes together with the evidence, (B, C).
    """

    def __init__(self, column: int, log_masses: Tensor) -> None:
        self.columns, self.discrete = (column,), (True,)
        self.log_masses, total = log_shares(log_masses)  # (B, C), which sum to one
        self.log_evidence = total[:, None]

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log mass at `x`, each (..., B, 1)."""
        below = self.log_masses.logcumsumexp(-1)
        above = self.log_masses.flip(-1).logcumsumexp(-1).flip(-1)  # of a code and those above
        last = self.log_masses.shape[1] - 1
        floor = x.floor().clamp(-1, last)
        nothing = torch.full_like(below[:, :1], -torch.inf)
        # All codes together are certain, not a sum that rounds to one.
        certain = torch.zeros_like(nothing)
        log_cdf = self._at(torch.cat([nothing, below[:, :-1], certain], 1), floor + 1)
        log_sf = self._at(torch.cat([certain, above[:, 1:], nothing], 1), floor + 1)
        mass = self._at(self.log_masses, floor.clamp_min(0))
        return LeafEvaluation(log_cdf, log_sf, torch.where(x == floor, mass, -torch.inf))

    @torch.no_grad()
    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return the smallest codes at which the CDF reaches u, (..., B, 1)."""
        shape = torch.broadcast_shapes(log_u.shape, self.log_evidence.shape)
        cumulative = self.log_masses.double().softmax(-1).cumsum(-1)
        # See `CategoricalLeaves.invert` for the margin.
        u = log_u.double().exp() * (1 - 8 * torch.finfo(self.log_masses.dtype).eps)
        levels = u.expand(shape)[..., 0].reshape(-1, shape[-2]).T.contiguous()  # (B, Q)
        code = torch.searchsorted(cumulative, levels).clamp_max(self.log_masses.shape[1] - 1)
        return code.T.reshape(shape).to(self.log_masses)

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, 1), an exact sum."""
        codes = torch.arange(self.log_masses.shape[1]).to(self.log_masses)
        return (function(codes[None], self.columns) * self.log_masses.exp()).sum(-1, keepdim=True)

    def take(self, place: int, rows: Tensor) -> "CodeMasses":
        """Return the distribution given some rows of evidence."""
        out = CodeMasses(self.columns[place], self.log_masses[rows])
        out.log_evidence = self.log_evidence[rows]
        return out

    def _at(self, table: Tensor, place: Tensor) -> Tensor:
        """Return values (B, C) at places (..., B, 1)."""
        shape = torch.broadcast_shapes(place.shape, self.log_evidence.shape)
        index = place.expand(shape).long()
        return table.expand(*shape[:-1], -1).gather(-1, index)
