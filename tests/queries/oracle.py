"""A normal distribution as a density: a closed form for every query."""

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
_NODES, _WEIGHTS = map(torch.from_numpy, np.array(np.polynomial.legendre.leggauss(200)))
Q, W = (_NODES + 1) / 2, _WEIGHTS / 2


class Gaussian(Density):
    """N(mean, covariance), for exact, missing and up to two interval cells of a row.

    `batch` is the number of rows contracted at a time, `largest` the most that were.
    """

    def __init__(
        self, covariance: Tensor, mean: Tensor | None = None, batch: int = 1 << 20
    ) -> None:
        super().__init__()
        self.mean = torch.zeros(len(covariance)) if mean is None else mean
        self.covariance, self.batch, self.largest = covariance, batch, 0

    @property
    def columns(self) -> int:
        return len(self.covariance)

    @property
    def categories(self) -> tuple[int | None, ...]:
        return (None,) * self.columns

    def rows_at_once(self) -> int:
        return self.batch

    def row_cost(self, given: object = None) -> int:
        return self.columns**2

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        self.largest = max(self.largest, len(evidence))
        away, mask, covariance = self.exact(evidence)
        factor = torch.linalg.cholesky(covariance)
        scores = torch.linalg.solve_triangular(factor, away[..., None], upper=False)[..., 0]
        log_det = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        value = -scores.square().sum(1) / 2 - log_det - mask.sum(1) * LOG_2PI / 2
        return value + self._log_boxes(evidence) if evidence.intervals else value

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        known = self.checked(Evidence.nothing() if given is None else given)
        self.largest = max(self.largest, len(known))
        asked = list(range(self.columns) if columns is None else columns)
        assert not set(asked) & set(known.columns)
        away, mask, covariance = self.exact(known)
        across = self.covariance[asked] * mask[:, None]  # (B, n, D)
        weights = torch.linalg.solve(covariance, across.transpose(1, 2)).transpose(1, 2)
        mean = self.mean[asked] + (weights @ away[..., None])[..., 0]
        variance = self.covariance.diagonal()[asked] - (weights * across).sum(-1)
        return Normals(asked, mean, variance.sqrt())

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        fixed = list(given.columns)
        mean, covariance, rest = self._others(fixed, given.lower.double())
        rows = torch.empty(len(given), draws, self.columns)
        rows[..., fixed] = given.lower[:, None].to(rows)
        noise = torch.randn(len(given), draws, len(rest), generator=generator)
        rows[..., rest] = mean[:, None] + noise @ torch.linalg.cholesky(covariance).T
        return rows

    def exact(self, evidence: Evidence) -> tuple[Tensor, Tensor, Tensor]:
        """Distances of exact cells from the mean, 0 for others; the mask; covariances, 1 there."""
        cells = evidence.select(range(self.columns))
        x = cells.lower
        mask = (x == cells.upper).to(x.dtype)
        covariance = self.covariance * mask[:, :, None] * mask[:, None]
        away = torch.where(mask > 0, x - self.mean, 0.0)
        return away, mask, covariance + torch.diag_embed(1 - mask)

    def _others(self, fixed: list[int], x: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """The mean (B, n) and covariance of the other columns, given values x (B, m)."""
        rest = [c for c in range(self.columns) if c not in fixed]
        s = self.covariance
        across = torch.linalg.solve(s[fixed][:, fixed], s[fixed][:, rest])
        mean = self.mean[rest] + (x - self.mean[fixed]) @ across
        return mean, s[rest][:, rest] - across.T @ s[fixed][:, rest], rest

    def _log_boxes(self, evidence: Evidence) -> Tensor:
        """The log probability of the interval cells given the exact ones."""
        cells = evidence.select(range(self.columns))
        lower, upper = cells.lower, cells.upper  # (B, D)
        sorts = torch.where(lower.isnan(), 0, torch.where(lower == upper, 1, 2))
        value = torch.zeros(len(evidence))
        for pattern in sorts.unique(dim=0):
            rows = (sorts == pattern).all(1)
            exact, boxed = ((pattern == sort).nonzero()[:, 0].tolist() for sort in (1, 2))
            if boxed:
                mean, covariance, rest = self._others(exact, lower[rows][:, exact])
                at = [rest.index(c) for c in boxed]
                scale = covariance.diagonal()[at].sqrt()
                ends = ((end[rows][:, boxed] - mean[:, at]) / scale for end in (lower, upper))
                rho = float(covariance[at[0], at[-1]] / (scale[0] * scale[-1]))
                value[rows] = log_rectangle(*ends, rho)
        return value


def log_interval(low: Tensor, high: Tensor) -> Tensor:
    flip = low + high > 0
    low, high = torch.where(flip, -high, low), torch.where(flip, -low, high)
    low, high = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    return high + torch.log1p(-(low - high).exp())


def log_rectangle(low: Tensor, high: Tensor, rho: float) -> Tensor:
    """The probability of intervals (B, 1) or rectangles (B, 2), summed along one side."""
    if low.shape[1] == 1:
        return log_interval(low, high)[:, 0]
    assert low.shape[1] == 2
    # Twelve deviations beyond the likeliest point of the side there is nothing.
    first = torch.maximum(low[:, :1], high[:, :1].clamp_max(0) - 12)
    last = torch.minimum(high[:, :1], low[:, :1].clamp_min(0) + 12)
    t = first + (last - first) * Q  # (B, T)
    width = math.sqrt(1 - rho**2)
    inner = log_interval((low[:, 1:] - rho * t) / width, (high[:, 1:] - rho * t) / width)
    terms = inner - t.square() / 2 - LOG_2PI / 2 + W.log()
    return (last - first)[:, 0].log() + torch.logsumexp(terms, 1)


class Normals(Univariates):
    """Normal distributions with means and scales (B, n)."""

    def __init__(self, columns: Sequence[int], mean: Tensor, scale: Tensor) -> None:
        self.columns, self.discrete = tuple(columns), (False,) * len(columns)
        self.mean, self.scale, self.log_evidence = mean, scale, torch.zeros_like(mean)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        z = (x - self.mean) / self.scale
        at = torch.special.log_ndtr
        return LeafEvaluation(at(z), at(-z), -z.square() / 2 - LOG_2PI / 2 - self.scale.log())

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        lower = log_u < log_1mu
        z = torch.special.ndtri(torch.where(lower, log_u, log_1mu).exp())
        return torch.where(lower, z, -z) * self.scale + self.mean

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        raise NotImplementedError

    def take(self, place: int, rows: Tensor) -> "Normals":
        mean, scale = self.mean[rows][:, [place]], self.scale[rows][:, [place]]
        return Normals([self.columns[place]], mean, scale)


def gaussian(columns: int = 4, seed: int = 0, batch: int = 1 << 20) -> Gaussian:
    """A generic normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(columns, columns, generator=generator)
    return Gaussian(root @ root.T / columns + 0.3 * torch.eye(columns), batch=batch)


def exact_entropy(covariance: Tensor, columns: Sequence[int]) -> float:
    part = covariance[list(columns)][:, list(columns)]
    return float(len(part) * (1 + LOG_2PI) / 2 + torch.logdet(part) / 2) if len(part) else 0.0


def exact_information(
    covariance: Tensor, a: Sequence[int], b: Sequence[int], given: Sequence[int] = ()
) -> float:
    def h(*parts: Sequence[int]) -> float:
        return exact_entropy(covariance, [c for part in parts for c in part])

    return h(a, given) + h(b, given) - h(a, b, given) - h(given)
