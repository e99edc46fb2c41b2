"""The copula of a normal distribution is Gaussian; laws hold for the library's models."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from marginals.densities import build
from marginals.queries import Copula, rank_correlations
from tests.examples import examples
from tests.queries.oracle import Gaussian

RHO = 0.6
SCALES = torch.tensor([2.0, 0.5, 10.0], dtype=torch.float64)
CORRELATION = torch.tensor(
    [[1.0, RHO, 0.3], [RHO, 1.0, -0.4], [0.3, -0.4, 1.0]], dtype=torch.float64
)


def gaussian() -> Gaussian:
    """Three columns on scales of their own, which a copula must not see."""
    return Gaussian(SCALES[:, None] * CORRELATION * SCALES, torch.tensor([5.0, -1.0, 100.0]))


def both(rho: float, **options: Any) -> Copula:
    return Copula(Gaussian(torch.tensor([[1.0, rho], [rho, 1.0]]), **options))


@pytest.fixture
def copula() -> Copula:
    return Copula(gaussian(), [0, 1])


def points() -> Tensor:
    levels = torch.tensor([1e-12, 1e-6, 0.03, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12])
    return torch.cartesian_prod(levels, levels)


def scores(u: Tensor) -> Tensor:
    return torch.from_numpy(stats.norm.ppf(u.numpy()))


def gaussian_copula(u: Tensor, rho: float) -> Tensor:
    """C(u) by Plackett's identity: its derivative in rho is the normal density."""
    nodes, weights = (torch.from_numpy(p) for p in np.array(np.polynomial.legendre.leggauss(60)))
    r = rho * (nodes + 1) / 2
    x, y = scores(u)[..., None].unbind(-2)
    height = ((2 * r * x * y - x**2 - y**2) / (2 * (1 - r**2))).exp() / (1 - r**2).sqrt()
    return u.prod(-1) + rho / (4 * math.pi) * height @ weights


# C, c, h --------------------------------------------------------------------------------------


def test_functions_are_those_of_the_gaussian_copula(copula: Copula) -> None:
    u = points()
    z = scores(u)
    quadratic = RHO**2 * z.square().sum(-1) - 2 * RHO * z.prod(-1)
    exact = -quadratic / (2 * (1 - RHO**2)) - math.log(1 - RHO**2) / 2
    # Four digits are left of 1 - u = 1e-12, of which the log density is some 50.
    torch.testing.assert_close(copula.logpdf(u), exact, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(copula.pdf(u), exact.exp(), rtol=1e-7, atol=0)
    torch.testing.assert_close(copula.cdf(u), gaussian_copula(u, RHO), rtol=1e-6, atol=1e-14)
    torch.testing.assert_close(
        copula.logsf(1 - u[u.amax(1) < 0.1]), copula.logcdf(u[u.amax(1) < 0.1]), rtol=1e-3, atol=0
    )  # symmetric: both tails are one
    for of, fixed in ((0, 1), (1, 0)):
        exact = torch.special.ndtr((z[:, of] - RHO * z[:, fixed]) / math.sqrt(1 - RHO**2))
        found = copula.h(u, of=of, given=fixed)
        torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-14)


def test_h_of_two_given_one() -> None:
    u = torch.tensor([[0.2, 0.7, 0.4]])
    z = scores(u)
    mean = CORRELATION[:2, 2] * z[0, 2]
    covariance = CORRELATION[:2, :2] - torch.outer(CORRELATION[:2, 2], CORRELATION[2, :2])
    scale = covariance.diagonal().sqrt()
    level = torch.special.ndtr((z[:, :2] - mean) / scale)
    exact = gaussian_copula(level, float(covariance[0, 1] / scale.prod()))
    found = Copula(gaussian()).h(u, of=[0, 1], given=2)
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=0)


def test_faces_of_the_cube(copula: Copula) -> None:
    u = torch.tensor([0.0, 1e-300, 1e-12, 0.3, 1.0])
    ones, zeros = torch.ones_like(u), torch.zeros_like(u)
    torch.testing.assert_close(copula.cdf(torch.stack([u, ones], 1)), u, rtol=1e-12, atol=0)
    assert not copula.cdf(torch.stack([u, zeros], 1)).any()
    torch.testing.assert_close(copula.sf(torch.stack([u, zeros], 1)), 1 - u, rtol=1e-12, atol=1e-15)
    assert not copula.sf(torch.stack([u, ones], 1)).any()
    assert float(copula.logpdf(torch.tensor([0.0, 0.5]))) == -math.inf
    inside = torch.tensor([[0.0, 0.4], [1.0, 0.4]])
    torch.testing.assert_close(copula.h(inside, of=0, given=1), torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="`given`; got 0 or 1"):
        copula.h(inside, of=1, given=0)


