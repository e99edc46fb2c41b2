"""Coupled cells as scores, and the probability of the intervals among them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled_lattices import Components
from marginals.leaves import SharedLeaves
from marginals.leaves.shared import standardise
from marginals.numerics import factors, log_normal_interval, table_of
from marginals.numerics.normal_boxes import log_box


@final
@dataclass(frozen=True)
class Tied:
    """Cells of J coupled columns on the scale of the scores of K components.

    Args:
        scores: of exact cells, (B, K, J).
        log_slope: log of the slopes from values to scores of a row's exact cells, (B, K).
        loadings, unique: of the components, (K, J, r) and (K, J).
        exact: which cells are exact, (B, J).
        low, high, gap: ends of the cells as scores, and their difference, (B, K, J); infinite where
            a cell is no interval. None without intervals.
        patterns: masks (P, J) of exact cells, one of which each row has, if they are few.
    """

    scores: Tensor
    log_slope: Tensor
    loadings: Tensor
    unique: Tensor
    exact: Tensor
    low: Tensor | None = None
    high: Tensor | None = None
    gap: Tensor | None = None
    patterns: Tensor | None = None

    def ends(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the ends and their difference."""
        assert self.low is not None
        assert self.high is not None
        assert self.gap is not None
        return self.low, self.high, self.gap

    def counts(self) -> Tensor:
        """Return the number of intervals in each row, (B,)."""
        return self.inside().sum(1)

    def inside(self) -> Tensor:
        """Return which cells are intervals, (B, J)."""
        low, high, _ = self.ends()
        return ~((low[:, 0] == -torch.inf) & (high[:, 0] == torch.inf))


def tie(
    family: SharedLeaves,
    own: Sequence[int],
    parts: Components,
    cells: Evidence,
    dtype: torch.dtype | None = None,
) -> Tied:
    """Bring coupled cells onto the scale of their components' scores.

    Args:
        family: the leaves, whose learned scales are used.
        own: the columns' positions in the family.
        parts: the components of these columns.
        cells: the evidence about them.
        dtype: of the ends of intervals.
    """
    lower, upper = cells.by_column()
    exact = lower == upper  # (n, B)
    y, log_slope = family.scale(torch.where(exact, upper, torch.nan), own)
    location, log_scale = parts.location, parts.log_scale  # (n, K)
    z = standardise(y[..., None], location[:, None], log_scale.exp()[:, None])  # (n, B, K)
    slope = torch.where(exact, log_slope, 0.0).sum(0)[:, None]
    widths = exact.T.to(log_scale.dtype) @ log_scale
    low = high = gap = None
    if cells.has_intervals:
        inside = (lower < upper) & ~((lower == -torch.inf) & (upper == torch.inf))
        bounds = torch.where(inside, lower, -torch.inf), torch.where(inside, upper, torch.inf)
        ends = family.learned.ends(*bounds, own, dtype)
        centre, spread = (t[:, None].to(ends[0]) for t in (location, log_scale.exp()))
        low, high = (
            standardise(end[..., None], centre, spread).permute(1, 2, 0) for end in ends[:2]
        )
        # A finite end may overflow, but (inf, inf] would be no interval at all.
        limits = torch.finfo(low.dtype)
        low, high = low.clamp(max=limits.max), high.clamp(min=limits.min)
        gap = divided(ends[2][..., None], spread).permute(1, 2, 0)
    seen = () if cells.intervals else cells.patterns
    places = [[cells.columns.index(c) for c in known] for known in seen]
    return Tied(
        scores=z.permute(1, 2, 0),
        log_slope=slope - widths,
        loadings=parts.loadings,
        unique=parts.unique,
        exact=exact[:, :1].T if cells.complete else exact.T,  # one pattern for all rows
        low=low,
        high=high,
        gap=gap,
        patterns=table_of(places, len(own), exact.device) if places else None,
    )


def log_intervals(tied: Tied, log_weights: Tensor | None = None) -> Tensor:
    """Return the log probability of each row's intervals given its exact cells, (B, K).

    Rows are grouped by method: one interval is exact, two take quadrature, more quasi-Monte Carlo.

    Args:
        tied: the cells.
        log_weights: of the components without the intervals, (B, K). The error of three or more
            intervals is then that of their mixture, which takes far fewer points.
    """
    counts = tied.counts()
    posterior = factors.posterior_of_factors(tied.scores, tied.loadings, tied.unique, tied.exact)
    out = tied.scores.new_zeros(tied.scores.shape[:2], dtype=torch.float64)
    for rows in ((counts == 1), (counts == 2), (counts > 2)):
        index = rows.nonzero()[:, 0]
        if len(index):
            most = int(counts[index].max())
            weights = None if log_weights is None else log_weights[index]
            part = _log_group(tied, posterior, index, most, weights)
            out = out.index_copy(0, index, part.double())
    return out


def interval_places(tied: Tied, rows: Tensor, most: int) -> Tensor:
    """Return the places (b, c) of the intervals of some rows, padded with cells that are open."""
    inside = tied.inside()[rows].to(torch.int8)
    return inside.argsort(dim=1, descending=True, stable=True)[:, :most]


def _log_group(
    tied: Tied,
    posterior: factors.FactorPosterior,
    rows: Tensor,
    most: int,
    log_weights: Tensor | None,
) -> Tensor:
    """Return the log probabilities (b, K) of rows with at most `most` intervals."""
    at = interval_places(tied, rows, most)
    low, high, gap = (gather_cells(end[rows], at) for end in tied.ends())  # (b, K, c)
    mean, cholesky = conditional_of_cells(
        tied.loadings[:, at].transpose(0, 1),  # (b, K, c, r)
        tied.unique[:, at].transpose(0, 1),  # (b, K, c)
        posterior.mean[rows],  # (b, K, r)
        posterior.cholesky[posterior.index[rows]],  # (b, K, r, r)
    )
    if most > 1:
        return log_box(low, high, mean, cholesky, gap, log_weights)
    scale = cholesky[..., 0].to(low.dtype)  # (b, K, 1)
    low, high = (divided(end, scale, mean) for end in (low, high))
    return log_normal_interval(low, high, divided(gap, scale))[..., 0]


def conditional_of_cells(
    loadings: Tensor, unique: Tensor, factor: Tensor, cholesky: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean (..., c) and Cholesky factor (..., c, c) of cells, given those of the factors."""
    mean = (loadings * factor[..., None, :]).sum(-1)
    half = torch.linalg.solve_triangular(cholesky, loadings.double().mT, upper=False)
    covariance = half.mT @ half + torch.diag_embed(unique.double())
    return mean, torch.linalg.cholesky(covariance)


def gather_cells(values: Tensor, at: Tensor) -> Tensor:
    """Return the cells (b, K, c) of (b, K, J) at places (b, c)."""
    return values.gather(2, at[:, None].expand(-1, values.shape[1], -1))


def divided(end: Tensor, scale: Tensor, mean: Tensor | float = 0.0) -> Tensor:
    """Return (end - mean) / scale; an infinite end stays, and gives no gradient (0 * inf)."""
    infinite = end.isinf()
    return torch.where(infinite, end, (torch.where(infinite, 0.0, end) - mean) / scale)
