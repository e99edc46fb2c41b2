"""Leaves on a shared learned scale: the scale, its inverse, and what is theirs alone."""

import math

import pytest
import torch
from torch.testing import assert_close

from marginals.leaves import Leaves, SharedLeaves
from tests.laws.registry import generic_shared
from tests.leaves.cells import exact
from tests.leaves.test_scale import logarithms

BASES = ["normal", "logistic"]
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(params=[(b, h) for b in BASES for h in (1, 8)], ids=str)
def leaves(request: pytest.FixtureRequest) -> SharedLeaves:
    base, hidden = request.param
    return generic_shared(2, 3, base, hidden, bend=0.5)


def test_the_scale_is_the_sum_of_its_units(leaves: SharedLeaves) -> None:
    x = 4 * torch.randn(2, 7)
    y, log_slope = leaves.scale(x, [0, 1])
    part = leaves.learned
    t = (x - part.location[:, None]) / part.unit[:, None]
    softplus = torch.nn.functional.softplus
    h = softplus(part.inner)[..., None] * t + part.bias[..., None]  # (R, D, B)
    a = torch.tanh(part.gate)[..., None]
    w = softplus(part.outer)[..., None]
    assert_close(y, (w * (h + a * torch.tanh(h))).sum(0))
    assert_close(leaves.scale(x[..., None], [0, 1])[0][..., 0], y)
    x.requires_grad_()
    (slope,) = torch.autograd.grad(leaves.scale(x, [0, 1])[0].sum(), x)
    assert_close(log_slope.exp(), slope)


def test_a_component_is_never_narrower_than_the_least_scale() -> None:
    for least in (0.0, 0.01, 0.3):
        leaves = SharedLeaves(2, 3, min_scale=least)
        with torch.no_grad():
            leaves.spreads[:, 1:] = -500.0
        log_scales = leaves.log_scales([0, 1])
        assert log_scales.isfinite().all()
        assert (log_scales.exp() >= least).all()
        (gradient,) = torch.autograd.grad(log_scales.sum(), leaves.spreads)
        assert gradient.isfinite().all()
    assert_close(log_scales[:, 1], torch.full((2,), math.log(0.3)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_scale_is_inverted_to_rounding(leaves: SharedLeaves, dtype: torch.dtype) -> None:
    leaves = leaves.to(dtype)
    y = torch.tensor([[-1e8, -300.0, -3.0, 0.0, 0.2, 5.0, 1e4]], dtype=dtype).expand(2, -1)
    x = leaves.unscale(y, [0, 1])
    eps = torch.finfo(dtype).eps
    assert_close(leaves.scale(x, [0, 1])[0], y, rtol=50 * eps, atol=50 * eps)
    cube = leaves.unscale(y.reshape(2, 7, 1).expand(2, 7, 3), [0, 1])
    assert_close(cube[..., 1], x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mixtures_are_inverted_to_rounding(leaves: SharedLeaves, dtype: torch.dtype) -> None:
    leaves = leaves.to(dtype)
    log_u, log_1mu = (t.expand(2, 4, -1) for t in logarithms(dtype))
    weights = (3 * torch.randn(2, 4, 3, dtype=dtype)).log_softmax(-1)
    x = leaves.invert(log_u, log_1mu, weights, [0, 1])
    at = leaves.evaluate(x.flatten(1), [0, 1])
    parts = (p.reshape(2, 4, -1, 3) + weights[:, :, None] for p in (at.log_cdf, at.log_sf))
    below, above = (part.logsumexp(-1) for part in parts)
    tolerance = 1e-11 if dtype == torch.float64 else 2e-4
    assert_close(below - above, log_u - log_1mu, rtol=tolerance, atol=tolerance)


def test_levels_of_zero_and_one_are_infinite(leaves: SharedLeaves) -> None:
    log_u = torch.tensor([[[-torch.inf, 0.0]]])
    x = leaves.invert(log_u, log_u.flip(-1), torch.zeros(1, 1, 3).log_softmax(-1), [1])
    assert torch.equal(x, torch.tensor([[[-torch.inf, torch.inf]]]))


def test_means_of_exponentials() -> None:
    """On a straight scale: E exp(c X) of a normal."""
    leaves = SharedLeaves(1, 3)
    leaves.start(torch.tensor([[-1.0, 0.0, 2.0]]))
    leaves.learned.start(noise=0.0)
    mean = leaves.unscale(leaves.locations([0]), [0])
    sd = leaves.log_scales([0]).exp()
    for c in (0.5, 3.0, 24.0):
        found = leaves.expect(lambda x, c=c: (c * x).exp(), [0])
        assert_close(found, (c * mean + 0.5 * (c * sd) ** 2).exp(), rtol=1e-9, atol=0)
    assert (leaves.expect(lambda x: (x * x).exp() ** 2, [0]) == torch.inf).all()


@pytest.mark.parametrize("bandwidth", [0.3, 0.5])
def test_start_puts_kernels_on_the_rows(leaves: SharedLeaves, bandwidth: float) -> None:
    data = 3 * torch.randn(2, 1000) + 40
    data[0, :100] = torch.nan
    rows = 5 * torch.randn(2, 3) + 40
    leaves.scale_to(data)
    leaves.start(rows, bandwidth=bandwidth)
    assert_close(leaves.learned.location, data.nanmean(1))
    for component in range(3):
        at = leaves.evaluate(rows[:, [component]], [0, 1])
        assert_close(at.log_cdf[..., component].exp(), torch.full((2, 1), 0.5))
    assert_close(leaves.log_scales([0, 1]).exp(), torch.full((2, 3), bandwidth))
    log_slope = leaves.scale(rows, [0, 1])[1] + leaves.learned.unit[:, None].log()
    assert (log_slope.abs() < 0.5).all()


def test_rebuilt_from_its_configuration(leaves: SharedLeaves) -> None:
    whole = Leaves([leaves], [(0, 1)])
    again = Leaves.from_config(whole.config())
    again.load_state_dict(whole.state_dict())
    x = torch.randn(2, 5)
    both = (part.log_values(exact(x)) for part in (whole, again))
    assert torch.equal(*both)
    assert again.family_of(0)[0].config() == leaves.config()
    assert "min_scale=0.01" in repr(leaves)
    assert leaves.row_cost() > 0


def test_a_bandwidth_below_the_least_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`bandwidth`.*got 0.2"):
        SharedLeaves(1, 1, min_scale=0.3).start(torch.zeros(1, 1), bandwidth=0.2)