def test_missing_levels_and_columns_left_out_are_marginalised() -> None:
    whole, pair = Copula(gaussian()), Copula(gaussian(), [2, 0])
    u = torch.rand(20, 3)
    holes = u.clone()
    holes[:, 1] = torch.nan
    rest = u[:, [2, 0]]
    for query in ("cdf", "sf", "pdf", "logsf"):
        found = getattr(whole, query)(holes)
        torch.testing.assert_close(found, getattr(pair, query)(rest))
        table = pd.DataFrame(rest.numpy(), columns=[2, 0])
        np.testing.assert_allclose(getattr(whole, query)(table), found, rtol=1e-12)
    assert whole.cdf({1: 0.3}) == pytest.approx(0.3, abs=1e-12)
    assert whole.pdf({1: 0.3}) == pytest.approx(1.0, abs=1e-12)
    assert whole.cdf(torch.full((1, 3), torch.nan)) == 1
    holes[10:] = u[10:]
    found = whole.h(holes, 0, [1, 2])
    torch.testing.assert_close(found[:10], pair.h(rest, 1, 0)[:10])
    torch.testing.assert_close(found[10:], whole.h(u, 0, [1, 2])[10:])


def test_shapes_and_batches() -> None:
    small, large = both(RHO, batch=3), both(RHO)
    u = torch.rand(2, 4, 2)
    for query in ("cdf", "pdf", "values"):
        torch.testing.assert_close(getattr(small, query)(u), getattr(large, query)(u))
    assert small.cdf(u).shape == small.h(u, 0, 1).shape == (2, 4)
    torch.testing.assert_close(small.levels(small.values(u)), u)


# Draws and pairs ------------------------------------------------------------------------------


def test_draws_are_uniform_and_normal_scores_correlate(copula: Copula) -> None:
    u = copula.sample(20_000, random_state=0)
    for column in range(2):
        assert stats.kstest(u[:, column].numpy(), "uniform").pvalue > 1e-3
    correlation = float(torch.corrcoef(scores(u).T)[0, 1])
    assert correlation == pytest.approx(RHO, abs=5 * (1 - RHO**2) / math.sqrt(len(u)))
    u = copula.sample(5000, given={0: 0.02}, random_state=0)
    assert (u[:, 0] == 0.02).all()
    assert stats.kstest(copula.h(u, of=1, given=0).numpy(), "uniform").pvalue > 1e-3


def test_draws_given_an_interval() -> None:
    copula = Copula(build(torch.randn(60, 3), width=5))
    u = copula.sample(2000, {1: (None, 0.1)}, random_state=0)
    assert (u[:, 1] <= 0.1).all()
    expected = copula.cdf({0: 0.4, 1: 0.1}) / 0.1
    assert float((u[:, 0] <= 0.4).double().mean()) == pytest.approx(expected, abs=0.05)


@examples(15)
@given(st.floats(-0.99, 0.99))
def test_rank_correlations_and_tails(rho: float) -> None:
    copula = both(rho)
    found = rank_correlations(copula.density, 0, 1)
    for estimate, exact in (
        (found.kendall_tau, 2 / math.pi * math.asin(rho)),
        (found.spearman_rho, 6 / math.pi * math.asin(rho / 2)),
    ):
        assert abs(estimate.value - exact) < 5 * estimate.stderr + 1e-12
        assert estimate.stderr < 2e-3
        assert "nats" not in str(estimate)
    assert copula.kendall_tau(0, 1) == found.kendall_tau
    assert copula.spearman_rho(0, 1) == found.spearman_rho


def test_tails_at_thresholds(copula: Copula) -> None:
    q = torch.tensor([0.5, 0.1, 1e-3])
    exact = gaussian_copula(q[:, None].expand(-1, 2), RHO) / q
    for tail in (copula.lower_tail, copula.upper_tail):
        torch.testing.assert_close(tail(0, 1, q), exact, rtol=1e-6, atol=0)
        np.testing.assert_allclose(tail(0, 1, q.numpy()), exact, rtol=1e-6)
        assert isinstance(tail(0, 1, 0.1), float)
    assert copula.upper_tail(0, 1, 1e-12) == pytest.approx(copula.lower_tail(0, 1, 1e-12), rel=1e-9)


# Laws on models of the library ----------------------------------------------------------------


