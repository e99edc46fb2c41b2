r"""Mixtures of general location models, for numbers next to codes (Olkin and Tate 1961).

Component k holds the pattern p of a row's codes with mass :math:`\theta_{kp}`. Given the pattern,
its numbers are normal, with a mean that is linear in the codes and one covariance for all patterns:
so a few rows of each pattern are enough. A number that repeats a value far too often is a code at
that value, and moves the other numbers as the value itself would.
"""

import time
from typing import NamedTuple

import torch
from torch import Tensor

from marginals.densities.factor_nodes import updated_masses
from marginals.densities.stepwise_em import MixedRows, StepwiseEM, floored

_MOST_ROUNDS, _LEAST_GAIN = 60, 1e-4
# Rows that the prior of a component's weight is worth, and of all patterns together by pattern.
_PRIOR_WEIGHT, _PRIOR_PATTERN = 0.1, 0.5
# Share of the rows that holds codes to their numbers where these say nothing about them.
_RIDGE = 1e-3
# Rows that hold an atom at its own value, and the least rows at no atom for each column.
_PLACE_ROWS, _LEAST_FREE = 5.0, 3
# Rows whose products are held at a time.
_CHUNK = 4096


class LocationRows(NamedTuple):
    """Rows of numbers and codes.

    Args:
        points: Numbers, then those that stand for codes, (N, P), without gaps.
        fixed: Which cells are codes, on which the others are conditioned, (N, P).
        absent: Which cells are left out, (N, P).
        patterns: The pattern of each row's codes, (N,).
        kinds: How many patterns there are.
    """

    points: Tensor
    fixed: Tensor
    absent: Tensor
    patterns: Tensor
    kinds: int


class LocationMixture(NamedTuple):
    """Components: their numbers are normal given the pattern of the codes."""

    weights: Tensor  # (K,)
    masses: Tensor  # (K, T), of patterns
    means: Tensor  # (K, P)
    covariances: Tensor  # (K, P, P)


def fit_location_mixture(
    rows: LocationRows, width: int, floors: Tensor, seed: int = 0, seconds: float | None = None
) -> tuple[LocationMixture, Tensor]:
    """Fit a mixture by EM; return it and the posterior of its components for each row, (N, K).

    Both steps take codes as numbers. Covariances of codes and numbers then hold the regressions,
    and the likelihood of the numbers is that given the codes.

    Args:
        rows: The rows.
        width: Number of components K.
        floors: Least deviation of each number within a component, (P,).
        seed: Seed for the start.
        seconds: Time limit.
    """
    end = torch.inf if seconds is None else time.monotonic() + seconds
    shares, before = _start(rows, width, floors, seed, seconds), -torch.inf
    for _ in range(_MOST_ROUNDS):
        joint = log_joint(rows, _mixture(rows, shares, floors))
        total = joint.logsumexp(1)
        shares = (joint - total[:, None]).exp()
        score = float(total.mean())
        if score - before < _LEAST_GAIN or time.monotonic() > end:
            break
        before = score
    return _mixture(rows, shares, floors), shares


def placed_atoms(points: Tensor, column: int, code: Tensor, values: Tensor) -> Tensor:
    """Return the places (A,) in a column at which its atoms explain the other numbers best.

    An atom need not act as its value does: none of an ingredient changes a recipe more than the
    least amount does, on a logarithm or beyond a gap. The others depend on the place as on the
    column's other values; a few rows hold the place at the atom's own value.

    Args:
        points: Rows (N, P), of numbers and of those that stand for codes.
        column: The column of the atoms.
        code: The atom of each row, (N,), A where it is at none, -1 where missing.
        values: The values of the atoms, (A,).
    """
    others = points[(code == len(values)) | (code < 0)]
    if len(others) < _LEAST_FREE * points.shape[1]:
        others = points
    mean, eye = others.mean(0), torch.eye(points.shape[1], dtype=points.dtype)
    covariance = torch.cov(others.T) + _RIDGE**2 * eye
    precision, variance = torch.linalg.inv(covariance)[column], covariance[column, column]
    says, prior = precision[column] - 1 / variance, _PLACE_ROWS / variance
    hot = (code[:, None] == torch.arange(len(values))).to(points)  # (N, A)
    rows = hot.sum(0)
    away = hot.T @ (points - mean)  # (A, P)
    told = precision[column] * away[:, column] - away @ precision
    shift = (told + prior * (values - mean[column])) / (rows * says + prior)
    return mean[column] + shift


