"""Univariate conditionals of coupled lattice columns: sums over cells."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, final

import torch
from torch import Tensor

from marginals.densities.coupled_univariates import ScaledMixtures
from marginals.densities.univariates import Univariates, columns_first, columns_last
from marginals.leaves import LeafEvaluation
from marginals.leaves.shared import standardise
from marginals.numerics import log1mexp, log_normal_density, logsumexp

# Cells times components of rows whose densities are held at once; bounds the memory.
_AT_ONCE = 1 << 22
# Quantiles keep this share of a cell from its ends, so that rounding leaves them in the cell.
_INSIDE = 1e-3


class _Masses(NamedTuple):
    """Log masses of one column for B rows."""

    cells: Tensor  # (B, C)
    below: Tensor  # (B, C + 1), of everything up to each end
    above: Tensor  # (B, C + 1), of everything beyond each end
    total: Tensor  # (B,), by which all were divided: zero but for the error of the sum


@final
class LatticeMixtures(Univariates):
    """The distribution of one lattice column, of which each cell has the mass of its point.

    Inside a cell the CDF rises in a line; the density is that of the normal mixture, whose values
    at the points, times the widths, are the masses. Beyond the table the mixture itself counts.

    Args:
        smooth: the normal mixtures of the column on its learned scale.
        table: ends (C + 1,), points (C,) and log widths (C,) of the cells.
    """

    def __init__(self, smooth: ScaledMixtures, table: tuple[Tensor, Tensor, Tensor]) -> None:
        assert len(smooth.columns) == 1
        self.smooth, self.table = smooth, table
        self.columns, self.log_evidence = smooth.columns, smooth.log_evidence
        self.discrete = (False,)

    @cached_property
    def masses(self) -> _Masses:
        """The masses of the cells, which sum to one with those beyond the table."""
        ends, points, log_widths = self.table
        y, log_slope = self.smooth.family.scale(points[None], self.smooth.own)
        centre, log_width = self.smooth.centre[0], self.smooth.log_width[0]  # (B, M)
        weights = self.smooth.log_weights[0] - log_width
        size = max(1, _AT_ONCE // (len(points) * centre.shape[1]))
        parts = []
        for start in range(0, max(1, len(centre)), size):
            rows = slice(start, start + size)
            spread = log_width[rows, None].exp()
            z = standardise(y[0, None, :, None], centre[rows, None], spread)  # (b, C, M)
            parts.append(logsumexp(weights[rows, None] + log_normal_density(z)))
        cells = torch.cat(parts) + log_slope + log_widths.to(y)  # (B, C)
        outer = self.smooth.evaluate(ends[[0, -1]].to(y)[:, None, None])  # (2, B, 1)
        below = torch.cat([outer.log_cdf[0], cells], 1).logcumsumexp(1)  # (B, C + 1)
        above = torch.cat([cells, outer.log_sf[1]], 1).flip(1).logcumsumexp(1).flip(1)
        total = torch.logaddexp(below[:, -1], outer.log_sf[1, :, 0])
        less = total[:, None]
        return _Masses(cells - less, below - less, above - less, total)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        """Return log CDF, log survival function and log density at `x`, each (..., B, n)."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (1, Q, B)
        at, masses = cells[0].T, self.masses  # (B, Q)
        place, share = self._place(at)
        mass = masses.cells.gather(1, place)
        below = torch.logaddexp(masses.below.gather(1, place), mass + share.log())
        above = torch.logaddexp(masses.above.gather(1, place + 1), mass + torch.log1p(-share))
        smooth = self.smooth.evaluate(cells.movedim(0, -1))
        low, high, density = (
            part[..., 0].T - masses.total[:, None]
            for part in (smooth.log_cdf, smooth.log_sf, smooth.log_density)
        )
        before, after = at < self.table[0][0], at > self.table[0][-1]
        first, last = masses.below[:, :1], masses.above[:, -1:]
        # Beyond the table: up to its first end, and everything above that end.
        rest = torch.logaddexp(masses.above[:, :1], first + log1mexp((low - first).clamp_max(0.0)))
        more = torch.logaddexp(masses.below[:, -1:], last + log1mexp((high - last).clamp_max(0.0)))
        below = torch.where(before, low, torch.where(after, more, below))
        above = torch.where(before, rest, torch.where(after, high, above))
        log_cdf, log_sf, log_density = (
            columns_last(part.clamp_max(0.0).T[None] if i < 2 else part.T[None], shape)
            for i, part in enumerate((below, above, density))
        )
        return LeafEvaluation(log_cdf, log_sf, log_density)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        low, shape = columns_first(log_u, self.log_evidence.shape)
        high, _ = columns_first(log_1mu, self.log_evidence.shape)
        masses = self.masses
        u, rest = low[0].T.double(), high[0].T.double()  # (B, Q)
        below, above = masses.below.double().contiguous(), masses.above.double()
        # The first cell whose CDF reaches u; above the median, where the rest is no more than 1 - u.
        # Levels a rounding error past an end are that end, as for categories.
        error = 8 * torch.finfo(masses.below.dtype).eps
        up = torch.searchsorted(below[:, 1:].contiguous(), u - error)
        down = torch.searchsorted(-above[:, 1:].contiguous(), -rest - error)
        place = torch.where(u < rest, up, down)
        cell = place.clamp(0, masses.cells.shape[1] - 1)
        mass = masses.cells.double().gather(1, cell).exp()
        from_low = (u.exp() - below.gather(1, cell).exp()) / mass
        from_high = 1 - (rest.exp() - above.gather(1, cell + 1).exp()) / mass
        share = torch.where(u < rest, from_low, from_high).nan_to_num(0.5)
        ends = self.table[0].double()
        share = share.clamp(_INSIDE, 1 - _INSIDE)
        x = ends[cell] + share * (ends[cell + 1] - ends[cell])
        outside = (u < below[:, :1]) | (rest < above[:, -1:])
        if bool(outside.any()):
            total = masses.total.double()[:, None]
            levels = (level.T[..., None] for level in (u + total, rest + total))
            far = self.smooth.quantile(*levels)[..., 0].T.double()
            far = torch.where(u < rest, far.clamp(max=ends[0]), far.clamp(min=ends[-1]))
            x = torch.where(outside, far, x)
        return columns_last(x.T[None], shape)

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n): a sum over the points, and one step beyond the table."""
        ends, points, _ = self.table
        first, last = 2 * ends[:1] - points[:1], 2 * ends[-1:] - points[-1:]
        every = torch.cat([first, points, last])[None]
        masses = self.masses
        mass = torch.cat([masses.below[:, :1], masses.cells, masses.above[:, -1:]], 1).exp()
        values = function(every, self.columns)[0]
        terms = torch.where(mass > 0, mass * values, 0.0)
        return terms.sum(1, keepdim=True)

    def take(self, place: int, rows: Tensor) -> "LatticeMixtures":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        return LatticeMixtures(self.smooth.take(place, rows), self.table)

    def _place(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cells that hold x, and the shares of them up to x."""
        ends = self.table[0].to(x)
        place = (torch.searchsorted(ends, x.contiguous()) - 1).clamp(0, len(ends) - 2)
        share = (x - ends[place]) / (ends[place + 1] - ends[place])
        return place, share.clamp(0.0, 1.0)