@pytest.fixture(params=["ht", "copula"])
def fitted(request: pytest.FixtureRequest) -> Copula:
    x = torch.randn(80, 2) @ torch.tensor([[1.0, 0.0], [0.9, 0.3]])
    return Copula(build(x, width=6, tensor=request.param))


def test_density_is_the_mixed_derivative(fitted: Copula) -> None:
    u = 0.02 + 0.96 * torch.rand(30, 2)
    step = 1e-4
    shifts = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]) * step
    up, down, right, left = (fitted.cdf(u + shift) for shift in shifts)
    slope = (up + down - right - left) / (4 * step**2)
    torch.testing.assert_close(slope, fitted.pdf(u), rtol=1e-3, atol=1e-3)
    sides = torch.tensor([step, 0.0])
    slope = (fitted.cdf(u + sides) - fitted.cdf(u - sides)) / (2 * step)
    torch.testing.assert_close(slope, fitted.h(u, of=1, given=0), rtol=1e-4, atol=1e-5)


def test_mass_is_one_and_margins_are_uniform(fitted: Copula) -> None:
    nodes, weights = (torch.from_numpy(p) for p in np.array(np.polynomial.legendre.leggauss(80)))
    u, w = (nodes + 1) / 2, weights / 2
    density = fitted.pdf(torch.cartesian_prod(u, u)).reshape(80, 80)
    assert float(w @ density @ w) == pytest.approx(1, abs=0.02)  # steep in the corners
    edge = torch.stack([u, torch.ones_like(u)], 1)
    torch.testing.assert_close(fitted.cdf(edge), u, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(fitted.cdf(edge.flip(1)), u, rtol=1e-9, atol=1e-12)


def test_rank_correlations_are_those_of_draws_and_tails_vanish(fitted: Copula) -> None:
    u = fitted.sample(4000, random_state=0).numpy()
    for found, drawn in (
        (fitted.kendall_tau(0, 1), stats.kendalltau(*u.T).statistic),
        (fitted.spearman_rho(0, 1), stats.spearmanr(*u.T).statistic),
    ):
        assert found.value == pytest.approx(drawn, abs=0.05)
        assert found.stderr < 1e-3
    tail = fitted.lower_tail(0, 1, torch.tensor([0.05, 1e-4, 1e-12]))
    assert (tail[1:] < tail[:-1]).all()


# Refusals -------------------------------------------------------------------------------------


def test_columns_that_have_no_copula() -> None:
    codes = torch.randint(0, 3, (40, 1)).double()
    zeros = torch.where(torch.rand(40, 1) < 0.5, 0.0, torch.randn(40, 1))
    rows = torch.cat([torch.randn(40, 2), codes, zeros], 1)
    model = build(rows, width=3, categories={2: 3}, atoms={3: (0.0,)})
    assert Copula(model).names == (0, 1)
    for view, columns, column in ((model, [0, 2], 2), (model, [0, 3], 3)):
        with pytest.raises(ValueError, match=f"got column {column}"):
            Copula(view, columns)
    with pytest.raises(ValueError, match="got column 1"):
        Copula(model.marginal([0, 3]), [0, 1])
    with pytest.raises(ValueError, match="two or more"):
        Copula(model, [0])
    assert Copula(model.condition({2: {0, 1}, 3: 0.0})).pdf(torch.full((2,), 0.5)).shape == ()
    with pytest.raises(ValueError, match="one row of evidence; got one given 2"):
        Copula(model.condition(torch.zeros(2, 0)))


@pytest.mark.parametrize(
    ("query", "arguments", "message"),
    [
        ("cdf", (torch.tensor([0.5, 1.5]),), r"lie in \[0, 1\]; got 1.5"),
        ("cdf", (torch.rand(5, 3),), "2 columns in its last dim"),
        ("cdf", (torch.tensor([0, 1]),), "got torch.int64"),
        ("cdf", (0.5,), "a DataFrame, an array or a tensor; got float"),
        ("cdf", ({7: 0.5},), "got 7"),
        ("lower_tail", (0, 1, 0.0), "`q`"),
        ("lower_tail", (0, 0), "disjoint"),
        ("sample", (3, {0: 1.0}), "column 0; got 1"),
        ("sample", (3, {0: (0.5, 0.1)}), "column 0"),
        ("sample", (3, {0: (0.5, 0.1, 0.2)}), "pair"),
        ("h", (torch.rand(2), 0, 0), "disjoint"),
        ("h", ({0: 0.5}, 0, 1), "levels of column 1; got none"),
    ],
)
def test_wrong_arguments(
    copula: Copula, query: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(copula, query)(*arguments)
