r"""Kendall's tau and Spearman's rho of two columns, by randomised quadrature on the unit square.

With h_1 = dC/du = P(V <= v | u) and h_2 = dC/dv, integration by parts turns the usual definitions
into integrals of bounded functions over the unit square, which cost one interval each:

    tau = 4 E[C(U, V)] - 1 = 4 \int (u v - h_1 h_2)
    rho = 12 \int (C - u v) = 12 \int u (v - h_1)

Both integrands vanish for independent columns. For normal columns with correlations up to 0.99,
8 x 1024 points give standard errors of 1e-3 to 1e-4; averaging 4 C - 1 over as many draws of the
density would give about 1e-2.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.quantile_table import quantiles
from marginals.queries.estimate import Estimate
from marginals.queries.positions import groups

_RANDOMISATIONS = 8  # independent scramblings of the points; their spread gives the error


@final
@dataclass(frozen=True)
class RankCorrelations:
    """Kendall's tau and Spearman's rho of two columns, each with its standard error.

    Args:
        kendall_tau: P(concordant) - P(discordant) of two draws.
        spearman_rho: the correlation of levels.
    """

    kendall_tau: Estimate
    spearman_rho: Estimate


@torch.no_grad()
def rank_correlations(
    density: Density, a: int, b: int, points: int = 1024, seed: int = 0
) -> RankCorrelations:
    """Return Kendall's tau and Spearman's rho of two continuous columns.

    Tau is P(concordant) - P(discordant) of two draws; rho is the correlation of levels. Both are
    means over eight scramblings of a Sobol sequence, whose spread gives the standard errors.

    Args:
        density: the density, given at most one row of evidence.
        a, b: the columns.
        points: the number of points in each scrambling; a power of two is best.
        seed: seed for the scramblings.

    >>> from marginals.densities.build import build
    >>> model = build(torch.randn(50, 2), width=4)
    >>> rank_correlations(model, 0, 1, points=64).kendall_tau.stderr < 0.1
    True
    """
    u, v, h_v, h_u = _conditionals(density, a, b, points, seed)
    tau, rho = 4 * (u * v - h_v * h_u), 6 * (u * (v - h_v) + v * (u - h_u))
    return RankCorrelations(_mean(tau), _mean(rho))


def _conditionals(
    density: Density, a: int, b: int, points: int, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return levels u, v and P(V <= v | u), P(U <= u | v) at random points, (R, N) each."""
    groups(density, a=a, b=b)
    if points < 1:
        raise ValueError(f"Expected `points` to be at least 1; got {points}.")
    engines = [SobolEngine(2, scramble=True, seed=seed + r) for r in range(_RANDOMISATIONS)]
    # Sobol's numbers are multiples of 2^-30: half of one keeps them off 0 and 1.
    square = torch.cat([e.draw(points, dtype=torch.float64) for e in engines]) + 2.0**-31
    parameter = next(density.parameters(), square)
    square = square.to(parameter.device)
    margins = density.univariates(None, (a, b))
    size = density.rows_at_once()
    value = quantiles(margins, square.log(), torch.log1p(-square), size)  # (R N, 2)
    parts = [margins.logpdf(part[:, None])[:, 0] for part in value.split(size)]
    alone = torch.cat(parts).double()
    found = [square[:, 0], square[:, 1]]
    for fixed, other in ((0, 1), (1, 0)):
        columns = (a, b)[fixed], (a, b)[other]
        held, end = value[:, [fixed]], value[:, [other]]
        low, high = (
            torch.cat([held, torch.full_like(end, -torch.inf)], 1),
            torch.cat([held, end], 1),
        )
        joint = density.log_value(Evidence.interval(low, high, columns)).double()
        found.append((joint - alone[:, fixed]).exp())
    u, v, h_v, h_u = (part.reshape(_RANDOMISATIONS, points) for part in found)
    return u, v, h_v, h_u


def _mean(values: Tensor) -> Estimate:
    """Average values (R, N), with the standard error of the means of scramblings."""
    means = values.mean(1)
    return Estimate(float(means.mean()), float(means.std()) / math.sqrt(len(means)), unit="")
