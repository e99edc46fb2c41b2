"""Coupled columns given ranges of others: mixtures over nodes placed inside the ranges.

Inside a component and given its exact cells, the scores of the columns with ranges are normal in a
box. Weighted nodes stand for them, by the logistic trapezoidal rule for one range and by GHK on a
Sobol sequence for more. Given a node, every other column is normal, so that all univariate answers
are closed form over one set of nodes. For each requested column, nodes with nearly equal
conditional means are merged, which keeps mean and variance.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.quasirandom import SobolEngine

from marginals.densities.coupled_intervals import Tied, gather_cells, interval_places
from marginals.numerics import factors
from marginals.numerics.ghk import box_nodes


class _Block(NamedTuple):
    """Components by falling share of the evidence: how many, their nodes and merged nodes."""

    components: int
    nodes: int
    bins: int


# Components beyond these are left out; they have less than 1e-3 of the mass by far in any model
# that is not uniform over more than 64 components.
_BLOCKS = (_Block(4, 1024, 48), _Block(12, 256, 24), _Block(48, 64, 12))
# Nodes of the logistic rule, at which the error for smooth integrands is below 1e-15.
_LOGITS = torch.linspace(-18.0, 18.0, 161, dtype=torch.float64)
# Merged nodes are at least this wide, in bins, so that their sum has no ripples.
_SMOOTH = 0.6
# Nodes with less than this share of their component do not stretch the bins.
_NEGLIGIBLE = 1e-7


class Conditionals(NamedTuple):
    """Normal components of requested columns in units of the scores."""

    log_weights: Tensor  # (n, B, M)
    mean: Tensor  # (n, B, M)
    variance: Tensor  # (n, B, M)
    component: Tensor  # (B, M)


def node_cost(columns: int) -> int:
    """Return the number of floats that one row of evidence with ranges holds at a time."""
    return columns * sum(8 * b.components * (b.bins + b.nodes) for b in _BLOCKS)


@torch.no_grad()
def conditionals_given_ranges(tied: Tied, log_weights: Tensor, asked: Tensor) -> Conditionals:
    """Return the distributions of requested columns given exact cells and ranges.

    Args:
        tied: the coupled cells.
        log_weights: of the components given all evidence, (B, K).
        asked: places of the requested columns, none of which is observed, (n,).
    """
    posterior = factors.posterior_of_factors(tied.scores, tied.loadings, tied.unique, tied.exact)
    counts = tied.counts().clamp_min(1)
    # Rows are grouped by their number of ranges, so that an answer depends on its own row alone.
    groups = [(counts == count).nonzero()[:, 0] for count in counts.unique().tolist()]
    found = [_of_rows(tied, posterior, log_weights, asked, rows) for rows in groups]
    back = torch.cat(groups).argsort()
    return Conditionals(
        *(torch.cat([part[i] for part in found], -2)[..., back, :] for i in range(4))
    )


def _of_rows(
    tied: Tied,
    posterior: factors.FactorPosterior,
    log_weights: Tensor,
    asked: Tensor,
    rows: Tensor,
) -> Conditionals:
    """Return the distributions of requested columns for rows with the same number of ranges."""
    places = interval_places(tied, rows, max(1, int(tied.counts()[rows[0]])))  # (b, c)
    shares, ranked = log_weights[rows].sort(dim=1, descending=True)  # (b, K)
    parts, first = [], 0
    for block, points, log_points in _rules(places.shape[1]):
        chosen = ranked[:, first : first + block.components]  # (b, k)
        if chosen.shape[1]:
            weight = shares[:, first : first + block.components].double()
            nodes = _Nodes(tied, posterior, rows, places, chosen)
            rule = points[: chosen.shape[1]], log_points[: chosen.shape[1]]
            parts.append(nodes.of(asked, weight, rule, block.bins))
        first += block.components
    return Conditionals(*(torch.cat(part, -1) for part in zip(*parts, strict=True)))


class _Nodes:
    """Nodes of the boxes of some components per row.

    Args:
        tied: the coupled cells.
        posterior: of the factors given the exact cells.
        rows: the B rows, (B,).
        places: of the columns with ranges, (B, c).
        components: per row, (B, k).
    """

    def __init__(
        self,
        tied: Tied,
        posterior: factors.FactorPosterior,
        rows: Tensor,
        places: Tensor,
        components: Tensor,
    ) -> None:
        self.components = components
        pattern, rows = posterior.index[rows][:, None], rows[:, None]
        self.loadings = tied.loadings[components].double()  # (B, k, J, r)
        self.unique = tied.unique[components].double()  # (B, k, J)
        self.factor = posterior.mean[rows, components].double()  # (B, k, r)
        cholesky = posterior.cholesky[pattern, components]  # (B, k, r, r)
        half = torch.linalg.solve_triangular(cholesky, self.loadings.mT, upper=False)
        self.half = half  # (B, k, r, J): cov(s_i, s_j) = half_i . half_j + d_i [i = j]
        at = places[:, None, :].expand(-1, components.shape[1], -1)  # (B, k, c)
        boxed = half.gather(3, at[:, :, None].expand(-1, -1, half.shape[2], -1))  # (B, k, r, c)
        unique = self.unique.gather(2, at)
        self.boxed = boxed
        self.cholesky = torch.linalg.cholesky(boxed.mT @ boxed + torch.diag_embed(unique))
        self.mean = (self.loadings @ self.factor[..., None]).squeeze(-1)  # (B, k, J)
        ends = (gather_cells(end[rows, components], places) for end in tied.ends())
        self.box = (*ends, self.mean.gather(2, at))

    def of(
        self, asked: Tensor, shares: Tensor, rule: tuple[Tensor, Tensor], bins: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return log weights, means and variances (n, B, k Q) of columns, and components (B, k Q).

        Args:
            asked: places of the columns, (n,).
            shares: log weights of the components, (B, k).
            rule: points of the unit cube (k, S, c) and their log weights (k, S).
            bins: the number Q of merged nodes per component.
        """
        low, high, gap, mean = self.box
        away, log_mass = box_nodes(low, high, mean, self.cholesky, gap, rule[0])  # (B, k, S, c)
        log_weight = (log_mass + rule[1].to(log_mass)).log_softmax(-1).nan_to_num(-torch.inf)
        half = self.half[..., asked]  # (B, k, r, n)
        cross = self.boxed.mT @ half  # (B, k, c, n)
        slope = torch.cholesky_solve(cross, self.cholesky)  # (B, k, c, n)
        unique = self.unique[..., asked]  # (B, k, n)
        left = half.square().sum(2) - (slope * cross).sum(2)
        # What the factors leave open; rounding may take it below zero.
        variance = unique + left.clamp_min(0.0)
        centre = self.mean[..., asked][:, :, None] + away @ slope  # (B, k, S, n)
        merged = _merged(centre.movedim(-1, 0), log_weight, variance.movedim(-1, 0), bins)
        weight, centre, width = (merged[0] + shares[..., None], *merged[1:])
        weight, centre, width = (part.flatten(2) for part in (weight, centre, width))
        return weight, centre, width, self.components.repeat_interleave(bins, 1)


