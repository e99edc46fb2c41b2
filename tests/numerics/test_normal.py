import math

import mpmath
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.numerics.normal import (
    log_normal_cdf,
    log_normal_density,
    log_normal_interval,
    normal_of_logit,
    normal_quantile,
)

INF = math.inf
POINTS = [-1e4, -300.0, -40.0, -10.0, -3.0, -1.0, -1e-3, 0.0, 0.5, 2.0, 8.0, 30.0]
INTERVALS = [
    *((-INF, -1e4), (-INF, -3.0), (-INF, 0.0), (-INF, 5.0), (-INF, INF), (1e4, INF), (2.0, INF)),
    *((-3.0, 2.9), (-0.6, 0.5), (-1e-9, 1e-9), (0.0, 1.0), (0.25, 1.25), (-1.2, -0.2), (7.0, 7.9)),
    *((30.0, 31.0), (-31.0, -30.0), (-40.0, 38.0), (100.0, 100.04), (100.0, 100.5), (-8.0, 30.0)),
]


def exact_cdf(z: float) -> mpmath.mpf:
    return mpmath.erfc(-mpmath.mpf(z) / mpmath.sqrt(2)) / 2


def exact_log_interval(low: float, high: float, gap: float | None = None) -> float:
    with mpmath.workdps(80):
        a = mpmath.mpf(low)
        b = mpmath.mpf(high) if gap is None else a + mpmath.mpf(gap)
        mass = exact_cdf(-a) - exact_cdf(-b) if a > 0 else exact_cdf(b) - exact_cdf(a)
        return float(mpmath.log(mass))


def exact_quantile(t: float) -> float:
    """Solve for the quantile of sigmoid(t), t < 0."""
    with mpmath.workdps(60):
        target = -mpmath.log1p(mpmath.exp(-mpmath.mpf(t)))
        start = -mpmath.sqrt(-2 * target) if t < -20 else mpmath.mpf(t) / 2
        return float(mpmath.findroot(lambda z: mpmath.log(exact_cdf(z)) - target, start))


