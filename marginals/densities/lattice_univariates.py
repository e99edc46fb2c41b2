"""Univariate conditionals of coupled lattice columns: sums over cells."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, final

import torch
from torch import Tensor

from marginals.densities.coupled_lattices import CoupledLattices, Settled
from marginals.densities.coupled_univariates import ScaledMixtures
from marginals.densities.univariates import (
    LeafMixtures,
    Univariates,
    columns_first,
    columns_last,
)
from marginals.leaves import LeafEvaluation
from marginals.leaves.shared import standardise
from marginals.numerics import log1mexp, log_normal_density, logsumexp

# Cells times components of rows whose densities are held at once; bounds the memory.
_AT_ONCE = 1 << 22
# Log of a mass beyond the table from which on brackets of quantiles reach there.
_MUCH = math.log(1e-6)
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

    @property
    def terms(self) -> int:
        """How many terms are summed at each point: those of the mixture, if it counts.

        Inside the table a point is looked up.
        """
        masses = self.masses
        beyond = torch.logaddexp(masses.below[:, 0], masses.above[:, -1])
        return self.smooth.terms if bool((beyond > _MUCH).any()) else 1

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
        log_cdf, log_sf, _ = self._log_tails(x)
        density = self.smooth.logpdf(x) - self.masses.total[:, None]
        return LeafEvaluation(log_cdf, log_sf, density)

    def logcdf(self, x: Tensor) -> Tensor:
        """Return the log CDF at `x` (..., B, n)."""
        return self._log_tails(x)[0]

    def cdf(self, x: Tensor) -> Tensor:
        """Return the CDF at `x` (..., B, n), to absolute machine precision."""
        cells, shape = columns_first(x, self.log_evidence.shape)  # (1, Q, B)
        at, masses = cells[0].T, self.masses  # (B, Q)
        place, share = self._place(at)
        below, mass = masses.below.exp().gather(1, place), masses.cells.exp().gather(1, place)
        value = below + share * mass
        outside = (at < self.table[0][0]) | (at > self.table[0][-1])
        if bool(outside.any()):
            scale = (-masses.total[:, None]).exp()
            smooth = self.smooth.cdf(cells.movedim(0, -1))[..., 0].T  # (B, Q)
            far = torch.where(share > 0, 1 - scale * (1 - smooth), scale * smooth)
            value = torch.where(outside, far, value)
        return columns_last(value.clamp_max(1.0).T[None], shape)

    def logsf(self, x: Tensor) -> Tensor:
        """Return the log survival function at `x` (..., B, n)."""
        return self._log_tails(x)[1]

    def _log_tails(self, x: Tensor, plain: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logs of CDF, survival function and slope of the CDF at `x`, (..., B, n).

        Inside the table the slope is that of the line through the cell, which costs a look-up; the
        density would cost a sum over the components at every point. With `plain`, sums beyond the
        table are in plain numbers, which underflow far out.
        """
        cells, shape = columns_first(x, self.log_evidence.shape)  # (1, Q, B)
        at, masses, ends = cells[0].T, self.masses, self.table[0]  # (B, Q)
        place, share = self._place(at)
        mass = masses.cells.gather(1, place)
        below = torch.logaddexp(masses.below.gather(1, place), mass + share.log())
        above = torch.logaddexp(masses.above.gather(1, place + 1), mass + torch.log1p(-share))
        slope = mass - ends.diff().log().to(mass)[place]
        before, after = at < ends[0], at > ends[-1]
        beyond = before | after
        if bool(beyond.any()):
            smooth = self._beyond(at, beyond, plain)
            low, high, density = (
                part - masses.total[:, None]
                for part in (smooth.log_cdf, smooth.log_sf, smooth.log_density)
            )
            first, last = masses.below[:, :1], masses.above[:, -1:]
            # Below the table: what is left up to its first end, and everything above that end.
            rest = first + log1mexp((low - first).clamp_max(0.0))
            more = last + log1mexp((high - last).clamp_max(0.0))
            rest = torch.logaddexp(masses.above[:, :1], rest)
            more = torch.logaddexp(masses.below[:, -1:], more)
            below = torch.where(before, low, torch.where(after, more, below))
            above = torch.where(before, rest, torch.where(after, high, above))
            slope = torch.where(beyond, density, slope)
        below, above, slope = (
            columns_last(part.T[None], shape)
            for part in (below.clamp_max(0.0), above.clamp_max(0.0), slope)
        )
        return below, above, slope

    def tails(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return CDF, survival function and slope of the CDF at `x` (..., B, n)."""
        below, above, slope = (part.exp() for part in self._log_tails(x, plain=True))
        return below, above, slope

    def _beyond(self, at: Tensor, chosen: Tensor, plain: bool) -> LeafEvaluation:
        """Evaluate the smooth mixture at some points (B, Q), and leave zeros elsewhere.

        Points beyond the table are few, and each costs a sum over the components of its row.
        """
        row, level = chosen.nonzero(as_tuple=True)

        def evaluated(rows: Tensor, levels: Tensor) -> LeafEvaluation:
            smooth, points = self.smooth.take(0, rows), at[rows, levels, None]
            if not plain:
                return smooth.evaluate(points)
            return LeafEvaluation(*(part.log() for part in smooth.tails(points)))

        parts = [evaluated(rows, levels) for rows, levels in self._in_parts(row, level)]

        def placed(values: Iterable[Tensor]) -> Tensor:  # each (points, 1)
            out = torch.zeros_like(at)
            return out.index_put((row, level), torch.cat(list(values))[:, 0].to(at.dtype))

        return LeafEvaluation(
            placed(part.log_cdf for part in parts),
            placed(part.log_sf for part in parts),
            placed(part.log_density for part in parts),
        )

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        low, shape = columns_first(log_u, self.log_evidence.shape)
        high, _ = columns_first(log_1mu, self.log_evidence.shape)
        masses = self.masses
        u, rest = (level[0].T.double().contiguous() for level in (low, high))  # (B, Q)
        below, above = masses.below.double().contiguous(), masses.above.double()
        # The first cell whose CDF reaches u or, above the median, beyond which at most 1 - u is
        # left. Levels a rounding error past an end are that end, as for categories.
        error = 8 * torch.finfo(masses.below.dtype).eps
        up = torch.searchsorted(below[:, 1:].contiguous(), (u - error).contiguous())
        down = torch.searchsorted(-above[:, 1:].contiguous(), (-rest - error).contiguous())
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
            row, level = outside.nonzero(as_tuple=True)
            far = torch.cat(
                [
                    self.smooth.take(0, rows).quantile(
                        (u + total)[rows, levels, None], (rest + total)[rows, levels, None]
                    )[:, 0]
                    for rows, levels in self._in_parts(row, level)
                ]
            ).to(x)
            low_side = u[row, level] < rest[row, level]
            far = torch.where(low_side, far.clamp(max=ends[0]), far.clamp(min=ends[-1]))
            x = x.index_put((row, level), far)
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

    def pruned(self, error: float) -> "LatticeMixtures":
        """Return these without terms that together move no CDF by more than `error`."""
        kept = self.smooth.pruned(error)
        # Masses that have been computed are worth more.
        if kept is self.smooth or "masses" in self.__dict__:
            return self
        return LatticeMixtures(kept, self.table)

    def take(self, place: int, rows: Tensor) -> "LatticeMixtures":
        """Return the distributions of one column, by its place, given some rows of evidence."""
        return LatticeMixtures(self.smooth.take(place, rows), self.table)

    def _in_parts(self, row: Tensor, level: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Split points, by row and level, into parts that are held at once."""
        size = max(1, _AT_ONCE // (8 * self.smooth.centre.shape[-1]))
        return zip(row.split(size), level.split(size), strict=True)

    def _place(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cells that hold x, and the shares of them up to x."""
        ends = self.table[0].to(x)
        place = (torch.searchsorted(ends, x.contiguous()) - 1).clamp(0, len(ends) - 2)
        share = (x - ends[place]) / (ends[place + 1] - ends[place])
        return place, share.clamp(0.0, 1.0)


def on_lattices(found: ScaledMixtures, lattices: CoupledLattices) -> list[Univariates]:
    """Return the lattice columns in their own parts, the others in one."""
    places = {c: i for i, c in enumerate(found.columns) if c in lattices.tabulated}
    rest = [i for i, c in enumerate(found.columns) if c not in places]
    smooth: list[Univariates] = [found.some(rest)] if rest else []
    return smooth + [LatticeMixtures(found.some([i]), lattices.table(c)) for c, i in places.items()]


def leaf_mixtures_of(found: LeafMixtures, given: Settled) -> LeafMixtures:
    """Return mixtures for the rows of evidence from those given its points."""
    joint = found.log_weights.transpose(0, 1) + found.log_evidence[..., None]  # (R, n, M)
    return LeafMixtures(found.leaves, found.columns, given.summed(joint).transpose(0, 1))


def scaled_mixtures_of(found: ScaledMixtures, given: Settled) -> ScaledMixtures:
    """Return mixtures for the rows of evidence from those given its points."""
    if not given.is_expanded:
        # The cell of a column itself is no evidence about it.
        widths = [given.log_widths(c).to(found.log_evidence) for c in found.columns]
        found.log_evidence = found.log_evidence + torch.stack(widths, 1)
        return found
    total = found.log_evidence + given.log_widths().to(found.log_evidence)[:, None]

    def gathered(part: Tensor, fill: float) -> Tensor:  # (n, R, M) to (n, B, P M)
        return given.gathered(part.transpose(0, 1), fill).permute(2, 0, 1, 3).flatten(2)

    return ScaledMixtures(
        found.family,
        found.own,
        found.columns,
        gathered(found.log_weights + total.T[..., None], -torch.inf),
        gathered(found.centre, 0.0),
        gathered(found.log_width, 0.0),
    )
