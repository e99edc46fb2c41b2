"""Univariates by the joint probability alone, for evidence that leaves no mixture behind."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.leaves import LeafEvaluation
from marginals.model.evidence import Evidence
from marginals.model.univariate import Univariates
from marginals.numerics import invert_monotone

if TYPE_CHECKING:
    from marginals.model.density import Density

# Doublings of the bracket of a quantile, from one unit of the column to any float.
_DOUBLINGS = 64


@final
class JointUnivariates(Univariates):
    """p(x_j | e_b) = p(x_j, e_b) / p(e_b) for continuous columns, two contractions per value.

    Its error is that of the density's own answers to such evidence.

    Args:
        density: any density.
        known: the evidence; what it says of an asked column is left out for that column.
        columns: the columns, all continuous.
        guess: the univariates given a part of the evidence, near which quantiles are sought.
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
        rows, count = self.log_evidence.shape
        shape = torch.broadcast_shapes(x.shape, (rows, count))
        flat = x.expand(shape).reshape(-1, rows, count)
        index = torch.arange(rows, device=x.device).repeat(len(flat))
        found: list[list[Tensor]] = [[], [], []]
        for place, (column, others) in enumerate(zip(self.columns, self.others, strict=True)):
            at, rest = flat[..., place].reshape(-1, 1), others.rows(index)
            open_ = torch.full_like(at, torch.inf)
            finite = torch.where(at.isinf(), 0.0, at)
            cells = [
                Evidence.interval(-open_, torch.where(at == -torch.inf, 0.0, at), [column]),
                Evidence.interval(torch.where(at == torch.inf, 0.0, at), open_, [column]),
                Evidence.exact(finite, [column]),
            ]
            ends = (at == -torch.inf, at == torch.inf, at.isinf())
            for part, cell, impossible in zip(found, cells, ends, strict=True):
                value = self.density.log_value(cell.join(rest)).reshape(-1, rows)
                value = value - self.log_evidence[:, place]
                part.append(torch.where(impossible.reshape(-1, rows), -torch.inf, value))
        return LeafEvaluation(*(torch.stack(part, -1).reshape(shape) for part in found))

    @torch.no_grad()
    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        """Return quantiles for log u and log(1 - u), (..., B, n)."""
        start = self.guess.quantile(log_u, log_1mu).to(self.log_evidence)
        target = (log_u - log_1mu).to(start).expand(start.shape)

        def logit_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            at = self.evaluate(x)
            slope = (at.log_density - at.log_cdf - at.log_sf).exp()
            return at.log_cdf - at.log_sf, slope

        low, high, step = start, start, torch.ones_like(start)
        for _ in range(_DOUBLINGS):
            over, under = logit_and_slope(low)[0] > target, logit_and_slope(high)[0] < target
            if not bool((over | under).any()):
                break
            low, high = torch.where(over, low - step, low), torch.where(under, high + step, high)
            step = 2 * step
        return invert_monotone(logit_and_slope, target, low, high)

    @torch.no_grad()
    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), by the trapezoidal rule in the logit of u."""
        t = torch.arange(-64, 65, dtype=torch.float64, device=self.log_evidence.device) * 0.5
        x = self.quantile(F.logsigmoid(t)[:, None, None], F.logsigmoid(-t)[:, None, None])
        density = (F.logsigmoid(t) + F.logsigmoid(-t)).exp().to(x)
        values = function(x.movedim(-1, 0), self.columns)  # (n, T, B)
        return 0.5 * (values * density[:, None]).sum(1).T

    def take(self, place: int, rows: Tensor) -> "JointUnivariates":
        """Return those of one column and of some rows of evidence."""
        guess = self.guess.take(place, rows)
        return JointUnivariates(self.density, self.known.rows(rows), [self.columns[place]], guess)
