"""Copulas whose dependence is known: how to draw from them, and their exact measures."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
from scipy import integrate, stats
from scipy.special import ndtr, ndtri

Rows = np.ndarray[Any, np.dtype[np.float64]]

RHO = 0.6  # of the Gaussian copula
THETA = 2.0  # of Clayton's
NU, RHO_T = 4.0, 0.5  # of Student's
RETURNS = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.4], [0.3, 0.4, 1.0]])
# Variance of today by that of yesterday: a + b e^2 + c v, as of daily returns of stocks.
GARCH = (0.05, 0.08, 0.87)
BURN_IN = 500
PATHS, DAYS = 2_000, 1_000  # simulated where there is no closed form
NODES = 400  # of a rule of quadrature, along a side


@final
@dataclass(frozen=True)
class Measures:
    """Measures of dependence for each pair of columns, exact or estimated.

    Args:
        tau, rho: Kendall's and Spearman's.
        lower, upper: P(U_b <= q | U_a <= q) at each threshold q, and the same above 1 - q.
    """

    tau: list[float]
    rho: list[float]
    lower: list[list[float]]
    upper: list[list[float]]


@final
@dataclass(frozen=True)
class Set:
    """A copula.

    Args:
        label: Its name in tables.
        draw: A number of rows and a generator to levels (N, n).
        logpdf: Levels to log densities (N,), None where there is no closed form.
        exact: Thresholds to its exact measures.
    """

    label: str
    draw: Callable[[int, np.random.Generator], Rows]
    logpdf: Callable[[Rows], Rows] | None
    exact: Callable[[tuple[float, ...]], Measures]


def pairs(columns: int) -> list[tuple[int, int]]:
    """Return all pairs of columns."""
    return list(itertools.combinations(range(columns), 2))


def counted(levels: Rows, thresholds: tuple[float, ...]) -> Measures:
    """Return the measures of rows of levels."""
    tau, rho, lower, upper = [], [], [], []
    for a, b in pairs(levels.shape[1]):
        both = levels[:, [a, b]]
        tau.append(float(stats.kendalltau(*both.T).statistic))
        rho.append(float(stats.spearmanr(*both.T).statistic))
        lower.append([float((both <= q).all(1).mean() / q) for q in thresholds])
        upper.append([float((both > 1 - q).all(1).mean() / q) for q in thresholds])
    return Measures(tau, rho, lower, upper)


# Gaussian ---------------------------------------------------------------------------------------


def draw_gaussian(count: int, generator: np.random.Generator) -> Rows:
    """Draw levels of the Gaussian copula."""
    first, other = generator.normal(size=(2, count))
    second = RHO * first + math.sqrt(1 - RHO**2) * other
    drawn: Rows = ndtr(np.stack([first, second], 1))
    return drawn


def gaussian_logpdf(levels: Rows, correlation: Rows) -> Rows:
    """Return the log density of a Gaussian copula."""
    scores = ndtri(levels)
    joint = stats.multivariate_normal(cov=correlation).logpdf(scores)
    found: Rows = joint - stats.norm.logpdf(scores).sum(-1)
    return found


def gaussian_measures(correlation: Rows, thresholds: tuple[float, ...]) -> Measures:
    """Return the exact measures of a Gaussian copula, whose two tails are alike."""
    found = [correlation[a, b] for a, b in pairs(len(correlation))]
    tails = [[_gaussian_tail(r, q) for q in thresholds] for r in found]
    return Measures(
        [2 / math.pi * math.asin(r) for r in found],
        [6 / math.pi * math.asin(r / 2) for r in found],
        tails,
        tails,
    )


def _gaussian_tail(r: float, q: float) -> float:
    corner = np.full(2, ndtri(q))
    return float(stats.multivariate_normal(cov=[[1, r], [r, 1]]).cdf(corner)) / q


_PAIR = np.array([[1, RHO], [RHO, 1]])

# Clayton ----------------------------------------------------------------------------------------


def draw_clayton(count: int, generator: np.random.Generator) -> Rows:
    """Draw levels of Clayton's copula, the second by its conditional quantile."""
    u, w = generator.random((2, count))
    v = ((w ** (-THETA / (1 + THETA)) - 1) * u**-THETA + 1) ** (-1 / THETA)
    return np.stack([u, v], 1)


def clayton_logpdf(levels: Rows) -> Rows:
    """Return the log density of Clayton's copula."""
    inner = (levels**-THETA).sum(1) - 1
    found: Rows = (
        math.log(1 + THETA) - (1 + THETA) * np.log(levels).sum(1) - (2 + 1 / THETA) * np.log(inner)
    )
    return found


def clayton_cdf(u: Any, v: Any) -> Any:
    """Return C(u, v)."""
    return (u**-THETA + v**-THETA - 1) ** (-1 / THETA)


def clayton_measures(thresholds: tuple[float, ...]) -> Measures:
    """Return the exact measures of Clayton's copula; Spearman's rho by quadrature."""
    u, mass = _rule()
    integral = mass @ clayton_cdf(u[:, None], u) @ mass
    lower = [float(clayton_cdf(q, q)) / q for q in thresholds]
    upper = [(2 * q - 1 + float(clayton_cdf(1 - q, 1 - q))) / q for q in thresholds]
    return Measures([THETA / (THETA + 2)], [float(12 * integral - 3)], [lower], [upper])


