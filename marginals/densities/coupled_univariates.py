"""Univariate conditionals of coupled columns: mixtures of normals or, given intervals, ratios."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.univariates import Univariates, columns_first, columns_last
from marginals.leaves import LeafEvaluation, SharedLeaves
from marginals.leaves.learned_scale import invert_mixture
from marginals.leaves.shared import standardise
from marginals.numerics import (
    invert_monotone,
    log_normal_cdf,
    log_normal_density,
    log_shares,
    logsumexp,
)

if TYPE_CHECKING:
    from marginals.densities.density import Density

# Gauss-Hermite quadrature under a normal component.
_NODES, _WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(48))
# Points of the table by which the learned scale is inverted for expectations.
_TABLE = 4097
# Components of one row whose nodes are held at once; bounds the memory.
_AT_ONCE = 1 << 16
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

        # One column at a time: its numbers stay in the cache from one step to the next.
        def one(j: int) -> Tensor:
            z = (y[j, ..., None] - self.centre[j]) * steepness[j]  # (Q, B, M)
            return (shares[j] * z.erf()).sum(-1)

        # As the weights sum to one, the mean of the CDFs is that of (1 + erf) / 2.
        out = 0.5 + 0.5 * torch.stack([one(j) for j in range(count)])  # (n, Q, B)
        return columns_last(out, shape)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        low, shape = columns_first(log_u, self.log_evidence.shape)  # (n, Q, B)
        high, _ = columns_first(log_1mu, self.log_evidence.shape)
        low, high = (level.mT.to(self.log_weights.dtype) for level in (low, high))
        y = invert_mixture(low, high, self.log_weights, self.centre, self.log_width, "normal")
        return columns_last(self.family.unscale(y, self.own).mT, shape)

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), by 48 Gauss-Hermite nodes for each component.

        The learned scale is inverted by a table with cubic interpolation. The relative error of
        the first two moments is below 1e-4, due to sharp bends of the scale within a component.
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
        """Return the distributions of one column, by its place, given some rows of evidence."""
        weights = self.log_weights[[place]][:, rows]
        centre, log_width = (t[[place]][:, rows] for t in (self.centre, self.log_width))
        out = ScaledMixtures(
            self.family, [self.own[place]], [self.columns[place]], weights, centre, log_width
        )
        out.log_evidence = self.log_evidence[rows][:, [place]]
        return out

    def _table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return y, x(y) and dx/dy on a grid that covers all nodes, (n, T) each."""
        reach = float(_NODES.abs().max()) * self.log_width.exp()
        low, high = ((self.centre + s * reach).flatten(1) for s in (-1, 1))
        low, high = low.amin(1, keepdim=True), high.amax(1, keepdim=True)
        steps = torch.linspace(0, 1, _TABLE, dtype=low.dtype, device=low.device)
        y = low.double() + (high - low).double() * steps.double()
        x = self.family.unscale(y.to(low.dtype), self.own)
        _, log_slope = self.family.scale(x, self.own)
        return y, x, (-log_slope).exp().double()