def leaf(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_cdf_and_its_gradient() -> None:
    x = leaf(*POINTS)
    value = log_normal_cdf(x)
    (slope,) = torch.autograd.grad(value.sum(), x)
    with mpmath.workdps(60):
        logs = [mpmath.log1p(-exact_cdf(-z)) if z > 0 else mpmath.log(exact_cdf(z)) for z in POINTS]
        hazards = [mpmath.npdf(mpmath.mpf(z)) / exact_cdf(z) for z in POINTS]
    # At 30 the survival function itself has a condition number of 900.
    assert_close(value, torch.tensor([float(v) for v in logs]), rtol=1e-13, atol=1e-300)
    assert_close(slope, torch.tensor([float(v) for v in hazards]), rtol=2e-13, atol=1e-300)
    normal = torch.distributions.Normal(0.0, 1.0)
    assert_close(log_normal_density(x), normal.log_prob(x))


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_interval(low: float, high: float) -> None:
    a, b = leaf(low), leaf(high)
    value = log_normal_interval(a, b)
    assert_close(value.item(), exact_log_interval(low, high), rtol=3e-15, atol=1e-14)
    grads = torch.autograd.grad(value.sum(), (a, b))
    ends = (-log_normal_density(a).sub(value).exp(), log_normal_density(b).sub(value).exp())
    for got, end in zip(grads, ends, strict=True):
        assert_close(got, end.detach(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("z", [0.0, 5.0, -5.0, 30.0, -30.0, 1000.0])
@pytest.mark.parametrize("gap", [1e-300, 1e-12, 1e-3, 0.9])
def test_narrow_interval_is_as_exact_as_its_gap(z: float, gap: float) -> None:
    low, width = torch.tensor([z]), torch.tensor([gap])
    value = log_normal_interval(low, low + width, width)
    tiny = gap < 1e-40  # too narrow for the reference's digits
    point = float(log_normal_density(low)) + math.log(gap)
    expected = point if tiny else exact_log_interval(z, z, gap)
    # The upper end is rounded: half a unit of z moves the log by z times that.
    assert_close(value.item(), expected, rtol=1e-15, atol=1e-14 + 3e-16 * z * z)


def test_wide_and_narrow_forms_meet_without_a_step() -> None:
    low = torch.tensor([0.0, -0.5, 3.0, -9.0, 20.0])
    for width in (1.0, 8.0):
        at = width / (1.0 if width == 1.0 else (2 * low.abs()).clamp_min(8.0))
        below = log_normal_interval(low, low + at * (1 - 1e-12))
        above = log_normal_interval(low, low + at * (1 + 1e-12))
        assert_close(below, above, rtol=1e-11, atol=1e-11)


def test_empty_intervals_have_no_mass_and_no_gradient() -> None:
    low, high = leaf(0.0, INF, -INF, 3.0), leaf(0.0, INF, -INF, 2.0)
    value = log_normal_interval(low, high)
    assert (value == -INF).all()
    assert all((g == 0).all() for g in torch.autograd.grad(value.sum(), (low, high)))
    # Nor is there any where the square of an end overflows.
    low, high = torch.tensor([1e29, -1e30]).float(), torch.tensor([1e30, -1e29]).float()
    assert (log_normal_interval(low, high) == -INF).all()


def test_gradients() -> None:
    low, high = leaf(-3.0, 0.1, 2.0, -8.0, 6.0), leaf(-2.9, 0.3, 5.0, 8.0, 6.4)
    gap = (high - low).detach().requires_grad_()
    assert gradcheck(log_normal_interval, (low, high))
    assert gradcheck(log_normal_interval, (low, high, gap))
    assert gradcheck(log_normal_cdf, (leaf(-50.0, -1.0, 0.0, 2.0),))
    logits = leaf(-800.0, -30.5, -20.0, -1.0, 0.3, 5.0, 600.0)
    assert gradcheck(lambda t: normal_of_logit(t)[0], (logits,))
    assert gradcheck(lambda t: normal_of_logit(t)[1], (logits,), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("t", [-1e4, -700.0, -100.0, -31.0, -29.9, -8.0, -1.0, -0.01, 0.0])
def test_score_of_a_logit(t: float) -> None:
    expected = exact_quantile(t)
    with mpmath.workdps(60):
        size = mpmath.mpf(t)
        log_sigmoids = -mpmath.log1p(mpmath.exp(size)) - mpmath.log1p(mpmath.exp(-size))
        square = mpmath.mpf(expected) ** 2 / 2
        slope = float(log_sigmoids + square + mpmath.log(2 * mpmath.pi) / 2)
    for sign in (1, -1):
        z, log_slope = normal_of_logit(torch.tensor([sign * t]))
        assert_close(z.item(), sign * expected, rtol=1e-14, atol=1e-15)
        # The reference's own root is rounded to a double: z^2 units of it.
        assert_close(log_slope.item(), slope, rtol=1e-13, atol=1e-15 * (1 + expected**2))


def test_the_slope_is_the_derivative() -> None:
    t = leaf(*torch.linspace(-1e4, 1e4, 101).tolist(), -1.0, 1e-9, 0.0)
    z, log_slope = normal_of_logit(t)
    (slope,) = torch.autograd.grad(z.sum(), t)
    assert_close(slope, log_slope.detach().exp(), rtol=1e-12, atol=0.0)


def test_quantile_inverts_the_cdf() -> None:
    z = torch.cat([torch.linspace(-100.0, 100.0, 401), torch.tensor([-1e4, 1e4, 1e-8])])
    found = normal_quantile(log_normal_cdf(z), log_normal_cdf(-z))
    assert_close(found, z, rtol=1e-14, atol=1e-15)
    log_u, log_1mu = leaf(-INF, 0.0, math.log(0.5)), leaf(0.0, -INF, math.log(0.5))
    z = normal_quantile(log_u, log_1mu)
    assert_close(z, torch.tensor([-INF, INF, 0.0]), atol=1e-15, rtol=0.0)
    for grad in torch.autograd.grad(z[2], (log_u, log_1mu)):
        assert grad.isfinite().all()


def test_float32() -> None:
    t = torch.linspace(-1e4, 1e4, 1001, dtype=torch.float64)
    exact, exact_slope = normal_of_logit(t)
    z, slope = normal_of_logit(t.float())
    assert z.dtype == slope.dtype == torch.float32
    assert_close(z.double(), exact, rtol=1e-6, atol=1e-6)
    assert_close(slope.double(), exact_slope, rtol=1e-5, atol=1e-5)
    low = torch.linspace(-30.0, 30.0, 61, dtype=torch.float32)
    gap = torch.logspace(-12, 1, 14, dtype=torch.float32)[:, None]
    got = log_normal_interval(low, low + gap, gap)
    assert got.dtype == torch.float32
    double = log_normal_interval(low.double(), low.double() + gap.double(), gap.double())
    assert_close(got.double(), double, rtol=1e-6, atol=2e-4)