# Student ----------------------------------------------------------------------------------------


def _student_scores(correlation: Rows, count: int, generator: np.random.Generator) -> Rows:
    normal = generator.normal(size=(count, len(correlation))) @ np.linalg.cholesky(correlation).T
    shock = np.sqrt(NU / generator.chisquare(NU, (count, 1)))  # one a row: extremes come together
    found: Rows = normal * shock
    return found


_PAIR_T = np.array([[1, RHO_T], [RHO_T, 1]])


def draw_student(count: int, generator: np.random.Generator) -> Rows:
    """Draw levels of Student's copula."""
    return np.asarray(stats.t.cdf(_student_scores(_PAIR_T, count, generator), NU))


def student_logpdf(levels: Rows) -> Rows:
    """Return the log density of Student's copula."""
    scores = stats.t.ppf(levels, NU)
    joint = stats.multivariate_t(shape=_PAIR_T, df=NU).logpdf(scores)
    found: Rows = joint - stats.t.logpdf(scores, NU).sum(-1)
    return found


def student_measures(thresholds: tuple[float, ...]) -> Measures:
    """Return the exact measures of Student's copula: tau in closed form, the rest by quadrature.

    Given the first score, the second is a t with one degree of freedom more.
    """
    u, mass = _rule()
    first = stats.t.ppf(u, NU)[:, None]
    second = stats.t.cdf(RHO_T * first + _scale(first) * stats.t.ppf(u, NU + 1), NU)
    rho = 12 * float((mass * u) @ second @ mass) - 3
    tails = [[_student_tail(q) for q in thresholds]]  # the two are alike
    return Measures([2 / math.pi * math.asin(RHO_T)], [rho], tails, tails)


def _student_tail(q: float) -> float:
    """Return P(U_2 <= q | U_1 <= q), an integral over U_1."""
    end = stats.t.ppf(q, NU)

    def below(u: float) -> float:
        first = stats.t.ppf(u, NU)
        return float(stats.t.cdf((end - RHO_T * first) / _scale(first), NU + 1))

    return float(integrate.quad(below, 0, q)[0]) / q


def _scale(first: Any) -> Any:
    return np.sqrt((NU + first**2) / (NU + 1) * (1 - RHO_T**2))


def _rule() -> tuple[Rows, Rows]:
    """Return nodes and weights of Gauss and Legendre's rule on the unit interval."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


# Returns ----------------------------------------------------------------------------------------


def draw_returns(count: int, generator: np.random.Generator) -> Rows:
    """Draw days of returns of three stocks: GARCH(1, 1) with innovations of a t copula."""
    return _paths(1, count, generator)


def _paths(paths: int, days: int, generator: np.random.Generator) -> Rows:
    """Draw days of several paths, (paths * days, stocks)."""
    base, news, memory = GARCH
    count, stocks = days + BURN_IN, len(RETURNS)
    shocks = _student_scores(RETURNS, count * paths, generator) * math.sqrt((NU - 2) / NU)
    found = shocks.reshape(count, paths, stocks)  # of variance 1
    variance = np.ones((paths, stocks))
    for day in found:
        day *= np.sqrt(variance)
        variance = base + news * day**2 + memory * variance
    kept: Rows = found[BURN_IN:].reshape(-1, stocks)
    return kept


@cache
def _many_returns() -> Rows:
    return np.sort(_paths(PATHS, DAYS, np.random.default_rng(0)), 0)


def draw_return_levels(count: int, generator: np.random.Generator) -> Rows:
    """Draw days of returns as levels among very many other days."""
    return _levels(draw_returns(count, generator))


def _levels(drawn: Rows) -> Rows:
    many = _many_returns()
    levels = [np.searchsorted(many[:, j], drawn[:, j]) for j in range(drawn.shape[1])]
    return (np.stack(levels, 1) + 0.5) / (len(many) + 1)


@cache
def returns_measures(thresholds: tuple[float, ...]) -> Measures:
    """Return the measures of single days, counted among very many."""
    found = counted(_levels(_paths(PATHS, DAYS, np.random.default_rng(1))), thresholds)
    # Gains and losses have one law, so that the two tails are alike.
    tails = np.mean([found.lower, found.upper], 0).tolist()
    return Measures(found.tau, found.rho, tails, tails)


SETS = {
    "gaussian": Set(
        "Gaussian, ρ = 0.6",
        draw_gaussian,
        lambda levels: gaussian_logpdf(levels, _PAIR),
        lambda q: gaussian_measures(_PAIR, q),
    ),
    "clayton": Set("Clayton, θ = 2", draw_clayton, clayton_logpdf, clayton_measures),
    "student": Set("Student t, ν = 4, ρ = 0.5", draw_student, student_logpdf, student_measures),
    "returns": Set("GARCH returns of 3 stocks", draw_return_levels, None, returns_measures),
}
