"""Draws of coupled columns: scores given exact cells and intervals, and cells of lattices."""

from typing import NamedTuple

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.coupled_components import Components
from marginals.densities.coupled_intervals import Tied, conditional_of_cells, interval_places
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.leaves import SharedLeaves
from marginals.numerics import factors, log_normal_density, normal_cdf
from marginals.numerics.ghk import sample_box

# The largest ratio of the mass of a lattice cell to its normal probability: 1.07 where cells have
# one width and the deviation is 0.8 of them, and more where neighbouring widths differ.
_MOST_RATIO = 1.5
# Rounds of rejection, each of which accepts about two thirds of what is left.
_MOST_ROUNDS = 40


class Drawn(NamedTuple):
    """Drawn scores of all J coupled columns."""

    scores: Tensor  # (B, S, J)
    fitted: Tensor  # (B, S, J), their means given the drawn factors
    held: Tensor  # (B, S, J), whether a cell was exact or an interval


def draw_scores(
    tied: Tied,
    components: Tensor,
    dtype: torch.dtype,
    generator: torch.Generator | None = None,
) -> Drawn:
    """Draw the scores of all columns given exact cells and intervals.

    The intervals come first, exactly (see `numerics.ghk.sample_box` for rows of tiny
    probability), then all other cells given them.

    Args:
        tied: the coupled cells.
        components: of each draw, (B, S).
        dtype: of the scores.
        generator: source of the draws.
    """
    loadings, unique = tied.loadings.to(dtype), tied.unique.to(dtype)
    if tied.low is None:
        parts = (tied.scores.to(dtype), loadings, unique, tied.exact)
        scores, fitted = factors.sample_with_means(*parts, components, generator)
        return Drawn(scores, fitted, tied.exact[:, None].expand_as(scores))
    rows, draws = components.shape
    index = torch.arange(rows, device=components.device).repeat_interleave(draws)  # (N,)
    chosen = components.flatten()
    posterior = factors.posterior_of_factors(tied.scores, tied.loadings, tied.unique, tied.exact)
    scores, inside = tied.scores[index, chosen].to(dtype), tied.inside()[index]  # (N, J)
    most = int(tied.counts().max()) if rows else 0
    if most:
        at = interval_places(tied, index, most)  # (N, c)
        mean, cholesky = conditional_of_cells(
            tied.loadings[chosen[:, None], at],
            tied.unique[chosen[:, None], at],
            posterior.mean[index, chosen],
            posterior.cholesky[posterior.index[index], chosen],
        )
        low, high, gap = (end[index, chosen].gather(1, at) for end in tied.ends())
        drawn = sample_box(low, high, mean, cholesky, gap, generator=generator)
        kept = torch.where(inside.gather(1, at), drawn.to(scores), scores.gather(1, at))
        scores = scores.scatter(1, at, kept)
    # One component per row: the scores of the others are not read.
    wide = scores[:, None].expand(-1, tied.scores.shape[1], -1)
    known = tied.exact[index] | inside
    parts = (wide, loadings, unique, known)
    drawn, fitted = factors.sample_with_means(*parts, chosen[:, None], generator)
    shape = (rows, draws, scores.shape[1])
    return Drawn(drawn.reshape(shape), fitted.reshape(shape), known.reshape(shape))


def draw_values(
    drawn: Drawn,
    chosen: Tensor,
    family: SharedLeaves,
    parts: Components,
    lattices: CoupledLattices,
    cells: Evidence,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Turn drawn scores into values of the coupled columns, (B, S, J).

    Args:
        drawn: the scores.
        chosen: the component of each draw, (B, S).
        family: the leaves, whose learned scales are used.
        parts: all components.
        lattices: of the columns whose draws are points of cells.
        cells: evidence about all coupled columns, which the draws respect to the last digit.
        generator: source of the draws.
    """
    every = range(drawn.scores.shape[-1])
    like = drawn.scores
    spread = parts.log_scale.exp().to(like).T[chosen]  # (B, S, J)
    location = parts.location.to(like).T[chosen]
    y, middle = (location + spread * z for z in (drawn.scores, drawn.fitted))
    x = family.unscale(y.flatten(0, 1).T, every).to(cells.lower.dtype)  # (J, B S)
    spread = spread * parts.unique.to(like)[chosen].sqrt()
    for column in lattices.tabulated:
        j = cells.columns.index(column)
        free = ~drawn.held[..., j].flatten()
        normal = middle[..., j].flatten()[free], spread[..., j].flatten()[free]
        x[j, free] = _draw_cells(family, j, lattices.table(column), x[j, free], normal, generator)
    lower, upper = cells.repeat(chosen.shape[1]).by_column()
    least = lower.nextafter(torch.full_like(lower, torch.inf))
    x = torch.where(lower.isnan(), x, x.clamp(least, upper))
    x = torch.where(lower == upper, lower, x)
    return x.T.reshape(*chosen.shape, len(every))


def _draw_cells(
    family: SharedLeaves,
    own: int,
    table: tuple[Tensor, Tensor, Tensor],
    x: Tensor,
    normal: tuple[Tensor, Tensor],
    generator: torch.Generator | None = None,
) -> Tensor:
    """Turn draws of one lattice column into points of its cells, drawn by their masses, (N,).

    Given the factors a column is normal and independent of the others. The cell of a draw is
    accepted by the ratio of its mass to its normal probability, else drawn again. Draws beyond the
    table stay as they are.

    Args:
        family: the leaves, whose learned scale is used.
        own: the position of the column in the family.
        table: ends, points and log widths of the cells.
        x: draws from the normal distributions, (N,).
        normal: their means and deviations on the learned scale, (N,) each.
        generator: source of the draws.
    """
    ends, points, log_widths = table
    y_ends = family.scale(ends[None], [own])[0][0]
    y, log_slope = (part[0] for part in family.scale(points[None], [own]))
    log_width = log_slope + log_widths.to(log_slope)
    out, left = x.clone(), torch.arange(len(x), device=x.device)
    for _ in range(_MOST_ROUNDS):
        if not len(left):
            break
        mean, spread = (part[left] for part in normal)
        place = torch.searchsorted(ends.to(out), out[left]) - 1
        inside = (place >= 0) & (place < len(points))
        cell = place.clamp(0, len(points) - 1)
        z = (y[cell] - mean) / spread
        mass = (log_normal_density(z) + log_width[cell] - spread.log()).exp()
        low, high = ((y_ends[cell + i] - mean) / spread for i in (0, 1))
        chance = (normal_cdf(high) - normal_cdf(low)).clamp_min(torch.finfo(mass.dtype).tiny)
        ratio = torch.where(inside, mass / chance, 1.0) / _MOST_RATIO
        level = torch.rand(len(left), dtype=ratio.dtype, device=x.device, generator=generator)
        accepted = level < ratio
        held = left[accepted]
        out[held] = torch.where(inside[accepted], points[cell[accepted]].to(out), out[held])
        left = left[~accepted]
        mean, spread = (part[left] for part in normal)
        noise = torch.randn(len(left), dtype=mean.dtype, device=x.device, generator=generator)
        out[left] = family.unscale((mean + spread * noise)[None], [own])[0].to(out)
    return out
