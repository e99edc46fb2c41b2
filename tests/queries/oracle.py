"""A normal distribution as a density: every task has a closed form to be compared with."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.univariates import Univariates
from marginals.leaves import LeafEvaluation
from marginals.runtime.backend import QUERY, Backend

LOG_2PI = math.log(2 * math.pi)


class Gaussian(Density):
    """N(0, covariance), for exact and missing cells.

    `batch` is the number of rows contracted at a time.
    """

    def __init__(self, covariance: Tensor, batch: int = 1 << 20) -> None:
        super().__init__()
        self.covariance, self.batch = covariance, batch
        self.largest = 0

    @property
    def columns(self) -> int:
        return len(self.covariance)

    @property
    def categories(self) -> tuple[int | None, ...]:
        return (None,) * self.columns

    def rows_at_once(self) -> int:
        return self.batch

    def row_cost(self) -> int:
        return self.columns**2

    def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
        self.largest = max(self.largest, len(evidence))
        x, _, covariance = self._known(evidence)
        factor = torch.linalg.cholesky(covariance)
        scores = torch.linalg.solve_triangular(factor, x[..., None], upper=False)[..., 0]
        log_det = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        count = (~evidence.select(range(self.columns)).lower.isnan()).sum(1)
        return -scores.square().sum(1) / 2 - log_det - count * LOG_2PI / 2

    def univariates(self, given: Any = None, columns: Sequence[int] | None = None) -> Univariates:
        known = self.checked(Evidence.nothing() if given is None else given)
        self.largest = max(self.largest, len(known))
        asked = list(range(self.columns) if columns is None else columns)
        assert not set(asked) & set(known.columns)
        x, mask, covariance = self._known(known)
        across = self.covariance[asked] * mask[:, None]  # (B, n, D)
        weights = torch.linalg.solve(covariance, across.transpose(1, 2)).transpose(1, 2)
        mean = (weights @ x[..., None])[..., 0]
        variance = self.covariance.diagonal()[asked] - (weights * across).sum(-1)
        return NormalUnivariates(asked, mean, variance.sqrt())

    def sample_rows(
        self, given: Evidence, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        assert not given.columns
        noise = torch.randn(len(given), draws, self.columns, generator=generator)
        return noise @ torch.linalg.cholesky(self.covariance).T

    def _known(self, evidence: Evidence) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows with 0 for what is missing, the mask, and covariances with 1 there."""
        assert not evidence.intervals
        x = evidence.select(range(self.columns)).lower
        mask = (~x.isnan()).to(x.dtype)
        covariance = self.covariance * mask[:, :, None] * mask[:, None]
        return x.nan_to_num(), mask, covariance + torch.diag_embed(1 - mask)


class NormalUnivariates(Univariates):
    """Normal distributions with means and scales (B, n)."""

    def __init__(self, columns: Sequence[int], mean: Tensor, scale: Tensor) -> None:
        self.columns, self.discrete = tuple(columns), (False,) * len(columns)
        self.mean, self.scale, self.log_evidence = mean, scale, torch.zeros_like(mean)

    def evaluate(self, x: Tensor) -> LeafEvaluation:
        z = (x - self.mean) / self.scale
        log_density = -z.square() / 2 - LOG_2PI / 2 - self.scale.log()
        at = torch.special.log_ndtr
        return LeafEvaluation(at(z), at(-z), log_density)

    def quantile(self, log_u: Tensor, log_1mu: Tensor) -> Tensor:
        raise NotImplementedError

    def expect(self, function: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
        raise NotImplementedError

    def take(self, place: int, rows: Tensor) -> "NormalUnivariates":
        mean, scale = self.mean[rows][:, [place]], self.scale[rows][:, [place]]
        return NormalUnivariates([self.columns[place]], mean, scale)


def gaussian(columns: int = 4, seed: int = 0, batch: int = 1 << 20) -> Gaussian:
    """A generic normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(columns, columns, generator=generator)
    return Gaussian(root @ root.T / columns + 0.3 * torch.eye(columns), batch)


def exact_entropy(covariance: Tensor, columns: Sequence[int]) -> float:
    part = covariance[list(columns)][:, list(columns)]
    return float(len(part) * (1 + LOG_2PI) / 2 + torch.logdet(part) / 2) if len(part) else 0.0


def exact_information(
    covariance: Tensor, a: Sequence[int], b: Sequence[int], given: Sequence[int] = ()
) -> float:
    def h(*parts: Sequence[int]) -> float:
        return exact_entropy(covariance, [c for part in parts for c in part])

    return h(a, given) + h(b, given) - h(a, b, given) - h(given)
