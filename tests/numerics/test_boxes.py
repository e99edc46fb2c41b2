import itertools
import math

import mpmath
import pytest
import torch
from scipy.stats import kstest, multivariate_normal
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.numerics.ghk import log_box_qmc, sample_box
from marginals.numerics.normal import log_normal_interval
from marginals.numerics.normal_boxes import log_box, log_box2
from tests.laws.statistics import P_VALUE

INF = math.inf
BOXES = 12
RHOS = [0.0, 1e-9, 0.3, -0.99, 0.9999, -(1 - 1e-8)]
PAIRS = {
    "quadrant": ((-INF, -INF), (0.0, 0.0)),
    "cdf": ((-INF, -INF), (1.0, -0.5)),
    "survival": ((0.3, 0.31), (INF, INF)),
    "middle": ((-1.0, -0.5), (0.5, 2.0)),
    "strip": ((-INF, 0.2), (INF, 0.4)),
    "all": ((-INF, -INF), (INF, INF)),
    "tail": ((4.0, 4.5), (INF, INF)),
    "opposite tails": ((2.0, -INF), (INF, -2.0)),
    "narrow": ((0.5, 0.5), (0.5001, 0.5001)),
    "thin first": ((1.0, -INF), (1.0 + 1e-6, 1.0)),
    "thin second": ((-INF, 1.0), (1.0, 1.0 + 1e-6)),
    "half open": ((-INF, -1.0), (2.0, INF)),
}


def factor(rho: float) -> Tensor:
    # sqrt((1 - r)(1 + r)) keeps the digits that 1 - r * r loses.
    return torch.tensor([[1.0, 0.0], [rho, math.sqrt((1 - abs(rho)) * (1 + abs(rho)))]])


def correlation(size: int) -> Tensor:
    root = torch.randn(size, size + 1)
    covariance = root @ root.T
    scale = covariance.diagonal().sqrt()
    return covariance / scale[:, None] / scale


def exact_pair(lower: tuple[float, ...], upper: tuple[float, ...], cholesky: Tensor) -> float:
    """Integrate with mpmath, split wherever the second interval opens or closes."""
    with mpmath.workdps(20):
        slope, width = (mpmath.mpf(x) for x in cholesky[1].tolist())
        cuts = {mpmath.mpf(x) for x in (-12, -6, -3, 0, 3, 6, 12)}
        if slope:
            for end, step in itertools.product((lower[1], upper[1]), range(-12, 13, 3)):
                if math.isfinite(end):
                    cuts.add((mpmath.mpf(end) + step * width) / slope)
        low, high = (mpmath.mpf(max(-14.0, min(14.0, x))) for x in (lower[0], upper[0]))
        points = [low, *sorted(x for x in cuts if low < x < high), high]

        def mass(z: mpmath.mpf) -> mpmath.mpf:
            a, b = ((mpmath.mpf(x) - slope * z) / width for x in (lower[1], upper[1]))
            inside = mpmath.ncdf(-a) - mpmath.ncdf(-b) if a > 0 else mpmath.ncdf(b) - mpmath.ncdf(a)
            return mpmath.npdf(z) * inside

        return float(mpmath.quad(mass, points, maxdegree=5))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("rho", RHOS)
def test_two_columns(rho: float, pair: str) -> None:
    lower, upper = PAIRS[pair]
    cholesky = factor(rho)
    got = log_box2(torch.tensor(lower), torch.tensor(upper), torch.zeros(2), cholesky)
    expected = exact_pair(lower, upper, cholesky)
    assert_close(got.exp().item(), expected, rtol=1e-9, atol=1e-200)
    assert abs(got.exp().item() - expected) < 1e-12
    assert got <= 1e-12


