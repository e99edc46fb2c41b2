"""The learned scale, and the standard distributions that live on it."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.leaves.learned_scale import (
    LearnedScale,
    invert_mixture,
    log_cdf,
    log_density,
    log_interval,
    quantile,
)

BASES = ["normal", "logistic"]
DTYPES = [torch.float32, torch.float64]
LEVELS = [1e-300, 1e-12, 1e-3, 0.3, 0.5, 0.9]


def logarithms(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return log u and log(1 - u) for the levels and their mirror images."""
    u = torch.tensor(LEVELS, dtype=torch.float64)
    near, far = u.log(), torch.log1p(-u)
    return torch.cat([near, far]).to(dtype), torch.cat([far, near]).to(dtype)


# Standard distributions ---------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("at", [-1e4, -300.0, -38.5, -5.0, -1.0, -0.05, 0.0, 2.0, 40.0, 1e4])
@pytest.mark.parametrize("width", [1e-3, 0.04, 0.3, 3.0, 50.0])
def test_intervals_add_up(base: str, at: float, width: float) -> None:
    """The two parts of an interval make the whole, whichever formula each of them takes."""
    low, first, second = torch.tensor([[at], [width], [0.7 * width]])
    parts = [
        log_interval(low, low + first, first, base),
        log_interval(low + first, low + first + second, second, base),
    ]
    whole = log_interval(low, low + first + second, first + second, base)
    # z itself is known to eps |z| only, and the log value of the normal has the slope |z|.
    tolerance = 1e-13 + 4e-16 * at**2
    assert_close(torch.logaddexp(*parts), whole, rtol=0, atol=tolerance)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("at", [-1e4, -300.0, -38.5, -5.0, -1.0, -0.05, 0.0, 2.0, 40.0, 1e4])
def test_open_ends_and_mirror_images(base: str, at: float) -> None:
    z, inf, gap = torch.tensor([[at], [torch.inf], [0.5]])
    assert_close(log_interval(-inf, z, inf, base), log_cdf(z, base), rtol=0, atol=0)
    assert_close(log_interval(z, inf, inf, base), log_cdf(-z, base), rtol=0, atol=0)
    assert log_interval(-inf, inf, inf, base) == 0
    total = torch.logaddexp(log_cdf(z, base), log_cdf(-z, base))
    assert_close(total, torch.zeros(1), rtol=0, atol=1e-15)
    mirrored = log_interval(-z - gap, -z, gap, base)
    assert_close(log_interval(z, z + gap, gap, base), mirrored, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("at", [-1e8, -1e4, -50.0, -3.0, 0.0, 3.0, 50.0, 1e4])
@pytest.mark.parametrize("width", [1e-200, 1e-12, 1e-6])
def test_narrow_intervals_are_density_times_width(at: float, width: float) -> None:
    """A gap of which the ends know nothing; half of its square over 12 is past the last digit."""
    width /= max(1.0, abs(at))
    z, gap = torch.tensor([[at], [width]])
    expected = log_density(z, "normal") + math.log(width)
    assert_close(log_interval(z, z, gap, "normal"), expected, rtol=1e-15, atol=1e-12)


def test_the_normal_cdf_agrees_with_the_error_function_and_mills_ratio() -> None:
    z = torch.linspace(-5, 5, 101)
    assert_close(
        log_cdf(z, "normal").exp(), 0.5 * torch.erfc(-z / math.sqrt(2)), rtol=1e-13, atol=0
    )
    far = torch.tensor([-1e3, -1e5])
    # Phi(z) = phi(z) / |z| (1 - 1/z^2 + 3/z^4 - ...)
    series = log_density(far, "normal") - (-far).log() + torch.log1p(-(far**-2) + 3 * far**-4)
    assert_close(log_cdf(far, "normal"), series, rtol=1e-15, atol=0)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at", [-1e6, -5e3, -50.0, -3.0, 0.0, 3.0, 50.0, 5e3, 1e6])
def test_gradients_of_log_probabilities_keep_their_digits(
    base: str, dtype: torch.dtype, at: float
) -> None:
    """The gradient of log F is density over F, found here from -z^2/2 and its correction."""
    z = torch.tensor(at, dtype=dtype, requires_grad=True)
    log_cdf(z, base).backward()
    w = z.detach().double()
    if base == "logistic":
        expected = torch.sigmoid(-w)
    elif at < 0:
        expected = math.sqrt(2 / math.pi) / torch.special.erfcx(-w / math.sqrt(2))
    else:
        expected = log_density(w, base).exp() / (0.5 * torch.erfc(-w / math.sqrt(2)))
    assert_close(z.grad.double(), expected, rtol=30 * torch.finfo(dtype).eps, atol=1e-40)


@pytest.mark.parametrize("base", BASES)
def test_gradients_of_intervals(base: str) -> None:
    low = torch.tensor([-60.0, -8.0, -8.0, -1.0, -0.3, 0.0, 2.0, 20.0, 60.0, -3.0, 0.01])
    gap = torch.tensor([0.001, 0.3, 7.9, 0.05, 0.7, 0.2, 0.01, 4.0, 0.5, 8.0, 0.08])
    low.requires_grad_()
    gap.requires_grad_()
    assert gradcheck(lambda low, gap: log_interval(low, low + gap, gap, base), [low, gap])


@pytest.mark.parametrize("base", BASES)
def test_quantiles_of_the_standard_distributions(base: str) -> None:
    logit = torch.tensor([-torch.inf, -1e6, -690.0, -3.0, -1e-9, 0.0, 0.4, 40.0, 1e4, torch.inf])
    z = quantile(logit, base)
    assert_close(log_cdf(z, base) - log_cdf(-z, base), logit, rtol=1e-14, atol=1e-15)
    assert_close(quantile(-logit, base), -z, rtol=1e-14, atol=1e-15)


# Mixtures and starts ------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_mixtures_with_components_of_their_own_per_row(base: str) -> None:
    location, log_scale = 5 * torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    weights = torch.randn(2, 4, 3).log_softmax(-1)
    weights[0, 0] = torch.tensor([0.0, -torch.inf, -torch.inf])
    log_u, log_1mu = (t.expand(2, 4, -1) for t in logarithms())
    y = invert_mixture(log_u, log_1mu, weights, location, log_scale, base)
    z = (y[..., None] - location[:, :, None]) / log_scale.exp()[:, :, None]
    below, above = (
        (weights[:, :, None] + log_cdf(side * z, base)).logsumexp(-1) for side in (1, -1)
    )
    assert_close(below - above, log_u - log_1mu, rtol=1e-11, atol=1e-12)
    first = location[0, 0, 0] + log_scale[0, 0, 0].exp() * quantile((log_u - log_1mu)[0, 0], base)
    assert_close(y[0, 0], first)
    shared = invert_mixture(log_u, log_1mu, weights, location[:, :1], log_scale[:, :1], base)
    assert_close(shared[:, 0], y[:, 0])


def test_the_units_stand_on_the_quantiles() -> None:
    scale = LearnedScale(2, hidden=8)
    data = torch.stack([torch.randperm(1001).double(), torch.full((1001,), torch.nan)])
    data[1, :5] = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0])
    scale.scale_to(data)
    at = scale.kinks * scale.unit + scale.location
    assert_close(at[:, 0], 1000 * torch.linspace(0.03, 0.97, 8), rtol=0, atol=0.51)
    assert_close(at[[0, -1], 1], torch.tensor([1.0, 5.0]))
    assert_close(scale.bias, -scale.kinks)