def log_joint(rows: LocationRows, found: LocationMixture) -> Tensor:
    """Return the log value of each row with each component, (N, K)."""
    out = (found.weights.log()[:, None] + found.masses.log()).T[rows.patterns]  # (N, K)
    masks = torch.cat([rows.fixed, rows.absent], 1)
    distinct, which = torch.unique(masks, dim=0, return_inverse=True)
    for i, mask in enumerate(distinct):
        fixed, absent = mask.chunk(2)
        some = which == i
        points = rows.points[some]
        value = _log_normal(points, found, ~absent) - _log_normal(points, found, fixed & ~absent)
        out[some] += value
    return out


def given_codes(mixture: LocationMixture, points: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    """Return means (K, P) and covariances (K, P, P) of all cells given codes at `points` (P,).

    Cells that are fixed keep their own variance, and are independent of the others.
    """
    means, covariances = mixture.means.clone(), mixture.covariances.clone()
    at, rest = fixed.nonzero()[:, 0], (~fixed).nonzero()[:, 0]
    if not len(at):
        return means, covariances
    own = mixture.covariances[:, at[:, None], at]
    cross = mixture.covariances[:, rest[:, None], at]  # (K, n, m)
    slope = torch.linalg.solve(own, cross.mT).mT
    means[:, rest] += (slope @ (points[at] - mixture.means[:, at])[..., None])[..., 0]
    covariances[:, rest[:, None], rest] -= slope @ cross.mT
    covariances[:, rest[:, None], at] = 0.0
    covariances[:, at[:, None], rest] = 0.0
    covariances[:, at[:, None], at] = own.diagonal(dim1=1, dim2=2).diag_embed()
    return means, covariances


def _log_normal(points: Tensor, found: LocationMixture, kept: Tensor) -> Tensor:
    """Return the log density of some columns (N, P), up to a constant that all share, (N, K)."""
    at = kept.nonzero()[:, 0]
    if not len(at):
        return points.new_zeros(len(points), len(found.weights))
    root = torch.linalg.cholesky(found.covariances[:, at[:, None], at])
    scale = root.diagonal(dim1=1, dim2=2).log().sum(1)
    out = []
    for some in points.split(_CHUNK):
        centred = some[:, at].T - found.means[:, at, None]  # (K, n, B)
        z = torch.linalg.solve_triangular(root, centred, upper=False)
        out.append((-0.5 * z.square().sum(1) - scale[:, None]).T)
    return torch.cat(out)


def _start(
    rows: LocationRows, width: int, floors: Tensor, seed: int, seconds: float | None
) -> Tensor:
    """Return shares (N, K) by a mixture of what the codes leave open."""
    points = rows.points
    if width == 1:
        return points.new_ones(len(points), 1)
    codes = rows.fixed.all(0)
    centred = points[:, ~codes] - points[:, ~codes].mean(0)
    if bool(codes.any()):
        design = points[:, codes] - points[:, codes].mean(0)
        eye = torch.eye(design.shape[1], dtype=design.dtype)
        gram = design.T @ design + _RIDGE * len(points) * eye
        centred = centred - design @ torch.linalg.solve(gram, design.T @ centred)
    none = torch.zeros(len(points), 0, dtype=torch.long)
    em = StepwiseEM(
        MixedRows(centred, none, ()), min(width, len(points)), floors[~codes], seed=seed
    )
    shares = em.shares(em.fit(seconds=seconds))
    return torch.nn.functional.pad(shares, (0, width - shares.shape[1]))


def _mixture(rows: LocationRows, shares: Tensor, floors: Tensor) -> LocationMixture:
    """Return the likeliest components for shares (N, K), with priors where rows are few."""
    points, size = rows.points, rows.points.shape[1]
    seen = shares.sum(0)  # (K,)
    weights = (seen + _PRIOR_WEIGHT) / (seen + _PRIOR_WEIGHT).sum()
    # A component without rows stands at the middle of all.
    means = (shares.T @ points + _PRIOR_WEIGHT * points.mean(0)) / (seen + _PRIOR_WEIGHT)[:, None]
    products = points.new_zeros(len(seen), size, size)
    for some, share in zip(points.split(_CHUNK), shares.split(_CHUNK), strict=True):
        centred = some - means[:, None]  # (K, B, P)
        products += (share.T[:, :, None] * centred).mT @ centred
    pooled = products.sum(0) / len(points)
    # Few rows say little about a covariance: it is shrunk towards that of all components.
    covariances = (products + size * pooled) / (seen + size)[:, None, None]
    counts = points.new_zeros(rows.kinds, len(seen)).index_add_(0, rows.patterns, shares).T
    every = counts.sum(0) + _PRIOR_PATTERN
    masses = updated_masses(counts, (every / every.sum()).expand_as(counts))
    return LocationMixture(weights, masses, means, floored(covariances, floors))