@pytest.mark.parametrize("rho", [*RHOS, -0.3, 0.9, 1 - 1e-8])
def test_quadrants_and_far_tails(rho: float) -> None:
    end = torch.zeros(2)
    got = log_box2(end - INF, end, end, factor(rho)).exp()
    angle = math.atan2(rho, factor(rho)[1, 1])
    assert_close(got.item(), 0.25 + angle / (2 * math.pi), rtol=1e-10, atol=1e-13)
    lower = torch.tensor([10.0, 30.0, 100.0, 1000.0])[:, None].expand(4, 2)
    got = log_box2(lower, lower + INF, torch.zeros(2), factor(rho))
    tail = log_normal_interval(lower[:, 0], lower[:, 0] + INF)
    assert got.isfinite().all()
    assert (got <= tail + 1e-9).all()
    assert (got.diff() < 0).all()
    if rho == 0:
        assert_close(got, 2 * tail, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("rho", [0.0, 0.5, -0.9])
def test_narrow_boxes_are_as_exact_as_their_gap(rho: float) -> None:
    gap = torch.tensor([[1e-12, 1e-12], [1e-9, 1e-12], [1e-12, 1.0]])
    lower, cholesky = torch.tensor([5.0, 4.0]), factor(rho)
    got = log_box2(lower, lower + gap, torch.zeros(2), cholesky, gap)
    normal = torch.distributions.MultivariateNormal(torch.zeros(2), scale_tril=cholesky)
    assert_close(got[:2], normal.log_prob(lower) + gap[:2].log().sum(1), rtol=0, atol=1e-7)
    a, b = ((x - rho * 5.0) / cholesky[1, 1] for x in (lower[1], lower[1] + 1.0))
    first = -12.5 - 0.5 * math.log(2 * math.pi) + math.log(1e-12)
    assert_close(got[2], first + log_normal_interval(a, b), rtol=0.0, atol=1e-9)


def test_empty_boxes() -> None:
    lower = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]], requires_grad=True)
    upper = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    got = log_box2(lower, upper, torch.zeros(2), factor(0.5))
    assert (got == -INF).all()
    assert all((g == 0).all() for g in torch.autograd.grad(got.sum(), (lower, upper)))


def test_mean_and_scale_are_taken_out() -> None:
    lower, upper = torch.tensor([[-INF], [3.0], [0.0]]), torch.tensor([[1.0], [4.0], [INF]])
    one = log_box(lower, upper, torch.tensor([1.0]), torch.tensor([[2.0]]))
    assert_close(one, log_normal_interval((lower - 1) / 2, (upper - 1) / 2).squeeze(-1))
    lower, upper = torch.tensor([-1.0, 0.0]), torch.tensor([0.5, 2.0])
    scale, mean = torch.tensor([2.0, 5.0]), torch.tensor([3.0, -1.0])
    plain = log_box2(lower, upper, torch.zeros(2), factor(0.7))
    moved = (lower * scale + mean, upper * scale + mean, mean, scale[:, None] * factor(0.7))
    assert_close(log_box2(*moved), plain, rtol=1e-12, atol=1e-12)


def test_gradients_of_two_columns() -> None:
    lower = torch.tensor([[-1.0, -0.5], [-INF, 0.2], [2.0, 2.0], [0.1, -INF]], requires_grad=True)
    upper = torch.tensor([[0.5, 2.0], [1.0, INF], [INF, INF], [0.2, 0.3]], requires_grad=True)
    mean = torch.tensor([0.1, -0.2], requires_grad=True)
    cholesky = torch.tensor([[1.1, 0.0], [0.6, 0.7]], requires_grad=True)

    def function(low: Tensor, high: Tensor, mean: Tensor, cholesky: Tensor) -> Tensor:
        # Differences at an infinite end would be NaN: it keeps its value.
        low = torch.where(lower.isinf(), lower.detach(), low)
        high = torch.where(upper.isinf(), upper.detach(), high)
        return log_box2(low, high, mean, cholesky.tril())

    start = (lower.detach().nan_to_num(0, 0, 0), upper.detach().nan_to_num(0, 0, 0))
    inputs = (*(x.requires_grad_() for x in start), mean, cholesky)
    assert gradcheck(function, inputs, rtol=1e-5, atol=1e-7, fast_mode=True)
    grads = torch.autograd.grad(log_box2(lower, upper, mean, cholesky).sum(), (lower, upper))
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_many_columns_against_scipy(size: int) -> None:
    covariance = correlation(size)
    lower, upper = -torch.rand(size) * 2, torch.rand(size) * 2 + 0.2
    lower[0], upper[-1] = -INF, INF
    cholesky = torch.linalg.cholesky(covariance)
    log_mass, error = log_box_qmc(
        lower, upper, torch.zeros(size), cholesky, tolerance=1e-4, max_points=1 << 15
    )
    assert error <= 1e-4
    limits = {"lower_limit": lower.numpy(), "abseps": 1e-7, "releps": 1e-7, "maxpts": 2_000_000}
    expected = multivariate_normal.cdf(upper.numpy(), cov=covariance.numpy(), rng=0, **limits)
    assert abs(log_mass.exp().item() - expected) < 1e-4 * expected


