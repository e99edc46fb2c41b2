r"""Correlated normals inside boxes, column by column: the GHK simulator.

    probabilities  log_box_qmc      draws  sample_box      nodes  box_nodes

Each column in turn is placed inside its interval given those before; the product of the intervals'
probabilities is the weight of the path (Genz's separation of variables). A box is (lower, upper],
(..., n), with infinite ends allowed. The normal is given by its mean, (..., n), and the lower
Cholesky factor of its covariance, (..., n, n). Leading dims broadcast. `gap` is `upper - lower`, if
the caller knows it more accurately than by subtraction. All work is done in float64, because layers
can be as thin as 1e-4.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from marginals.numerics.draws import draw
from marginals.numerics.logspace import logsumexp
from marginals.numerics.normal import (
    log_normal_cdf,
    log_normal_density,
    log_normal_interval,
    normal_quantile,
)

# Points or proposals held at once; bounds the memory.
_AT_ONCE = 1 << 21
TOLERANCE = 2e-3  # the relative error of the probability of a box
# Independent scramblings, whose spread gives the error. By Student's t with seven degrees of
# freedom the mean lies within this many standard errors in all but 0.03 % of cases; somewhat more,
# as the points double until the error looks small.
_RANDOMISATIONS, _STANDARD_ERRORS, _FIRST_POINTS = 8, 6.5, 32
# Proposals per open box: in each round of rejection, and in the final resampling.
_PROPOSALS, _RESAMPLED = 16, 1024
# Intervals at least this wide whose nearer end is at most this far out are computed from plain
# probabilities, a tenth of the work; the relative error stays below 1e-9.
_WIDE, _NEAR = 1e-6, 36.0
_SQRT_HALF = math.sqrt(0.5)
# Points of a scrambling that are kept from call to call; making them takes milliseconds.
_MOST_KEPT = 512


class Box(NamedTuple):
    """Boxes about a mean of 0, flattened to one leading dim, in float64."""

    lower: Tensor  # (M, n)
    upper: Tensor  # (M, n)
    gap: Tensor  # (M, n)
    cholesky: Tensor  # (M, n, n)

    def take(self, index: Tensor) -> "Box":
        """Select boxes."""
        return Box(*(x[index] for x in self))

    def interval(self, column: int, shift: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return a column's ends, less a shift (M, ...), and gap in units of its own deviation."""
        shift = torch.zeros_like(self.lower[:, column]) if shift is None else shift
        ends = torch.stack([*(x[:, column] for x in self[:3]), self.cholesky[:, column, column]])
        low, high, gap, scale = ends.view(4, -1, *(1,) * (shift.ndim - 1))
        return _over(low - shift, scale), _over(high - shift, scale), _over(gap, scale)