@final
class JointUnivariates(Univariates):
    """p(x_j | e_b) = p(x_j, e_b) / p(e_b) for continuous columns, two contractions per value.

    Its error is that of the density's own values of such evidence.

    Args:
        density: any density.
        known: the evidence; the cell of a column itself is left out for that column.
        columns: the columns, all continuous.
        guess: univariates given a part of the evidence, near which to look for quantiles.
    """

    def __init__(
        self, density: "Density", known: Evidence, columns: Sequence[int], guess: Univariates
    ) -> None:
        self.density, self.known, self.columns = density, known, tuple(columns)
        self.guess = guess
        self.others = [known.without(c) if c in known.columns else known for c in self.columns]
        self.log_evidence = torch.stack([density.log_value(o) for o in self.others], -1)  # (B, n)
        self.discrete = (False,) * len(self.columns)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""

        def below(at: Tensor, column: int) -> Evidence:
            end = torch.where(at == -torch.inf, 0.0, at)
            return Evidence.interval(torch.full_like(at, -torch.inf), end, [column])

        def above(at: Tensor, column: int) -> Evidence:
            end = torch.where(at == torch.inf, 0.0, at)
            return Evidence.interval(end, torch.full_like(at, torch.inf), [column])

        # The error of the boxes may take a probability past one.
        return LeafEvaluation(
            self._log_ratio(x, below, x == -torch.inf).clamp_max(0.0),
            self._log_ratio(x, above, x == torch.inf).clamp_max(0.0),
            self.logpdf(x),
        )

    def logpdf(self, x: Tensor) -> Tensor:
        """Return the log density at `x` (..., B, n)."""

        def exactly(at: Tensor, column: int) -> Evidence:
            return Evidence.exact(torch.where(at.isinf(), 0.0, at), [column])

        return self._log_ratio(x, exactly, x.isinf())

    def _log_ratio(
        self, x: Tensor, cell: Callable[[Tensor, int], Evidence], impossible: Tensor
    ) -> Tensor:
        """Return the log value of cells made of `x` (..., B, n) given the evidence."""
        rows, count = self.log_evidence.shape
        shape = torch.broadcast_shapes(x.shape, (rows, count))
        flat = x.expand(shape).reshape(-1, rows, count)
        index = torch.arange(rows, device=x.device).repeat(len(flat))
        found = []
        for place, (column, others) in enumerate(zip(self.columns, self.others, strict=True)):
            at = flat[..., place].reshape(-1, 1)
            value, _ = self.density.contract_given(
                self.density.checked(cell(at, column)), others, index
            )
            found.append(value.reshape(-1, rows))
        return torch.where(impossible, -torch.inf, torch.stack(found, -1).reshape(shape))

    @torch.no_grad()
    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        start = self.guess.quantile(log_u, log_1mu).to(self.log_evidence)
        target = (log_u - log_1mu).to(start).expand(start.shape)
        low, high, step = start, start, torch.ones_like(start)
        for _ in range(_DOUBLINGS):
            over = self.logit_and_slope(low)[0] > target
            under = self.logit_and_slope(high)[0] < target
            if not bool((over | under).any()):
                break
            low, high = torch.where(over, low - step, low), torch.where(under, high + step, high)
            step = 2 * step
        return invert_monotone(self.logit_and_slope, target, low, high)

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), by the trapezoidal rule in the logit of u."""
        x, weights = self._nodes
        values = function(x.movedim(-1, 0), self.columns)  # (n, T, B)
        # A node without weight does not count, even if the function is infinite there.
        terms = torch.where(weights > 0, weights * values.movedim(0, -1), 0.0)
        return terms.sum(0)

    @cached_property
    @torch.no_grad()
    def _nodes(self) -> tuple[Tensor, Tensor]:
        """Return the points and weights of a quadrature, each (T, B, n).

        The points are quantiles of the guess, weighted by the ratio of the densities. Where they
        miss mass, exact quantiles take their place, which cost some ten times as much.
        """
        # For a smooth quantile function the error falls as exp(-2 pi^2 / step); well separated
        # components bend it, and call for half a step of 1.
        t = torch.arange(-64, 65, dtype=torch.float64, device=self.log_evidence.device) / 2
        log_u, log_1mu = (F.logsigmoid(sign * t)[:, None, None] for sign in (1, -1))
        even = 0.5 * (log_u + log_1mu).exp().to(self.log_evidence)  # (T, 1, 1)
        x = self.guess.quantile(log_u, log_1mu).to(self.log_evidence)
        weights = even * (self.logpdf(x) - self.guess.logpdf(x)).exp()
        mass = weights.sum(0)
        coarse = 2 * weights[::2].sum(0)
        if bool(
            ((mass - 1).abs() < _MASS_ERROR).all() & ((mass - coarse).abs() < _STEP_ERROR).all()
        ):
            return x, weights / mass
        x = self.quantile(log_u, log_1mu)
        return x, even.expand(x.shape)

    def take(self, place: int, rows: Tensor) -> "JointUnivariates":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        guess = self.guess.take(place, rows)
        return JointUnivariates(self.density, self.known.rows(rows), [self.columns[place]], guess)


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