@pytest.mark.parametrize("size", [3, 6])
def test_equal_correlations_have_a_closed_form(size: int) -> None:
    # The probability that the first of n + 1 equal and independent columns is the largest.
    cholesky = torch.linalg.cholesky(torch.eye(size) + 1).expand(4, size, size)
    end = torch.zeros(4, size)
    log_mass, error = log_box_qmc(end - INF, end, end, cholesky)
    assert (error <= 2e-3).all()
    assert ((log_mass.exp() * (size + 1) - 1).abs() <= error).all()


def test_independent_columns_are_exact_in_the_tails() -> None:
    lower = torch.tensor([[5.0, 30.0, -2.0], [-INF, 8.0, 1.0]])
    upper = torch.tensor([[INF, 31.0, -1.0], [-9.0, 8.01, INF]])
    log_mass, error = log_box_qmc(lower, upper, torch.zeros(3), torch.eye(3))
    assert_close(log_mass, log_normal_interval(lower, upper).sum(-1), rtol=1e-12, atol=1e-12)
    assert (error < 1e-12).all()


@pytest.mark.parametrize("size", [5, 10])
def test_rare_boxes_have_a_small_and_honest_relative_error(size: int) -> None:
    """Random boxes down to 1e-9 within one percent, and within the stated error."""
    root = torch.randn(BOXES, size, size // 2)
    covariance = root @ root.mT + torch.diag_embed(0.3 * torch.rand(BOXES, size) + 0.1)
    scale = covariance.diagonal(dim1=1, dim2=2).sqrt()
    cholesky = torch.linalg.cholesky(covariance / scale[:, :, None] / scale[:, None])
    lower = 0.7 * torch.randn(BOXES, size)
    upper = torch.where(
        torch.rand(BOXES, size) < 0.3, INF, lower + 3 * torch.rand(BOXES, size) + 0.5
    )
    box = (lower, upper, torch.zeros(size), cholesky)
    log_mass, error = log_box_qmc(*box)
    keep = log_mass > math.log(1e-9)
    assert keep.sum() >= BOXES // 2
    box = (lower[keep], upper[keep], torch.zeros(size), cholesky[keep])
    exact, rest = log_box_qmc(*box, tolerance=2e-4, max_points=1 << 14, seed=1)
    away = (log_mass[keep] - exact).expm1().abs()
    assert away.max() < 0.01
    assert (away <= error[keep] + rest).all()


def test_points_go_to_the_boxes_that_count() -> None:
    cholesky = torch.linalg.cholesky(correlation(4))
    lower = torch.tensor([[0.0] * 4, [1.0] * 4]).expand(2, 2, 4)
    log_weights = torch.tensor([[0.0, -60.0], [-60.0, 0.0]])
    box = (lower, lower + INF, torch.zeros(4), cholesky)
    log_mass, error = log_box_qmc(*box, log_weights=log_weights, tolerance=1e-4)
    assert (error.diagonal() < error.fliplr().diagonal()).all()
    assert_close(log_mass[0], log_mass[1], rtol=0, atol=0.05)


def test_points_are_fixed_by_the_seed_and_stop_at_the_cap() -> None:
    end, cholesky = torch.zeros(3, 4), torch.linalg.cholesky(correlation(4))
    box = (end - 1, end + 1, end, cholesky)
    before = torch.random.get_rng_state()
    first, again, other = (log_box_qmc(*box, seed=seed) for seed in (5, 5, 6))
    assert (torch.random.get_rng_state() == before).all()
    assert_close(first, again, rtol=0.0, atol=0.0)
    assert (first[0] != other[0]).all()
    assert (log_box_qmc(*box, tolerance=1e-30, max_points=256)[1] > 0).all()


def test_gradients_for_fixed_points() -> None:
    cholesky = torch.linalg.cholesky(correlation(3)).requires_grad_()
    lower = torch.tensor([[-1.0, -0.2, -2.0]], requires_grad=True)
    upper = torch.tensor([[0.5, 0.3, 2.0]], requires_grad=True)
    zero, few = torch.zeros(3), {"tolerance": 1.0, "max_points": 128}

    def function(low: Tensor, high: Tensor, cholesky: Tensor) -> Tensor:
        return log_box_qmc(low, high, zero, cholesky.tril(), **few)[0]

    assert gradcheck(function, (lower, upper, cholesky), rtol=1e-5, atol=1e-7)
    open_end = torch.tensor([[-INF, -1.0, 0.0]], requires_grad=True)
    assert (log_box(open_end, open_end.detach() + 1.0, zero, cholesky) == -INF).all()
    value = log_box(open_end, torch.tensor([0.0, INF, 1.0]), zero, cholesky)
    grads = torch.autograd.grad(value.sum(), (open_end, cholesky))
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_float32_in_float32_out(size: int) -> None:
    lower = torch.full((5, size), -1.0)
    upper = torch.linspace(0.0, 2.0, 5)[:, None].expand(5, size)
    cholesky = torch.linalg.cholesky(correlation(size))
    single = [x.float() for x in (lower, upper, torch.zeros(size), cholesky)]
    got = log_box(*single)
    assert got.dtype == torch.float32
    assert_close(got.double(), log_box(*(x.double() for x in single)), rtol=1e-6, atol=1e-6)


def test_errors_name_the_argument() -> None:
    three = torch.zeros(3)
    with pytest.raises(ValueError, match="Expected `lower` to have 2 columns"):
        log_box2(three, three, three, torch.eye(3))
    with pytest.raises(ValueError, match="Expected `cholesky` to have shape"):
        log_box(three, three, three, torch.eye(2))


def draws(lower: Tensor, upper: Tensor, cholesky: Tensor, count: int, rounds: int = 64) -> Tensor:
    size = len(lower)
    low, high = lower.expand(count, size), upper.expand(count, size)
    return sample_box(low, high, torch.zeros(size), cholesky, rounds=rounds)


@pytest.mark.parametrize(("rho", "rounds"), [(0.0, 64), (0.8, 0), (-0.95, 64), (-0.95, 0)])
def test_draws_follow_the_truncated_normal(rho: float, rounds: int) -> None:
    """By rejection and, without rounds, by importance."""
    lower, upper = torch.tensor([-INF, 0.5]), torch.tensor([1.0, 1.5])
    cholesky = factor(rho)
    drawn = draws(lower, upper, cholesky, 1000 if rounds else 400, rounds)
    assert ((drawn >= lower) & (drawn <= upper)).all()
    total = log_box2(lower, upper, torch.zeros(2), cholesky)
    for j in range(2):
        # The CDF of one column is the box cut at its value.
        cut = upper.repeat(len(drawn), 1)
        cut[:, j] = drawn[:, j]
        u = (log_box2(lower, cut, torch.zeros(2), cholesky) - total).exp()
        assert kstest(u.numpy(), "uniform").pvalue > P_VALUE


def test_draws_in_tails_narrow_and_open_boxes() -> None:
    cholesky = torch.linalg.cholesky(correlation(3))
    lower, upper = torch.tensor([8.0, -INF, 0.5]), torch.tensor([INF, -6.0, 0.5 + 1e-6])
    drawn = draws(lower, upper, cholesky, 50)
    assert drawn.isfinite().all()
    assert ((drawn >= lower) & (drawn <= upper)).all()
    drawn = draws(torch.full((3,), -INF), torch.full((3,), INF), cholesky, 4000)
    for z in torch.linalg.solve_triangular(cholesky, drawn.T, upper=False):
        assert kstest(z.numpy(), "norm").pvalue > P_VALUE


def test_draws_repeat_with_the_generator_and_an_empty_box_has_none() -> None:
    end = torch.zeros(5, 2)

    def once() -> Tensor:
        generator = torch.Generator().manual_seed(1)
        return sample_box(end, end + 1, end, factor(0.5), generator=generator)

    assert_close(once(), once(), rtol=0.0, atol=0.0)
    assert sample_box(end, end, end, factor(0.5)).isnan().all()
