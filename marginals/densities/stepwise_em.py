"""Fit mixtures of normal components and tables of categories by stepwise EM.

The log density of a component is linear in features of the row: the values, their products, and
indicators of its categories. Both steps of EM are then products of two matrices. Running means of
batches in place of whole passes (Cappé and Moulines 2009) converge in a few passes, so that a core
fits hundreds of components with full covariances to tens of thousands of rows in seconds.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor

# Rows of a step, and how fast the steps' weights fall.
_BATCH, _DECAY = 2000, 0.6
_PASSES = 30
# Passes over a table of one batch, each of which is a whole step of EM.
_MOST_ROUNDS, _LEAST_GAIN = 100, 1e-5
# Rows that the prior of a component's table of categories is worth, and of its weight.
_PRIOR_ROW, _PRIOR_WEIGHT = 0.5, 0.1
# A covariance exceeds its floor by at least this share of it in each direction.
_ABOVE = 0.05
# Mixtures of few components start several times, with a few rounds each.
_FEW, _STARTS, _SHORT = 32, 4, 12
# Rows from which centres are chosen.
_MOST_STARTS = 5000


@final
@dataclass(frozen=True)
class MixedRows:
    """Rows of numbers without gaps, and of categories.

    Args:
        points: Numbers, (N, P), float64.
        codes: Categories, (N, Q), integers; -1 where missing.
        categories: Number of categories of each of the Q columns.
    """

    points: Tensor
    codes: Tensor
    categories: Sequence[int]

    def __len__(self) -> int:
        return len(self.points)

    def places(self) -> Tensor:
        """Return the place of each category in a table of all columns, (N, Q); the last if none."""
        sizes = torch.tensor(self.categories, dtype=torch.long, device=self.codes.device)
        ends = sizes.cumsum(0)
        last = int(ends[-1]) if len(ends) else 0
        return torch.where(self.codes < 0, last, self.codes + (ends - sizes))


class MixedMixture(NamedTuple):
    """Components with normal numbers and independent categories."""

    weights: Tensor  # (K,)
    means: Tensor  # (K, P)
    covariances: Tensor  # (K, P, P)
    tables: Tensor  # (C, K), log probabilities of the categories of all columns


class _Sums(NamedTuple):
    """Means over rows of the shares of components, times features."""

    rows: Tensor  # (K,)
    values: Tensor  # (K, P)
    products: Tensor  # (K, T)
    counts: Tensor  # (C + 1, K); the last is that of missing categories

    def blend(self, other: "_Sums", step: float) -> "_Sums":
        """Return the means moved towards others."""
        return _Sums(*(a.lerp(b, step) for a, b in zip(self, other, strict=True)))


class _Linear(NamedTuple):
    """The log density of components as a linear function of features."""

    offset: Tensor  # (K,)
    values: Tensor  # (K, P)
    products: Tensor  # (K, T)
    tables: Tensor  # (C + 1, K); the last is zero


@final
class StepwiseEM:
    """Fit a mixture to mixed rows.

    Args:
        data: The rows.
        width: Number of components K.
        floors: Deviations of independent noise that each number has at least, (P,).
        diagonal: Whether the numbers of a component are independent.
        stretch: Matrix (P, P) that stretches numbers before distances between rows are taken, from
            which the components start.
        seed: Seed for centres and batches.
    """

    def __init__(
        self,
        data: MixedRows,
        width: int,
        floors: Tensor,
        diagonal: bool = False,
        stretch: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        self.data, self.width, self.floors, self.diagonal = data, width, floors, diagonal
        self.stretch = stretch
        self.generator = torch.Generator().manual_seed(seed)
        columns, device = data.points.shape[1], data.points.device
        pair = torch.arange(columns, device=device).expand(2, -1)
        self.pairs = pair if diagonal else torch.triu_indices(columns, columns, device=device)
        self.places = data.places()
        self.margins = _counts(self.places, data.points.new_ones(len(data), 1), data.categories)

    def fit(self, start: MixedMixture | None = None, seconds: float | None = None) -> MixedMixture:
        """Return the mixture after some passes over the rows, or when the seconds are over."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        found = self.from_rows() if start is None else start
        if len(self.data) <= _BATCH:
            every = torch.arange(len(self.data), device=self.places.device)
            return self._in_rounds(found, every, _MOST_ROUNDS, until)[0]
        sums, step = self._as_sums(found), 0
        for _ in range(_PASSES):
            order = torch.randperm(len(self.data), generator=self.generator)
            for rows in order.to(self.places.device).split(_BATCH):
                if time.monotonic() > until:
                    return found
                shares, _ = self._shares(self._linear(found), rows)
                step += 1
                sums = sums.blend(self._sums(shares, rows), (step + 1) ** -_DECAY)
                found = self._mixture(sums)
        return found

    def on(self, kept: Tensor) -> "StepwiseEM":
        """Return the same for the rows in a mask (N,)."""
        data = MixedRows(self.data.points[kept], self.data.codes[kept], self.data.categories)
        found = StepwiseEM(data, self.width, self.floors, self.diagonal, self.stretch)
        found.generator = self.generator
        return found

    def log_likelihood(self, mixture: MixedMixture) -> Tensor:
        """Return the log likelihood of each row, (N,)."""
        linear = self._linear(mixture)
        every = torch.arange(len(self.data), device=self.places.device)
        return torch.cat([self._joint(linear, rows).logsumexp(1) for rows in every.split(_BATCH)])

    def shares(self, mixture: MixedMixture, most: int | None = None) -> Tensor:
        """Return the posterior of the components for each row, or for the first ones, (N, K)."""
        linear = self._linear(mixture)
        every = torch.arange(len(self.data), device=self.places.device)[:most]
        return torch.cat([self._shares(linear, rows)[0] for rows in every.split(_BATCH)])

    def _in_rounds(
        self, found: MixedMixture, rows: Tensor, rounds: int, until: float = math.inf
    ) -> tuple[MixedMixture, float]:
        """Take whole steps of EM on some rows; return the mixture and its mean log likelihood."""
        before = -math.inf
        for _ in range(rounds):
            shares, score = self._shares(self._linear(found), rows)
            if score - before < _LEAST_GAIN or time.monotonic() > until:
                break
            before, found = score, self._mixture(self._sums(shares, rows))
        return found, before

    # Starts ---------------------------------------------------------------------------------

    def from_rows(self) -> MixedMixture:
        """Return components around rows far from each other: of few, the likeliest of several."""
        if not 1 < self.width <= _FEW:
            return self._around_rows()
        order = torch.randperm(len(self.data), generator=self.generator)
        rows = order[:_BATCH].to(self.places.device)
        tried = [self._in_rounds(self._around_rows(), rows, _SHORT) for _ in range(_STARTS)]
        return max(tried, key=lambda pair: pair[1])[0]

    def _around_rows(self) -> MixedMixture:
        points, categories = self.data.points, self.data.categories
        some = torch.randperm(len(points), generator=self.generator)[:_MOST_STARTS]
        some = some.to(points.device)
        near = points[some] if self.stretch is None else points[some] @ self.stretch
        picked = some[self._spread_out(near)]  # (K,)
        # Half the category of the row, if it is known, and half those of all rows.
        one = torch.eye(self.width, dtype=points.dtype, device=points.device)
        hit = _counts(self.places[picked], one, categories)[:-1]  # (C, K)
        tables = hit + _shares_of(self.margins, categories)[:-1]
        size = self.width ** (-2 / max(1, points.shape[1]))
        return MixedMixture(
            points.new_full((self.width,), 1 / self.width),
            points[picked],
            self._floored(size * self._covariance().expand(self.width, -1, -1)),
            (tables / _totals(tables, categories)).log(),
        )

    def growing(self, least: float = 0.4, most: float = 2.0) -> MixedMixture:
        """Return components with one centre and growing spread, which find joint tails."""
        points = self.data.points
        spreads = torch.ones(1) if self.width == 1 else torch.logspace(
            math.log10(least), math.log10(most), self.width
        )  # fmt: skip
        covariance = self._covariance() * spreads.to(points)[:, None, None].square()
        margins = _shares_of(self.margins, self.data.categories)[:-1]
        return MixedMixture(
            points.new_full((self.width,), 1 / self.width),
            points.mean(0).expand(self.width, -1),
            self._floored(covariance),
            margins.log().expand(-1, self.width),
        )

    def _spread_out(self, points: Tensor) -> Tensor:
        """Choose K rows, each with a probability that grows with its distance to those before."""
        draws = torch.rand(self.width, generator=self.generator, dtype=points.dtype)
        chosen = [int(draws[0] * len(points))]
        nearest = points.new_full((len(points),), torch.inf)
        for draw in draws[1:]:
            nearest = nearest.minimum((points - points[chosen[-1]]).square().sum(1))
            total = nearest.cumsum(0)
            at = torch.searchsorted(total, draw.to(total) * total[-1])
            chosen.append(min(int(at), len(points) - 1))
        return torch.tensor(chosen, device=points.device)

    def _covariance(self) -> Tensor:
        points = self.data.points
        centred = points - points.mean(0)
        found = centred.T @ centred / len(points)
        return found.diagonal().diag() if self.diagonal else found

    # Steps ----------------------------------------------------------------------------------

    def _shares(self, linear: _Linear, rows: Tensor) -> tuple[Tensor, float]:
        """Return the posterior of the components (B, K), and the mean log likelihood."""
        joint = self._joint(linear, rows)
        total = joint.logsumexp(1, keepdim=True)
        return (joint - total).exp(), float(total.mean())

    def _joint(self, linear: _Linear, rows: Tensor) -> Tensor:
        """Return the log density of rows with each component, (B, K)."""
        points = self.data.points[rows]
        joint = torch.addmm(linear.offset, points, linear.values.T)
        joint += self._products(points) @ linear.products.T
        if self.data.categories:
            joint += F.embedding_bag(self.places[rows], linear.tables, mode="sum")
        return joint

    def _sums(self, shares: Tensor, rows: Tensor) -> _Sums:
        points = self.data.points[rows]
        weights = shares.T / len(rows)  # (K, B)
        counts = _counts(self.places[rows], shares, self.data.categories) / len(rows)
        return _Sums(weights.sum(1), weights @ points, weights @ self._products(points), counts)

    def _products(self, points: Tensor) -> Tensor:
        first, second = self.pairs
        return points[:, first] * points[:, second]

    def _as_sums(self, mixture: MixedMixture) -> _Sums:
        weights, means, covariances, tables = mixture
        first, second = self.pairs
        products = covariances[:, first, second] + means[:, first] * means[:, second]
        counts = torch.cat([tables.exp(), tables.new_zeros(1, self.width)]) * weights
        return _Sums(weights, weights[:, None] * means, weights[:, None] * products, counts)

    def _mixture(self, sums: _Sums) -> MixedMixture:
        """Return the most likely components for means over rows."""
        rows = sums.rows.clamp_min(1e-12)
        seen = rows * len(self.data)  # rows of each component
        means = sums.values / rows[:, None]
        first, second = self.pairs
        products = sums.products / rows[:, None] - means[:, first] * means[:, second]
        covariances = products.new_zeros(self.width, means.shape[1], means.shape[1])
        covariances[:, first, second] = products
        covariances[:, second, first] = products
        # Few rows say little about a covariance: it is shrunk towards that of all components.
        parameters = 1 if self.diagonal else means.shape[1]
        shrunk = (parameters / (seen + parameters))[:, None, None]
        pooled = (rows[:, None, None] * covariances).sum(0) / rows.sum()
        covariances = covariances + shrunk * (pooled - covariances)
        weights = seen + _PRIOR_WEIGHT
        prior = _PRIOR_ROW * _shares_of(self.margins, self.data.categories)
        counts = (sums.counts * len(self.data) + prior)[:-1]
        tables = counts / _totals(counts, self.data.categories)
        return MixedMixture(
            weights / weights.sum(), means, self._floored(covariances), tables.log()
        )

    def _floored(self, covariances: Tensor) -> Tensor:
        """Return the nearest covariances that leave room for the noise of each column."""
        if self.diagonal:
            least = (1 + _ABOVE) * self.floors.square()
            return covariances.diagonal(dim1=1, dim2=2).maximum(least).diag_embed()
        return floored(covariances, self.floors)

    def _linear(self, mixture: MixedMixture) -> _Linear:
        weights, means, covariances, tables = mixture
        root = torch.linalg.cholesky(covariances)
        precision = torch.cholesky_inverse(root)
        slope = (precision @ means[..., None])[..., 0]  # (K, P)
        log_scale = root.diagonal(dim1=1, dim2=2).log().sum(1)
        constant = means.shape[1] * 0.5 * math.log(2 * math.pi)
        offset = weights.log() - 0.5 * (slope * means).sum(1) - log_scale - constant
        first, second = self.pairs
        twice = torch.where(first == second, 0.5, 1.0).to(precision)
        products = -twice * precision[:, first, second]
        return _Linear(
            offset, slope, products, torch.cat([tables, tables.new_zeros(1, self.width)])
        )


