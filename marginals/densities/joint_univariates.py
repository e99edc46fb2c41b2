"""Univariates by the joint probability alone, for evidence that leaves no mixture behind."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

import torch
import torch.nn.functional as F
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation
from marginals.numerics import invert_monotone

if TYPE_CHECKING:
    from marginals.densities.density import Density

# Doublings of the bracket of a quantile, from one unit of the column to any float.
_DOUBLINGS = 64
# Largest differences of the mass found at the nodes from one, and from that at every other node:
# the first allows for the density's own error, the second tells that the nodes are dense enough.
_MASS_ERROR, _STEP_ERROR = 1e-3, 1e-4


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

        def below(at: Tensor, column: int) -> Evidence:
            end = torch.where(at == -torch.inf, 0.0, at)
            return Evidence.interval(torch.full_like(at, -torch.inf), end, [column])

        def above(at: Tensor, column: int) -> Evidence:
            end = torch.where(at == torch.inf, 0.0, at)
            return Evidence.interval(end, torch.full_like(at, torch.inf), [column])

        return LeafEvaluation(
            self._log_ratio(x, below, x == -torch.inf),
            self._log_ratio(x, above, x == torch.inf),
            self.logpdf(x),
        )

    def logpdf(self, x: Tensor) -> Tensor:
        """Return the log density at `x` (..., B, n)."""

        def exactly(at: Tensor, column: int) -> Evidence:
            return Evidence.exact(torch.where(at.isinf(), 0.0, at), [column])

        return self._log_ratio(x, exactly, x.isinf())

    def _log_ratio(
        self, x: Tensor, cell: Callable[[Tensor, int], Evidence], impossible: Tensor
    ) -> Tensor:
        """Return the log value of cells made of `x` (..., B, n) given the evidence."""
        rows, count = self.log_evidence.shape
        shape = torch.broadcast_shapes(x.shape, (rows, count))
        flat = x.expand(shape).reshape(-1, rows, count)
        index = torch.arange(rows, device=x.device).repeat(len(flat))
        found = []
        for place, (column, others) in enumerate(zip(self.columns, self.others, strict=True)):
            at, rest = flat[..., place].reshape(-1, 1), others.rows(index)
            value = self.density.log_value(cell(at, column).join(rest)).reshape(-1, rows)
            found.append(value - self.log_evidence[:, place])
        return torch.where(impossible, -torch.inf, torch.stack(found, -1).reshape(shape))

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

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        """Return E f(X_j, j), (B, n), by the trapezoidal rule in the logit of u."""
        x, weights = self._nodes
        values = function(x.movedim(-1, 0), self.columns)  # (n, T, B)
        # A node without weight does not count, even if the function is infinite there.
        terms = torch.where(weights > 0, weights * values.movedim(0, -1), 0.0)
        return terms.sum(0)

    @cached_property
    @torch.no_grad()
    def _nodes(self) -> tuple[Tensor, Tensor]:
        """Return points and their weights, each (T, B, n), that means are sums over.

        The points are quantiles of the guess, weighted by how much likelier they are than it says:
        one density for each. Where these points miss the mass, they are this one's own quantiles,
        which cost some ten times as much.
        """
        # The rule's error falls as exp(-2 pi^2 / step): 3e-9 for a step of 1.
        t = torch.arange(-32, 33, dtype=torch.float64, device=self.log_evidence.device)
        log_u, log_1mu = (F.logsigmoid(sign * t)[:, None, None] for sign in (1, -1))
        even = (log_u + log_1mu).exp().to(self.log_evidence)  # (T, 1, 1)
        x = self.guess.quantile(log_u, log_1mu).to(self.log_evidence)
        weights = even * (self.logpdf(x) - self.guess.logpdf(x)).exp()
        mass = weights.sum(0)
        coarse = 2 * weights[::2].sum(0)
        if bool(
            ((mass - 1).abs() < _MASS_ERROR).all() & ((mass - coarse).abs() < _STEP_ERROR).all()
        ):
            return x, weights / mass
        x = self.quantile(log_u, log_1mu)
        return x, even.expand(x.shape)

    def take(self, place: int, rows: Tensor) -> "JointUnivariates":
        """Return those of one column and of some rows of evidence."""
        guess = self.guess.take(place, rows)
        return JointUnivariates(self.density, self.known.rows(rows), [self.columns[place]], guess)
