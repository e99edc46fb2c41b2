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


class Block(NamedTuple):
    """Some components: how many, and the nodes and merged nodes of each."""

    components: int
    nodes: int
    bins: int


class Resolution(NamedTuple):
    """How finely ranges are resolved.

    Args:
        blocks: of the components by falling share of the evidence; the last takes all that are
            left, and its number of components is that of its different sets of nodes.
        logits: the number of nodes of the logistic rule, which serves a single range.
        tail: the components of the smallest shares, up to this much together, are left out.
    """

    blocks: tuple[Block, ...]
    logits: int
    tail: float = 0.0


# The error of 161 nodes of the logistic rule is below 1e-15 for smooth integrands.
FINE = Resolution(
    (Block(4, 1024, 48), Block(12, 256, 24), Block(48, 64, 12), Block(64, 32, 4)), 161
)
# For pictures: CDFs differ from the fine ones by 0.002 at most.
ROUGH = Resolution((Block(4, 128, 16), Block(12, 64, 6), Block(48, 8, 1)), 19, tail=2e-3)
# The logistic rule reaches this far.
_FARTHEST_LOGIT = 18.0
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


def node_cost(columns: int, width: int, resolution: Resolution) -> int:
    """Return the number of floats that one row of evidence with ranges holds at a time.

    Args:
        columns: the number of coupled columns.
        width: the number of components.
        resolution: how finely the ranges are resolved.
    """
    blocks = resolution.blocks
    held = sum(8 * b.components * (b.bins + b.nodes) for b in blocks[:-1])
    rest = max(0, width - sum(b.components for b in blocks[:-1]))
    return columns * (held + 8 * rest * (blocks[-1].bins + blocks[-1].nodes))


@torch.no_grad()
def conditionals_given_ranges(
    tied: Tied, log_weights: Tensor, asked: Tensor, resolution: Resolution = FINE
) -> Conditionals:
    """Return the distributions of requested columns given exact cells and ranges.

    Args:
        tied: the coupled cells.
        log_weights: of the components given all evidence, (B, K).
        asked: places of the requested columns, none of which is observed, (n,).
        resolution: how finely the ranges are resolved.
    """
    posterior = factors.posterior_of_factors(tied.scores, tied.loadings, tied.unique, tied.exact)
    counts = tied.counts().clamp_min(1)
    # Rows are grouped by their number of ranges, so that an answer depends on its own row alone.
    groups = [(counts == count).nonzero()[:, 0] for count in counts.unique().tolist()]
    shares, ranked = log_weights.sort(dim=1, descending=True)  # (B, K)
    if resolution.tail > 0:
        kept = int((shares.softmax(1).cumsum(1) < 1 - resolution.tail).sum(1).max()) + 1
        shares, ranked = shares[:, :kept], ranked[:, :kept]
    found = [
        _of_rows(tied, posterior, (shares[rows], ranked[rows]), asked, rows, resolution)
        for rows in groups
    ]
    back = torch.cat(groups).argsort()
    return Conditionals(
        *(torch.cat([part[i] for part in found], -2)[..., back, :] for i in range(4))
    )


def _of_rows(
    tied: Tied,
    posterior: factors.FactorPosterior,
    by_share: tuple[Tensor, Tensor],
    asked: Tensor,
    rows: Tensor,
    resolution: Resolution,
) -> Conditionals:
    """Return the distributions of requested columns for rows with the same number of ranges.

    Their components come by falling share: log weights and places, (b, K) each.
    """
    places = interval_places(tied, rows, max(1, int(tied.counts()[rows[0]])))  # (b, c)
    shares, ranked = by_share
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    first = 0
    for block, points, log_points in _rules(places.shape[1], resolution):
        last = None if len(parts) + 1 == len(resolution.blocks) else first + block.components
        chosen = ranked[:, first:last]  # (b, k)
        if chosen.shape[1]:
            nodes = _Nodes(tied, posterior, rows, places, chosen)
            rule = torch.arange(chosen.shape[1]) % block.components
            weight = shares[:, first:last].double()
            points, log_points = points[rule], log_points[rule]
            parts.append(nodes.of(asked, weight, (points, log_points), block.bins))
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
        # The box of a row without ranges is open: its nodes say nothing.
        self.ranged = (tied.counts()[rows] > 0)[:, None, None, None]
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
        self,
        asked: Tensor,
        shares: Tensor,
        rule: tuple[Tensor, Tensor],
        bins: int,
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
        slope = torch.cholesky_solve(cross, self.cholesky) * self.ranged  # (B, k, c, n)
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

    Bins that are too narrow for a smooth sum are widened, and all are moved towards their mean, so
    that a component's variance stays the same.

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
    width = variance[..., None] + (second / safe - mean.square()).clamp_min(0.0)
    more = ((_SMOOTH * step).square() - width).clamp_min(0.0)
    middle = (mass * mean).sum(-1, keepdim=True)
    between = (mass * (mean - middle).square()).sum(-1, keepdim=True)
    part = ((mass * more).sum(-1, keepdim=True) / between).nan_to_num(0.0)
    width = width + more / part.clamp_min(1.0)
    mean = middle + (mean - middle) * (1 - part.clamp_max(1.0)).sqrt()
    return mass.log(), low + mean, width


@lru_cache(maxsize=32)
def _rules(columns: int, resolution: Resolution) -> Sequence[tuple[Block, Tensor, Tensor]]:
    """Return for each block points of the unit cube (k, S, c) and their log weights (k, S)."""
    with torch.inference_mode(False):
        return _make_rules(columns, resolution)


def _make_rules(columns: int, resolution: Resolution) -> Sequence[tuple[Block, Tensor, Tensor]]:
    if columns == 1:
        reach = _FARTHEST_LOGIT
        logits = torch.linspace(-reach, reach, resolution.logits, dtype=torch.float64)
        u = logits.sigmoid()[:, None]
        log_u = (F.logsigmoid(logits) + F.logsigmoid(-logits))[None]
        return [
            (b, u.expand(b.components, -1, -1), log_u.expand(b.components, -1))
            for b in resolution.blocks
        ]
    engine = SobolEngine(columns, scramble=True, seed=0)
    out = []
    for block in resolution.blocks:
        # Blocks of a power of two are nets in themselves. Half a step keeps points off 0 and 1.
        u = engine.draw(block.components * block.nodes, dtype=torch.float64) + 2.0**-31
        points = u.view(block.components, block.nodes, columns)
        out.append((block, points, torch.zeros(points.shape[:2], dtype=u.dtype)))
    return out