def floored(covariances: Tensor, floors: Tensor) -> Tensor:
    """Return the likeliest covariances (K, P, P) that leave room for noise of each column.

    Args:
        covariances: those of the rows.
        floors: the deviations of the noise, (P,).
    """
    scaled = covariances / (floors[:, None] * floors)
    values, vectors = torch.linalg.eigh(scaled)
    root = floors[:, None] * vectors * values.clamp_min(1 + _ABOVE).sqrt()[:, None]
    return root @ root.mT


def _counts(places: Tensor, shares: Tensor, categories: Sequence[int]) -> Tensor:
    """Return how often each category occurs, weighted by shares (N, K), (C + 1, K)."""
    out = shares.new_zeros(sum(categories) + 1, shares.shape[1])
    for column in places.T:
        out.index_add_(0, column, shares)
    return out


def _totals(counts: Tensor, categories: Sequence[int]) -> Tensor:
    """Return the sum over the categories of the same column, for each category (C, K)."""
    parts = counts.split(list(categories)) if categories else []
    sums = [part.sum(0).expand(len(part), -1) for part in parts]
    return torch.cat(sums) if sums else counts


def _shares_of(counts: Tensor, categories: Sequence[int]) -> Tensor:
    """Return the shares of categories within their columns, (C + 1, K), and 0 as the last.

    Each category counts a little even if it was not seen.
    """
    some = counts[:-1] + 1e-3
    return torch.cat([some / _totals(some, categories), torch.zeros_like(counts[-1:])])
