"""A normal distribution that answers intervals and draws given evidence, for copulas."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation
from marginals.runtime.backend import QUERY, Backend

LOG_2PI = math.log(2 * math.pi)
_NODES, _WEIGHTS = (
    torch.from_numpy(part) for part in np.array(np.polynomial.legendre.leggauss(200))
)
Q, W = (_NODES + 1) / 2, _WEIGHTS / 2


class GaussianBoxes(Density):
    """N(mean, covariance), for exact, missing and up to two interval cells of a row.

    `batch` is the number of rows contracted at a time.
    """

    def __init__(self, mean: Tensor, covariance: Tensor, batch: int = 1 << 20) -> None:
        super().__init__()
        self.mean, self.covariance, self.batch = mean, covariance, batch

    @property
    def columns(self) -> int:
        return len(self.mean)

    @property
    def categories(self) -> tuple[int | None, ...]:
        return (None,) * self.columns

    def rows_at_once(self) -> int:
        return self.batch

    def row_cost(self) -> int:
        return self.columns**2

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        cells = evidence.select(range(self.columns))
        lower, upper = cells.lower, cells.upper  # (B, D)
        sorts = torch.where(lower.isnan(), 0, torch.where(lower == upper, 1, 2))
        value = torch.zeros(len(evidence))
        for pattern in sorts.unique(dim=0):
            rows = (sorts == pattern).all(1)
            exact, boxed = ((pattern == sort).nonzero()[:, 0].tolist() for sort in (1, 2))
            value[rows] = self._log_value(lower[rows], upper[rows], exact, boxed)
        return value

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        assert given is None or not given.columns
        asked = list(range(self.columns) if columns is None else columns)
        scale = self.covariance.diagonal()[asked].sqrt()
        return Normals(asked, self.mean[asked][None], scale[None])

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        assert len(given) == 1
        assert not given.intervals
        fixed = list(given.columns)
        mean, covariance, rest = self._others(fixed, given.lower.double())
        rows = torch.empty(draws, self.columns)
        rows[:, fixed] = given.lower[0].to(rows)
        noise = torch.randn(draws, len(rest), generator=generator)
        rows[:, rest] = mean + noise @ torch.linalg.cholesky(covariance).T
        return rows[None]

    def _others(self, fixed: list[int], x: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """The mean (B, n) and covariance of the other columns, given values x (B, m)."""
        rest = [c for c in range(self.columns) if c not in fixed]
        s = self.covariance
        across = torch.linalg.solve(s[fixed][:, fixed], s[fixed][:, rest])
        mean = self.mean[rest] + (x - self.mean[fixed]) @ across
        return mean, s[rest][:, rest] - across.T @ s[fixed][:, rest], rest

    def _log_value(
        self, lower: Tensor, upper: Tensor, exact: list[int], boxed: list[int]
    ) -> Tensor:
        value = torch.zeros(len(lower))
        if exact:
            part = self.covariance[exact][:, exact]
            away = lower[:, exact] - self.mean[exact]
            square = (away * torch.linalg.solve(part, away.T).T).sum(1)
            value = -(square + torch.logdet(2 * math.pi * part)) / 2
        if not boxed:
            return value
        mean, covariance, rest = self._others(exact, lower[:, exact])
        at = [rest.index(c) for c in boxed]
        scale = covariance.diagonal()[at].sqrt()
        low, high = ((end[:, boxed] - mean[:, at]) / scale for end in (lower, upper))
        if len(at) == 1:
            return value + log_interval(low, high)[:, 0]
        assert len(at) == 2
        return value + log_rectangle(low, high, float(covariance[at[0], at[1]] / scale.prod()))


def log_interval(low: Tensor, high: Tensor) -> Tensor:
    flip = low + high > 0
    low, high = torch.where(flip, -high, low), torch.where(flip, -low, high)
    low, high = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    return high + torch.log1p(-(low - high).exp())


def log_rectangle(low: Tensor, high: Tensor, rho: float) -> Tensor:
    """The probability of rectangles (B, 2) under a bivariate normal, summed along one side."""
    # Twelve deviations beyond the likeliest point of the side there is nothing.
    first = torch.maximum(low[:, :1], high[:, :1].clamp_max(0) - 12)
    last = torch.minimum(high[:, :1], low[:, :1].clamp_min(0) + 12)
    t = first + (last - first) * Q  # (B, T)
    width = math.sqrt(1 - rho**2)
    inner = log_interval((low[:, 1:] - rho * t) / width, (high[:, 1:] - rho * t) / width)
    terms = inner - t.square() / 2 - LOG_2PI / 2 + W.log()
    return (last - first)[:, 0].log() + torch.logsumexp(terms, 1)


class Normals(Univariates):
    """Normal distributions with means and scales (1, n)."""

    def __init__(self, columns: Sequence[int], mean: Tensor, scale: Tensor) -> None:
        self.columns, self.discrete = tuple(columns), (False,) * len(columns)
        self.mean, self.scale, self.log_evidence = mean, scale, torch.zeros_like(mean)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        z = (x - self.mean) / self.scale
        log_density = -z.square() / 2 - LOG_2PI / 2 - self.scale.log()
        at = torch.special.log_ndtr
        return LeafEvaluation(at(z), at(-z), log_density)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        lower = log_u < log_1mu
        z = torch.special.ndtri(torch.where(lower, log_u, log_1mu).exp())
        return torch.where(lower, z, -z) * self.scale + self.mean

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        raise NotImplementedError

    def take(self, place: int, rows: Tensor) -> "Normals":
        raise NotImplementedError
