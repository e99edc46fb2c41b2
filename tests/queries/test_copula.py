"""The copula of a normal distribution is the Gaussian copula, of which everything is known."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from marginals.densities import build
from marginals.queries import Copula, rank_correlations
from tests.queries.gaussian_boxes import GaussianBoxes

RHO = 0.6
SCALES = torch.tensor([2.0, 0.5, 10.0], dtype=torch.float64)
CORRELATION = torch.tensor(
    [[1.0, RHO, 0.3], [RHO, 1.0, -0.4], [0.3, -0.4, 1.0]], dtype=torch.float64
)


def gaussian() -> GaussianBoxes:
    """Three columns on scales of their own, which a copula must not see."""
    mean = torch.tensor([5.0, -1.0, 100.0])
    return GaussianBoxes(mean, SCALES[:, None] * CORRELATION * SCALES)


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


def test_density_is_the_gaussian_copulas(copula: Copula) -> None:
    u = points()
    z = scores(u)
    quadratic = RHO**2 * z.square().sum(-1) - 2 * RHO * z.prod(-1)
    exact = -quadratic / (2 * (1 - RHO**2)) - math.log(1 - RHO**2) / 2
    # Four digits are left of 1 - u = 1e-12, of which the log density is some 50.
    torch.testing.assert_close(copula.logpdf(u), exact, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(copula.pdf(u), exact.exp(), rtol=1e-7, atol=0)


def test_cdf_is_the_bivariate_normals(copula: Copula) -> None:
    u = points()
    torch.testing.assert_close(copula.cdf(u), gaussian_copula(u, RHO), rtol=1e-6, atol=1e-14)


def test_h_is_the_conditional_normal(copula: Copula) -> None:
    u = points()
    z = scores(u)
    for of, given in ((0, 1), (1, 0)):
        exact = torch.special.ndtr((z[:, of] - RHO * z[:, given]) / math.sqrt(1 - RHO**2))
        torch.testing.assert_close(copula.h(u, of, given), exact, rtol=1e-8, atol=1e-12)


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


def test_survival_keeps_the_upper_tail(copula: Copula) -> None:
    u = torch.tensor([[1e-12, 0.2], [0.3, 1e-9]])
    # The Gaussian copula is symmetric: both tails are one.
    torch.testing.assert_close(copula.sf(1 - u), copula.cdf(u), rtol=1e-3, atol=0)
    torch.testing.assert_close(
        copula.upper_tail(0, 1, 1e-12), copula.lower_tail(0, 1, 1e-12), rtol=1e-9, atol=0
    )


def test_missing_levels_are_marginalised() -> None:
    whole, pair = Copula(gaussian()), Copula(gaussian(), [2, 0])
    u = torch.rand(20, 3)
    holes = u.clone()
    holes[:, 1] = torch.nan
    rest = u[:, [2, 0]]
    for ask in ("cdf", "sf", "pdf"):
        found = getattr(whole, ask)(holes)
        torch.testing.assert_close(found, getattr(pair, ask)(rest))
        torch.testing.assert_close(found, getattr(whole, ask)(rest, columns=[2, 0]))
    single = torch.full((1, 3), torch.nan)
    single[0, 1] = 0.3
    assert float(whole.cdf(single)) == pytest.approx(0.3, abs=1e-12)
    assert float(whole.pdf(single)) == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(whole.h(holes, 0, [1, 2]), pair.h(rest, 1, 0))


def test_shapes_and_batches() -> None:
    small = Copula(GaussianBoxes(torch.zeros(2), CORRELATION[:2, :2], batch=3))
    large = Copula(GaussianBoxes(torch.zeros(2), CORRELATION[:2, :2]))
    u = torch.rand(2, 4, 2)
    for ask in ("cdf", "pdf", "quantiles"):
        torch.testing.assert_close(getattr(small, ask)(u), getattr(large, ask)(u))
    assert small.cdf(u).shape == (2, 4)
    assert small.h(u, 0, 1).shape == (2, 4)
    torch.testing.assert_close(small.levels(small.quantiles(u)), u)


# Draws ----------------------------------------------------------------------------------------


def test_draws_are_uniform_and_normal_scores_correlate(copula: Copula) -> None:
    u = copula.sample(20_000, generator=torch.Generator().manual_seed(0))
    for column in range(2):
        assert stats.kstest(u[:, column].numpy(), "uniform").pvalue > 1e-3
    correlation = float(torch.corrcoef(scores(u).T)[0, 1])
    assert correlation == pytest.approx(RHO, abs=5 * (1 - RHO**2) / math.sqrt(len(u)))


def test_draws_given_a_level(copula: Copula) -> None:
    u = copula.sample(5000, given={0: 0.02}, generator=torch.Generator().manual_seed(0))
    assert (u[:, 0] == 0.02).all()
    level = copula.h(u, of=1, given=0)
    assert stats.kstest(level.numpy(), "uniform").pvalue > 1e-3


def test_draws_given_an_interval() -> None:
    model = build(torch.randn(60, 3), width=5)
    copula = Copula(model)
    u = copula.sample(2000, {1: (None, 0.1)}, torch.Generator().manual_seed(0))
    assert (u[:, 1] <= 0.1).all()
    corner = torch.tensor([[0.4, 0.1]])
    expected = float(copula.cdf(corner, columns=[0, 1])) / 0.1
    assert float((u[:, 0] <= 0.4).double().mean()) == pytest.approx(expected, abs=0.05)


# Pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_rank_correlations(rho: float) -> None:
    model = GaussianBoxes(torch.tensor([3.0, 4.0]), torch.tensor([[1.0, rho], [rho, 1.0]]))
    both = rank_correlations(model, 0, 1)
    for found, exact in (
        (both.kendall_tau, 2 / math.pi * math.asin(rho)),
        (both.spearman_rho, 6 / math.pi * math.asin(rho / 2)),
    ):
        assert abs(found.value - exact) < 5 * found.stderr + 1e-12
        assert found.stderr < 2e-3
        assert "nats" not in str(found)


def test_rank_correlations_of_a_copula(copula: Copula) -> None:
    both = rank_correlations(gaussian(), 0, 1, points=64)
    assert copula.kendall_tau(0, 1, points=64) == both.kendall_tau
    assert copula.spearman_rho(1, 0, points=64).value == pytest.approx(
        6 / math.pi * math.asin(RHO / 2), abs=0.02
    )


def test_tails_at_thresholds(copula: Copula) -> None:
    q = torch.tensor([0.5, 0.1, 1e-3])
    exact = gaussian_copula(q[:, None].expand(-1, 2), RHO) / q
    torch.testing.assert_close(copula.lower_tail(0, 1, q), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(copula.upper_tail(0, 1, q), exact, rtol=1e-6, atol=0)
    assert copula.lower_tail(0, 1, 0.1).shape == ()


# Laws on a model of the library ---------------------------------------------------------------


@pytest.fixture(params=["ht", "copula"])
def fitted(request: pytest.FixtureRequest) -> Copula:
    x = torch.randn(80, 2) @ torch.tensor([[1.0, 0.0], [0.9, 0.3]])
    return Copula(build(x, width=6, tensor=request.param).double())


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


def test_rank_correlations_are_those_of_draws(fitted: Copula) -> None:
    u = fitted.sample(4000, generator=torch.Generator().manual_seed(0)).numpy()
    for found, drawn in (
        (fitted.kendall_tau(0, 1), stats.kendalltau(*u.T).statistic),
        (fitted.spearman_rho(0, 1), stats.spearmanr(*u.T).statistic),
    ):
        assert found.value == pytest.approx(drawn, abs=0.05)
        assert found.stderr < 1e-3


def test_limits_of_tails_are_zero(fitted: Copula) -> None:
    tail = fitted.lower_tail(0, 1, torch.tensor([0.05, 1e-4, 1e-12]))
    assert (tail[1:] < tail[:-1]).all()


# Refusals -------------------------------------------------------------------------------------


def test_columns_that_have_no_copula() -> None:
    codes = torch.randint(0, 3, (40, 1)).double()
    zeros = torch.where(torch.rand(40, 1) < 0.5, 0.0, torch.randn(40, 1))
    model = build(
        torch.cat([torch.randn(40, 2), codes, zeros], 1),
        width=3,
        categories={2: 3},
        atoms={3: (0.0,)},
    )
    assert Copula(model).columns == 2
    for column in (2, 3):
        with pytest.raises(ValueError, match=f"got column {column}"):
            Copula(model, [0, column])
    with pytest.raises(ValueError, match="got column 1"):
        Copula(model.marginal([0, 3]), [0, 1])
    with pytest.raises(ValueError, match="two or more"):
        Copula(model, [0])
    given = Copula(model.condition({2: {0, 1}, 3: 0.0}))
    assert given.pdf(torch.full((2,), 0.5)).shape == ()
    with pytest.raises(ValueError, match="one row of evidence; got one given 2"):
        Copula(model.condition(torch.tensor([[torch.nan] * 2]).new_zeros(2, 0)))


def test_wrong_levels(copula: Copula) -> None:
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]; got 1.5"):
        copula.cdf(torch.tensor([0.5, 1.5]))
    with pytest.raises(ValueError, match="2 columns; got 3"):
        copula.cdf(torch.rand(5, 3))
    with pytest.raises(TypeError, match="`u`"):
        copula.cdf(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`q`"):
        copula.lower_tail(0, 1, 0.0)
    with pytest.raises(ValueError, match="column 0; got 1"):
        copula.sample(3, {0: 1.0})
    with pytest.raises(ValueError, match="column 0"):
        copula.sample(3, {0: (0.5, 0.1)})
    with pytest.raises(ValueError, match="disjoint"):
        copula.h(torch.rand(2), 0, 0)
