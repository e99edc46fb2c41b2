"""Many quantiles of a few margins, from a table of some of them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.densities.univariates import Univariates

# Knots of a table, and the number of levels from which it pays.
_KNOTS = 257
_WORTH = 4 * _KNOTS
_FARTHEST = 20.0  # largest logit in a table: a few levels in a billion lie beyond
# Newton's method squares the residual: from here the next step ends within rounding.
_NEAR = 1e-7


@torch.no_grad()
def quantiles(margins: Univariates, log_u: Tensor, log_1mu: Tensor, rows: int) -> Tensor:
    """Return quantiles of continuous margins given one row of evidence, as `Univariates.quantile`.

    Many levels start from a table of quantiles and take two Newton steps each, a fifth of the work.
    Levels that do not converge are inverted on their own.

    Args:
        margins: univariates of n columns without atoms, given one row of evidence.
        log_u, log_1mu: log u and log(1 - u), (N, n).
        rows: levels to invert at a time.
    """
    if len(log_u) < _WORTH or margins.log_evidence.dtype != torch.float64:
        return _direct(margins, log_u, log_1mu, rows)
    target = log_u - log_1mu
    low, high = (end.clamp(-_FARTHEST, _FARTHEST) for end in (target.amin(0), target.amax(0)))
    steps = torch.linspace(0, 1, _KNOTS, dtype=torch.float64, device=target.device)[:, None]
    knots = low + (high - low) * steps  # (K, n)
    x = _direct(margins, F.logsigmoid(knots), F.logsigmoid(-knots), rows)
    slope = 1 / margins.logit_and_slope(x[:, None])[1][:, 0] * (high - low) / (_KNOTS - 1)
    parts, left = [], []
    for part in target.split(rows):
        found, close = _refined(margins, part, _start(x, slope, (part - low) / (high - low)))
        parts.append(found)
        left.append(~close.all(1))
    out, open_ = torch.cat(parts), torch.cat(left)
    if bool(open_.any()):
        out[open_] = _direct(margins, log_u[open_], log_1mu[open_], rows)
    return out


def _direct(margins: Univariates, log_u: Tensor, log_1mu: Tensor, rows: int) -> Tensor:
    pairs = zip(log_u[:, None].split(rows), log_1mu[:, None].split(rows), strict=True)
    return torch.cat([margins.quantile(*pair)[:, 0] for pair in pairs])


def _start(x: Tensor, slope: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Interpolate between knots at places (B, n) in [0, 1]; return a guess and its bracket."""
    # Columns whose levels are all equal have no range.
    at = (place.nan_to_num() * (len(x) - 1)).clamp(0, len(x) - 1)
    left = at.floor().clamp_max(len(x) - 2).long()
    t = at - left
    low, high = x.gather(0, left), x.gather(0, left + 1)
    first, last, rise = slope.gather(0, left), slope.gather(0, left + 1), high - low
    guess = low + t * (first + t * ((3 * rise - 2 * first - last) + t * (first + last - 2 * rise)))
    return guess.clamp(low, high), low, high


def _refined(
    margins: Univariates, target: Tensor, start: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Take two Newton steps; return also which levels converged."""
    x, low, high = start
    for _ in range(2):
        value, slope = (part[:, 0] for part in margins.logit_and_slope(x[:, None]))
        residual = value - target
        x = (x - residual / slope).clamp(low, high)
    return x, residual.abs() <= _NEAR
