"""Univariate conditionals of coupled columns: mixtures of normals or, given intervals, ratios."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import final

import numpy as np
import torch
from torch import Tensor

from marginals.densities.univariates import (
    Univariates,
    columns_first,
    columns_last,
    negligible,
)
from marginals.leaves import LeafEvaluation, SharedLeaves
from marginals.leaves.learned_scale import (
    bracket_mixture,
    invert_mixture,
    normal_tails,
    quantile,
)
from marginals.leaves.shared import standardise
from marginals.numerics import (
    log_normal_cdf,
    log_normal_density,
    log_shares,
    logsumexp,
)

# Gauss-Hermite quadrature under a normal component.
_HERMITE, _FEW = (
    tuple(torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(count))
    for count in (48, 12)
)
# Components that stand for ranges are this many, and narrow: few nodes suffice for each.
_MANY_COMPONENTS = 200
# With fewer components, finding those that carry no weight does not pay.
_FEW_TERMS = 16
# Points of the table by which the learned scale is inverted for expectations.
_TABLE = 4097
# Components of one row whose nodes are held at once; bounds the memory.
_AT_ONCE = 1 << 16
# Values of components at points that a processor's cache holds.
_IN_CACHE = 1 << 17
# Doublings of the bracket of a quantile, from one unit of the column to any float.
_DOUBLINGS = 64
# Largest differences of the mass at the nodes from one, and from that at every other node: the
# first allows for the density's own error, the second shows whether the nodes are dense enough.
_MASS_ERROR, _STEP_ERROR = 1e-3, 1e-4


@final
class ScaledMixtures(Univariates):
    """p(x_j | e_b) = sum_k w_kjb N(g_j(x_j); centre_kjb, width_kjb) g_j'(x_j).

    Args:
        family: the leaves, whose learned scales g_j are used.
        own: the columns' positions in the family.
        columns: their names in the table.
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
        weights, total = log_shares(log_weights)
        self.log_weights = weights.expand_as(centre)
        self.log_evidence = total.expand(len(self.columns), -1).T
        self.discrete = (False,) * len(self.columns)
        self._last: tuple[Tensor, Tensor] | None = None  # nodes and their values

    @property
    def terms(self) -> int:
        """How many terms are summed at each point: components, times points of the evidence."""
        return self.centre.shape[-1]

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (n, Q, B)
        y, log_slope = self.family.scale(cells, self.own)
        z = standardise(y[..., None], self.centre[:, None], self.log_width.exp()[:, None])

        def mixed(part: Tensor) -> Tensor:  # (n, Q, B, M)
            return columns_last(logsumexp(self.log_weights[:, None] + part), shape)

        density = log_normal_density(z) + log_slope[..., None] - self.log_width[:, None]
        return LeafEvaluation(mixed(log_normal_cdf(z)), mixed(log_normal_cdf(-z)), mixed(density))

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (n, Q, B)
        y, _ = self.family.scale(cells, self.own)
        count = len(self.columns)
        steepness = (-_once(self.log_width, 1)).exp().expand(count, -1, -1) * math.sqrt(0.5)
        shares = _once(self.log_weights, 0).exp().expand(count, -1, -1)

        size = max(1, _IN_CACHE // max(1, self.centre[0].numel()))

        # Some points of one column at a time: they stay in the cache from one step to the next.
        def some(j: int, points: Tensor) -> Tensor:
            z = (points[..., None] - self.centre[j]) * steepness[j]  # (q, B, M)
            return (shares[j] * z.erf()).sum(-1)

        def one(j: int) -> Tensor:
            return torch.cat([some(j, points) for points in y[j].split(size)])

        # As the weights sum to one, the mean of the CDFs is that of (1 + erf) / 2.
        out = 0.5 + 0.5 * torch.stack([one(j) for j in range(count)])  # (n, Q, B)
        return columns_last(out, shape)

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and density at `x` (..., B, n), which underflow far out."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (n, Q, B)
        y, log_slope = self.family.scale(cells, self.own)
        width = self.log_width.exp()[:, None]
        z = standardise(y[..., None], self.centre[:, None], width)
        below, above, density = normal_tails(z, self.log_weights.exp()[:, None], width)
        density = density * log_slope.exp()
        below, above, density = (columns_last(p, shape) for p in (below, above, density))
        return below, above, density

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        low, shape = columns_first(log_u, self.log_evidence.shape)  # (n, Q, B)
        high, _ = columns_first(log_1mu, self.log_evidence.shape)
        low, high = (level.mT.to(self.log_weights.dtype) for level in (low, high))
        kept = self.pruned(negligible(log_u, log_1mu, self.log_weights.dtype))
        y = invert_mixture(low, high, kept.log_weights, kept.centre, kept.log_width, "normal")
        return columns_last(self.family.unscale(y, self.own).mT, shape)

    @torch.no_grad()
    def rough_quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return points near the quantiles, (..., B, n): means of the components' quantiles."""
        logit, shape = columns_first(log_u - log_1mu, self.log_evidence.shape)  # (n, Q, B)
        z = quantile(logit.to(self.centre.dtype), "normal")
        share = self.log_weights.exp()
        middle, spread = (
            (share * part).sum(-1)[:, None] for part in (self.centre, self.log_width.exp())
        )
        return columns_last(self.family.unscale(middle + spread * z, self.own), shape)

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie."""
        target, shape = columns_first(log_u - log_1mu, self.log_evidence.shape)  # (n, Q, B)
        weights, centre, width = (
            part[:, None] for part in (self.log_weights, self.centre, self.log_width.exp())
        )
        logit = target.to(centre.dtype)
        low, high = bracket_mixture(logit, weights, centre, width, "normal")
        low, high = self.family.learned.bracket(low.flatten(1), high.flatten(1), self.own)
        low, high = (columns_last(end.view_as(target), shape) for end in (low, high))
        return low, high

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), by 48 Gauss-Hermite nodes for each component, or 12 of many.

        The learned scale is inverted by a table with cubic interpolation. The relative error of
        the first two moments is below 1e-4, due to sharp bends of the scale within a component.
        """
        weights = self.log_weights.exp()
        nodes, node_weights = _FEW if weights.shape[-1] > _MANY_COMPONENTS else _HERMITE
        nodes, node_weights = nodes.to(self.centre), node_weights.to(self.centre)
        parts = []
        size = max(1, _AT_ONCE // weights.shape[-1])
        for start in range(0, weights.shape[1], size):
            rows = slice(start, start + size)
            centre, width = self.centre[:, rows], self.log_width[:, rows].exp()
            y = centre[..., None] + width[..., None] * nodes  # (n, B, M, T)
            values = function(self._unscaled(y), self.columns)
            each = (values * node_weights).sum(-1) / math.sqrt(2 * math.pi)
            share = weights[:, rows]
            parts.append(torch.where(share > 0, share * each, 0.0).sum(-1).T)
        return torch.cat(parts)

    def pruned(self, error: float) -> "ScaledMixtures":
        """Return these without terms that together move no CDF by more than `error`."""
        if self.terms < _FEW_TERMS or error <= 0:
            return self
        shares, order = _once(self.log_weights, 0).exp().double().sort(-1)
        light = int((shares.cumsum(-1) <= error).sum(-1).min()) if shares.numel() else 0
        if 2 * light < self.terms:  # copying what is left would take as long
            return self
        at = order[..., light:].expand(len(self.columns), -1, -1)
        parts = (self.log_weights, self.centre, self.log_width)
        kept = ScaledMixtures(
            self.family, self.own, self.columns, *(part.gather(-1, at) for part in parts)
        )
        kept.log_evidence = self.log_evidence
        return kept

    def some(self, places: Sequence[int]) -> "ScaledMixtures":
        """Return the distributions of some columns, by their places."""
        if list(places) == list(range(len(self.columns))):
            return self
        at = list(places)
        parts = (self.log_weights[at], self.centre[at], self.log_width[at])
        own, columns = [self.own[i] for i in at], [self.columns[i] for i in at]
        out = ScaledMixtures(self.family, own, columns, *parts)
        out.log_evidence = self.log_evidence[:, at]
        return out

    def take(self, place: int, rows: Tensor) -> "ScaledMixtures":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        weights = self.log_weights[[place]][:, rows]
        centre, log_width = (t[[place]][:, rows] for t in (self.centre, self.log_width))
        out = ScaledMixtures(
            self.family, [self.own[place]], [self.columns[place]], weights, centre, log_width
        )
        out.log_evidence = self.log_evidence[rows][:, [place]]
        return out

    def _unscaled(self, y: Tensor) -> Tensor:
        """Return x(y) for y (n, ...), by the table if they are many."""
        if y[0].numel() > _TABLE:
            return _look_up(self._table, y)
        if self._last is None or not torch.equal(self._last[0], y):  # two moments have one set
            self._last = y, self.family.unscale(y, self.own).to(y.dtype)
        return self._last[1]

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return y, x(y) and dx/dy on a grid that covers all nodes, (n, T) each."""
        reach = float(_HERMITE[0].abs().max()) * self.log_width.exp()
        low, high = ((self.centre + s * reach).flatten(1) for s in (-1, 1))
        low, high = low.amin(1, keepdim=True), high.amax(1, keepdim=True)
        steps = torch.linspace(0, 1, _TABLE, dtype=low.dtype, device=low.device)
        y = low.double() + (high - low).double() * steps.double()
        x = self.family.unscale(y.to(low.dtype), self.own)
        _, log_slope = self.family.scale(x, self.own)
        return y, x, (-log_slope).exp().double()


@final
class Interleaved(Univariates):
    """Univariates of disjoint sets of columns given the same rows, put in order.

    Args:
        parts: the univariates.
        columns: all their columns, in the requested order.
    """

    def __init__(self, parts: Sequence[Univariates], columns: Sequence[int]) -> None:
        self.parts, self.columns = tuple(parts), tuple(columns)
        self.places = [[self.columns.index(c) for c in part.columns] for part in self.parts]
        self.log_evidence = self._join([part.log_evidence for part in self.parts])
        flags = {c: f for p in self.parts for c, f in zip(p.columns, p.discrete, strict=True)}
        self.discrete = tuple(flags[c] for c in self.columns)

    @property
    def atoms(self) -> tuple[tuple[float, ...], ...]:
        """The points of positive mass of each column that is not categorical."""
        every = {c: f for p in self.parts for c, f in zip(p.columns, p.atoms, strict=True)}
        return tuple(every[c] for c in self.columns)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        wide = x.expand(torch.broadcast_shapes(x.shape, (1, len(self.columns))))
        found = [p.evaluate(wide[..., at]) for p, at in zip(self.parts, self.places, strict=True)]
        return LeafEvaluation(
            self._join([f.log_cdf for f in found]),
            self._join([f.log_sf for f in found]),
            self._join([f.log_density for f in found]),
        )

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        wide = x.expand(torch.broadcast_shapes(x.shape, (1, len(self.columns))))
        return self._join(
            [p.cdf(wide[..., at]) for p, at in zip(self.parts, self.places, strict=True)]
        )

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        shape = torch.broadcast_shapes(log_u.shape, (1, len(self.columns)))
        low, high = log_u.expand(shape), log_1mu.expand(shape)
        found = [
            part.quantile(low[..., at], high[..., at]).double()
            for part, at in zip(self.parts, self.places, strict=True)
        ]
        return self._join(found)

    def bracket(self, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return ends (..., B, n) between which the quantiles lie."""
        shape = torch.broadcast_shapes(log_u.shape, (1, len(self.columns)))
        low, high = log_u.expand(shape), log_1mu.expand(shape)
        found = [
            part.bracket(low[..., at], high[..., at])
            for part, at in zip(self.parts, self.places, strict=True)
        ]
        ends = zip(*found, strict=True)
        low, high = (self._join([end.double() for end in side]) for side in ends)
        return low, high

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n)."""
        return self._join([part.expect(function) for part in self.parts])

    def take(self, place: int, rows: Tensor) -> Univariates:
        """Return the distributions of one column, by its place, given some rows of evidence."""
        for part, at in zip(self.parts, self.places, strict=True):
            if place in at:
                return part.take(at.index(place), rows)
        raise IndexError(place)

    def _join(self, found: Sequence[Tensor]) -> Tensor:
        order = torch.tensor([at for places in self.places for at in places])
        return torch.cat(list(found), -1)[..., order.argsort().to(found[0].device)]


def _once(values: Tensor, dim: int) -> Tensor:
    """Return one slice along a dim if values were expanded along it, else all of them."""
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