def _merged(
    centre: Tensor, log_weight: Tensor, variance: Tensor, bins: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge nodes (n, B, k, S) of one variance (n, B, k) into bins, by mean and variance.

    Returns:
        Log weights, means and variances, (n, B, k, Q) each. An empty bin has weight -inf.
    """
    weight = log_weight.exp().expand_as(centre)
    counts = weight > _NEGLIGIBLE
    low = torch.where(counts, centre, torch.inf).amin(-1, keepdim=True).nan_to_num(posinf=0.0)
    high = torch.where(counts, centre, -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    step = (high - low) / bins
    from_low = centre - low
    place = (from_low / step).nan_to_num(0.0).clamp(0, bins - 1).long()
    empty = torch.zeros(*centre.shape[:-1], bins).to(centre)
    mass, first, second = (
        empty.scatter_add(-1, place, weight * power)
        for power in (torch.ones_like(from_low), from_low, from_low.square())
    )
    full = mass > 0
    safe = torch.where(full, mass, 1.0)
    mean = first / safe
    spread = (second / safe - mean.square()).clamp_min(0.0)
    width = torch.maximum(variance[..., None] + spread, (_SMOOTH * step).square())
    return mass.log(), low + mean, width


@lru_cache(maxsize=32)
def _rules(columns: int) -> Sequence[tuple[_Block, Tensor, Tensor]]:
    """Return for each block points of the unit cube (k, S, c) and their log weights (k, S)."""
    with torch.inference_mode(False):
        return _make_rules(columns)


def _make_rules(columns: int) -> Sequence[tuple[_Block, Tensor, Tensor]]:
    if columns == 1:
        u = _LOGITS.sigmoid()[:, None]
        log_u = (F.logsigmoid(_LOGITS) + F.logsigmoid(-_LOGITS))[None]
        return [
            (b, u.expand(b.components, -1, -1), log_u.expand(b.components, -1)) for b in _BLOCKS
        ]
    engine = SobolEngine(columns, scramble=True, seed=0)
    out = []
    for block in _BLOCKS:
        # Blocks of a power of two are nets in themselves. Half a step keeps points off 0 and 1.
        u = engine.draw(block.components * block.nodes, dtype=torch.float64) + 2.0**-31
        points = u.view(block.components, block.nodes, columns)
        out.append((block, points, torch.zeros(points.shape[:2], dtype=u.dtype)))
    return out