def log_box_qmc(
    lower: Tensor,
    upper: Tensor,
    mean: Tensor,
    cholesky: Tensor,
    gap: Tensor | None = None,
    *,
    log_weights: Tensor | None = None,
    tolerance: float = TOLERANCE,
    max_points: int = 1 << 13,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute the log probability of boxes and its relative error, (...,) each.

    Columns are taken in the order that leaves the least to chance, with eight independent
    scramblings of a Sobol sequence. The points double until the error is below the tolerance.

    Args:
        lower, upper, mean, cholesky, gap: see the module.
        log_weights: log weights (..., K) of boxes in mixtures over the last dim. The points then
            go where they count: until the error of the mixture's probability is small enough.
        tolerance: the relative error to reach.
        max_points: the most points of each scrambling.
        seed: seed of the scramblings; the same seed gives the same answer.

    Returns:
        The log probability, differentiable for fixed points, and the relative error of the
        probability, exceeded in about one of a thousand cases.

    >>> zero, one = torch.zeros(4), torch.eye(4)
    >>> log_box_qmc(zero - torch.inf, zero, zero, one)[0].exp()
    tensor(0.0625)
    """
    box, shape = flat_boxes(lower, upper, mean, cholesky, gap)
    members = 1 if log_weights is None else shape[-1]
    weights = torch.zeros(()) if log_weights is None else log_weights.detach()
    weights = weights.to(box.lower).expand(shape).reshape(-1, 1)
    box = ordered_boxes(box)[0]
    values = _sobol_sums(box, seed, 0, _FIRST_POINTS)  # (M, R), log sums over points
    points, counts = _FIRST_POINTS, torch.full_like(box.lower[:, :1], _FIRST_POINTS)
    while points < max_points:
        rows = _unfinished((values - counts.log() + weights).detach(), members, tolerance)
        if not len(rows):
            break
        more = _sobol_sums(box.take(rows), seed, points, points)
        values = values.index_put((rows,), torch.logaddexp(values[rows], more))
        counts = counts.index_put((rows,), 2 * counts[rows])
        points *= 2
    values = values - counts.log()
    log_mass = logsumexp(values) - math.log(_RANDOMISATIONS)
    error = _error(_scaled(values.detach(), values.detach().amax(-1, keepdim=True)))
    return log_mass.view(shape).to(lower.dtype), error[0].view(shape).to(lower.dtype)


@torch.no_grad()
def box_nodes(
    lower: Tensor, upper: Tensor, mean: Tensor, cholesky: Tensor, gap: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Place points of the unit cube, (..., N, n), inside each box by GHK.

    Returns:
        Deviations from the mean, (..., N, n), and log weights, (..., N): a weighted sample of the
        normal inside the box, whose mean weight is the box's probability.
    """
    box, shape = flat_boxes(lower, upper, mean, cholesky, gap)
    box, order = ordered_boxes(box)
    count, size = points.shape[-2:]
    u = points.to(box.lower).expand(*shape, count, size).reshape(-1, count, size)
    e, masses = _sequence(box, u)
    drawn = e @ box.cholesky.mT
    drawn = torch.zeros_like(drawn).scatter(2, order[:, None].expand_as(drawn), drawn)
    return drawn.view(*shape, count, size), masses.sum(-1).view(*shape, count)


def sample_box(
    lower: Tensor,
    upper: Tensor,
    mean: Tensor,
    cholesky: Tensor,
    gap: Tensor | None = None,
    *,
    rounds: int = 64,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw once from each normal truncated to its box, (..., n).

    Columns are proposed one by one, each inside its interval given those before. A proposal is
    accepted with the probability of the later intervals relative to its upper bound, which makes
    accepted draws exact. A box still open after `rounds` rounds gets one of 1024 fresh proposals by
    importance resampling, which is approximate. A box without mass gives NaN.

    >>> zero = torch.zeros(2)
    >>> bool((sample_box(zero, zero + 1, zero, torch.eye(2)) > 0).all())
    True
    """
    box, shape = flat_boxes(lower, upper, mean, cholesky, gap)
    with torch.no_grad():
        box, order = ordered_boxes(box)
        drawn = torch.full_like(box.lower, torch.nan)
        rows = (log_normal_interval(*box.interval(0)) > -torch.inf).nonzero().squeeze(-1)
        for _ in range(rounds):
            if not len(rows):
                break
            count = max(1, min(_PROPOSALS, _AT_ONCE // len(rows)))
            proposed, log_accept = _proposals(box.take(rows), count, generator)
            accepted = _uniform(log_accept, generator).log() < log_accept  # (m, proposals)
            done = accepted.any(1).nonzero().squeeze(-1)
            # argmax of a mask is its first true entry: the first accepted proposal.
            drawn[rows[done]] = proposed[done, accepted[done].to(torch.uint8).argmax(1)]
            rows = rows[~accepted.any(1)]
        for part in rows.split(_AT_ONCE // _RESAMPLED):
            proposed, log_weight = _proposals(box.take(part), _RESAMPLED, generator)
            alive = (log_weight.amax(1) > -torch.inf).nonzero().squeeze(-1)
            drawn[part[alive]] = proposed[alive, draw(log_weight[alive], generator)]
        drawn = torch.zeros_like(drawn).scatter(1, order, drawn).view(*shape, order.shape[1])
        # Adding the mean back may round past the bounds.
        return (drawn.to(lower.dtype) + mean).maximum(lower).minimum(upper)


def flat_boxes(
    lower: Tensor, upper: Tensor, mean: Tensor, cholesky: Tensor, gap: Tensor | None
) -> tuple[Box, torch.Size]:
    """Return centred boxes with one leading dim, and the leading dims they had."""
    size = lower.shape[-1]
    if cholesky.shape[-2:] != (size, size):
        raise ValueError(
            f"Expected `cholesky` to have shape (..., {size}, {size}) like `lower` (..., {size}); "
            f"got {tuple(cholesky.shape)}. Give one factor per box or one that broadcasts."
        )
    gap = upper.double() - lower.double() if gap is None else gap.double()
    ends = (lower.double() - mean.double(), upper.double() - mean.double(), gap)
    shape = torch.broadcast_shapes(*(x.shape[:-1] for x in ends), cholesky.shape[:-2])
    low, high, gap = (x.expand(*shape, size).reshape(-1, size) for x in ends)
    factor = cholesky.double().expand(*shape, size, size).reshape(-1, size, size)
    return Box(low, high, gap, factor), shape


def ordered_boxes(box: Box) -> tuple[Box, Tensor]:
    """Sort columns so that each is the least likely given those before; also return the order."""
    covariance = box.cholesky @ box.cholesky.mT
    order = _least_likely_first(box, covariance.detach())
    rows = order[:, :, None].expand_as(covariance)
    covariance = covariance.gather(1, rows).gather(2, rows.mT)
    low, high, gap = (x.gather(1, order) for x in box[:3])
    moved = (order.diff(dim=1) < 0).any(1)[:, None, None]
    # A box already in order keeps its factor, which is more accurate than that of its square.
    safe = torch.where(moved, covariance, torch.eye(order.shape[1]).to(covariance))
    factor = torch.where(moved, torch.linalg.cholesky(safe), box.cholesky)
    return Box(low, high, gap, factor), order


@torch.no_grad()
def _least_likely_first(box: Box, covariance: Tensor) -> Tensor:
    """Return the order of Gibson, Glasbey and Elston: (M, n).

    The next column is the one whose interval is least likely, given that the columns before it are
    at their means inside their intervals. Little is then left to vary along a path.
    """
    count, size = box.lower.shape
    variance = covariance.diagonal(dim1=1, dim2=2).clone()
    shift = torch.zeros_like(variance)
    columns = torch.zeros(count, size, 0).to(covariance)  # of the partial Cholesky factor
    placed = torch.zeros_like(variance, dtype=torch.bool)
    order = []
    for _ in range(size):
        scale = variance.sqrt()
        low, high, gap = (box.lower - shift) / scale, (box.upper - shift) / scale, box.gap / scale
        mass = _interval_masses(low, high, gap)[0].masked_fill(placed, torch.inf)
        at = mass.argmin(1, keepdim=True)  # (M, 1)
        order.append(at)
        placed = placed.scatter(1, at, True)
        ends = low.gather(1, at), high.gather(1, at)
        log_mass = mass.gather(1, at)
        middle = _truncated_mean(*ends, log_mass)
        row = at[..., None].expand(-1, 1, columns.shape[2])
        known = (columns @ columns.gather(1, row).mT).squeeze(-1)
        column = covariance.gather(2, at[:, None].expand(-1, size, 1)).squeeze(-1) - known
        column = column / scale.gather(1, at)
        columns = torch.cat([columns, column[..., None]], 2)
        shift = shift + column * middle
        left = variance - column.square()
        # Rounding may take a variance that is nearly explained to zero.
        variance = torch.where(placed, 1.0, left.clamp_min(1e-14))
    return torch.cat(order, 1)


def _truncated_mean(low: Tensor, high: Tensor, log_mass: Tensor) -> Tensor:
    """Return the mean of the standard normal inside intervals, 0 in those without mass."""
    inward = (log_normal_density(low) - log_mass).exp()
    outward = (log_normal_density(high) - log_mass).exp()
    # In a narrow interval the difference cancels, so it is kept inside.
    return (inward - outward).fmax(low).fmin(high).nan_to_num(0.0)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def _over(x: Tensor, scale: Tensor) -> Tensor:
    """Divide; an infinite end stays, and gives the scale no gradient (which would be 0 * inf)."""
    if not torch.is_grad_enabled():
        return x / scale
    infinite = x.isinf()
    return torch.where(infinite, x, torch.where(infinite, 0.0, x) / scale)


def _interval_masses(
    low: Tensor, high: Tensor, gap: Tensor, u: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return the log probability of intervals and, for levels u, the quantile inside each."""
    # The end nearer to the centre decides how far out an interval lies.
    nearer = low.clamp_min(0.0) + high.clamp_max(0.0)
    if not bool(((gap > _WIDE) & (nearer.abs() < _NEAR)).all()):
        return _far_interval(low, high, gap, u)
    mirrored = low + high > 0
    start, end = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    # By erfc, which is precise in the lower tail, where torch's `ndtr` is not.
    below = 0.5 * torch.special.erfc(-_SQRT_HALF * start)
    mass = 0.5 * torch.special.erfc(-_SQRT_HALF * end) - below
    if u is None:
        return mass.log(), None
    y = torch.special.ndtri(below + torch.where(mirrored, 1 - u, u) * mass)
    y = torch.where(mirrored, -y, y)
    return mass.log(), y.maximum(low).minimum(high)


def _far_interval(
    low: Tensor, high: Tensor, gap: Tensor, u: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the same as `_interval_masses` for intervals that may be narrow, empty or far out."""
    mass = log_normal_interval(low, high, gap)
    if u is None:
        return mass, None
    # A path without mass continues with harmless numbers; its weight is already zero.
    dead = mass == -torch.inf
    alive = torch.where(dead, 0.0, mass)
    log_cdf = torch.logaddexp(log_normal_cdf(low), u.log() + alive)
    log_sf = torch.logaddexp(log_normal_cdf(-high), torch.log1p(-u) + alive)
    y = normal_quantile(torch.where(dead, -1.0, log_cdf), torch.where(dead, -1.0, log_sf))
    return mass, torch.where(dead, 0.0, y.maximum(low).minimum(high))


def _sequence(box: Box, u: Tensor) -> tuple[Tensor, Tensor]:
    """Draw column by column inside the box, from uniforms (M or 1, N, n - 1 or n).

    Returns:
        The independent coordinates of the drawn columns, and the log probability of each interval
        given the columns before it, (M, N, n).
    """
    size, drawn_columns = box.lower.shape[1], u.shape[2]
    shift = torch.zeros(len(box.lower), u.shape[1]).to(box.lower)
    drawn: list[Tensor] = []
    masses: list[Tensor] = []
    for j in range(size):
        level = u[..., j] if j < drawn_columns else None
        mass, y = _interval_masses(*box.interval(j, shift), level)
        masses.append(mass)
        if y is None:
            break
        drawn.append(y)
        if j + 1 < size:
            shift = (torch.stack(drawn, -1) @ box.cholesky[:, j + 1, : j + 1, None]).squeeze(-1)
    return torch.stack(drawn, -1), torch.stack(masses, -1)


def _drawn(box: Box) -> int:
    """Return how many columns are drawn: not the last, but an engine needs a dimension."""
    return max(1, box.lower.shape[1] - 1)


def _sobol_sums(box: Box, seed: int, first: int, points: int) -> Tensor:
    """Return the log of the sums over points `first` and following of each scrambling, (M, R)."""
    make = _kept_points if points <= _MOST_KEPT else _sobol_points
    u = make(_drawn(box), seed, first, points).to(box.lower.device)[None]  # (1, R * N, n - 1)
    index = torch.arange(len(box.lower), device=u.device)
    sums = []
    for part in index.split(max(1, _AT_ONCE // u.shape[1])):
        masses = _sequence(box.take(part), u)[1].sum(-1)
        sums.append(logsumexp(masses.view(len(part), _RANDOMISATIONS, points)))
    return torch.cat(sums)


def _sobol_points(columns: int, seed: int, first: int, points: int) -> Tensor:
    """Return points `first` and following of all scramblings, (R * N, columns)."""
    source = torch.Generator().manual_seed(seed)
    seeds = torch.randint(1 << 31, (_RANDOMISATIONS,), generator=source, device="cpu").tolist()
    with torch.inference_mode(False):  # they serve training too
        engines = [SobolEngine(columns, scramble=True, seed=s).fast_forward(first) for s in seeds]
        # Sobol points are multiples of 2^-30; half a step keeps them off 0 and 1.
        return torch.cat([e.draw(points, dtype=torch.float64) for e in engines]) + 2.0**-31


_kept_points = lru_cache(maxsize=32)(_sobol_points)


def _scaled(values: Tensor, top: Tensor) -> Tensor:
    """Return probabilities of log values relative to a largest one; 0 where all are 0."""
    return (values - torch.where(top == -torch.inf, 0.0, top)).exp()


def _error(scaled: Tensor) -> tuple[Tensor, Tensor]:
    """Return the relative and the absolute error of means over the scramblings, (...,) each."""
    mean, deviation = scaled.mean(-1), scaled.std(-1)
    error = _STANDARD_ERRORS * deviation / _RANDOMISATIONS**0.5
    return torch.where(error > 0, error / mean, 0.0), error


def _unfinished(values: Tensor, members: int, tolerance: float) -> Tensor:
    """Return the places of boxes that need more points, from weighted log values (M, R)."""
    grouped = values.view(-1, members, _RANDOMISATIONS)  # (G, K, R)
    scaled = _scaled(grouped, grouped.amax((1, 2), keepdim=True))
    error = _error(scaled)[1]  # (G, K)
    goal = tolerance * scaled.mean(-1).sum(1, keepdim=True)
    late = error.square().sum(1, keepdim=True).sqrt() > goal
    # Only boxes with at least an equal part in the error that is allowed.
    return (late & (error * members**0.5 > goal)).flatten().nonzero().squeeze(-1)


def _proposals(box: Box, count: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Return proposals (M, count, n) and the log probability to accept each, (M, count)."""
    like = box.lower[:, None, :].expand(-1, count, -1)
    u = _uniform(like, generator).clamp(2.0**-54, 1 - 2.0**-53)
    y, masses = _sequence(box, u)
    half = 0.5 * box.gap / box.cholesky.diagonal(dim1=1, dim2=2)
    # Of all intervals of one width, the one around 0 has the most mass.
    most = log_normal_interval(-half, half, 2 * half)[:, None]
    drawn = (box.cholesky[:, None] @ y[..., None]).squeeze(-1)
    return drawn, (masses - most)[..., 1:].sum(-1).clamp(max=0.0)
