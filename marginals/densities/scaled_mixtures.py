"""Univariates of coupled columns: mixtures of normals, with weights, centres and widths per row."""

import math
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation, SharedLeaves
from marginals.leaves.learned_scale import invert_mixture
from marginals.numerics import log_normal_cdf, log_normal_density, logsumexp

_NODES, _WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(48))
# Points of the table by which the learned scale is inverted for expectations.
_TABLE = 4097
# Components of one row whose nodes are held at once; bounds the memory.
_AT_ONCE = 1 << 16


@final
class ScaledMixtures(Univariates):
    """p(x_j | e_b) = sum_k w_kjb N(g_j(x_j); centre_kjb, width_kjb) g_j'(x_j).

    Args:
        family: the leaves, whose learned scales g_j are used.
        own: the columns' positions in the family.
        columns: what they are called.
        log_weights: up to a constant for each column and row, (n, B, M); their sums are the log
            value of the evidence. (1, B, M) are the same for all columns.
        centre: on the learned scale, (n, B, M).
        log_width: on the learned scale, (n, B, M), or (n, 1, M) for all rows.
    """

    def __init__(
        self,
        family: SharedLeaves,
        own: Sequence[int],
        columns: Sequence[int],
        log_weights: Tensor,
        centre: Tensor,
        log_width: Tensor,
    ) -> None:
        self.family, self.own, self.columns = family, tuple(own), tuple(columns)
        self.centre, self.log_width = centre, log_width.expand_as(centre)
        total = logsumexp(log_weights)  # (n, B)
        self.log_evidence = total.expand(len(self.columns), -1).T
        possible = (total > -torch.inf)[..., None]
        even = -math.log(log_weights.shape[-1])
        weights = torch.where(possible, log_weights - total[..., None], even)
        self.log_weights = weights.expand_as(centre)
        self.discrete = (False,) * len(self.columns)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        count, rows, _ = self.log_weights.shape
        shape = torch.broadcast_shapes(x.shape, (rows, count))
        draws = shape[:-2].numel()
        cells = x.expand(shape).reshape(draws, rows, count).movedim(-1, 0)  # (n, Q, B)
        y, log_slope = self.family.scale(cells, self.own)
        infinite = y.isinf()[..., None]
        inside = torch.where(infinite, 0.0, y[..., None])
        z = (inside - self.centre[:, None]) / self.log_width.exp()[:, None]  # (n, Q, B, M)
        z = torch.where(infinite, y[..., None], z)

        def mixed(part: Tensor) -> Tensor:
            out = logsumexp(self.log_weights[:, None] + part)  # (n, Q, B)
            return out.movedim(0, -1).reshape(shape)

        density = log_normal_density(z) + log_slope[..., None] - self.log_width[:, None]
        return LeafEvaluation(mixed(log_normal_cdf(z)), mixed(log_normal_cdf(-z)), mixed(density))

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to a rounding error of one, not of itself."""
        count, rows, _ = self.log_weights.shape
        shape = torch.broadcast_shapes(x.shape, (rows, count))
        cells = x.expand(shape).reshape(-1, rows, count).movedim(-1, 0)  # (n, Q, B)
        y, _ = self.family.scale(cells, self.own)
        steepness = (-_once(self.log_width, 1)).exp().expand(count, -1, -1) * math.sqrt(0.5)
        shares = _once(self.log_weights, 0).exp().expand(count, -1, -1)

        # A column at a time: its numbers stay in the cache from one step to the next.
        def one(j: int) -> Tensor:
            z = (y[j, ..., None] - self.centre[j]) * steepness[j]  # (Q, B, M)
            return (shares[j] * z.erf()).sum(-1)

        # With weights that sum to one, the mean of the CDFs is that of (1 + erf) / 2.
        out = 0.5 + 0.5 * torch.stack([one(j) for j in range(count)])  # (n, Q, B)
        return out.movedim(0, -1).reshape(shape)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        count, rows, _ = self.log_weights.shape
        shape = torch.broadcast_shapes(log_u.shape, (rows, count))
        dtype, draws = self.log_weights.dtype, shape[:-2].numel()
        low, high = (
            t.expand(shape).reshape(draws, rows, count).permute(2, 1, 0).to(dtype)  # (n, B, Q)
            for t in (log_u, log_1mu)
        )
        y = invert_mixture(low, high, self.log_weights, self.centre, self.log_width, "normal")
        return self.family.unscale(y, self.own).permute(2, 1, 0).reshape(shape)

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), by 48 Gauss-Hermite nodes for each component.

        The learned scale is inverted by a table with cubic interpolation. The relative error of
        the first two moments is below 1e-4, all of it from bends of the scale that are sharp beside
        a component.
        """
        weights = self.log_weights.exp()
        table = self._table()
        parts = []
        size = max(1, _AT_ONCE // weights.shape[-1])
        for start in range(0, weights.shape[1], size):
            rows = slice(start, start + size)
            centre, width = self.centre[:, rows], self.log_width[:, rows].exp()
            y = centre[..., None] + width[..., None] * _NODES.to(centre)  # (n, B, M, T)
            values = function(_look_up(table, y), self.columns)
            each = (values * _WEIGHTS.to(centre)).sum(-1) / math.sqrt(2 * math.pi)
            share = weights[:, rows]
            parts.append(torch.where(share > 0, share * each, 0.0).sum(-1).T)
        return torch.cat(parts)

    def take(self, place: int, rows: Tensor) -> "ScaledMixtures":
        """Return those of one column and of some rows of evidence."""
        total = self.log_evidence.T[[place]][:, rows]
        weights = self.log_weights[[place]][:, rows] + total[..., None]
        centre, log_width = (t[[place]][:, rows] for t in (self.centre, self.log_width))
        return ScaledMixtures(
            self.family, [self.own[place]], [self.columns[place]], weights, centre, log_width
        )

    def _table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return y, x(y) and dx/dy on a grid over all that the nodes reach, (n, T) each."""
        reach = float(_NODES.abs().max()) * self.log_width.exp()
        low, high = ((self.centre + s * reach).flatten(1) for s in (-1, 1))
        low, high = low.amin(1, keepdim=True), high.amax(1, keepdim=True)
        steps = torch.linspace(0, 1, _TABLE, dtype=low.dtype, device=low.device)
        y = low.double() + (high - low).double() * steps.double()
        x = self.family.unscale(y.to(low.dtype), self.own)
        _, log_slope = self.family.scale(x, self.own)
        return y, x, (-log_slope).exp().double()


def _once(values: Tensor, dim: int) -> Tensor:
    """Return one slice of a dim along which values were expanded, all of the others otherwise."""
    return values.narrow(dim, 0, 1) if values.stride(dim) == 0 else values


def _look_up(table: tuple[Tensor, Tensor, Tensor], y: Tensor) -> Tensor:
    """Return x(y) for y (n, ...) by cubic Hermite interpolation."""
    grid, x, slope = table
    flat = y.double().flatten(1)
    step = (grid[:, -1:] - grid[:, :1]) / (grid.shape[1] - 1)
    place = (flat - grid[:, :1]) / step
    left = place.floor().clamp(0, grid.shape[1] - 2).long()
    t = place - left
    x0, x1 = x.gather(1, left), x.gather(1, left + 1)
    s0, s1 = slope.gather(1, left) * step, slope.gather(1, left + 1) * step
    rise = x1 - x0
    value = x0 + t * (s0 + t * ((3 * rise - 2 * s0 - s1) + t * (s0 + s1 - 2 * rise)))
    return value.to(y.dtype).reshape(y.shape)
