"""Leaves are inverted to rounding, however flat or steep, in a bounded number of steps."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marginals.leaves import NeuralLeaves
from marginals.leaves import neural as module
from marginals.leaves.monotone import bracket, value
from marginals.numerics import invert_monotone
from tests.laws.registry import generic_neural
from tests.leaves.cells import cells, free
from tests.leaves.test_scale import LEVELS, logarithms

DTYPES = [torch.float32, torch.float64]


class Counter:
    """Stands in for `invert_monotone` and counts the evaluations of the function."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, function: Callable, *arguments: Tensor) -> Tensor:
        def counted(x: Tensor) -> tuple[Tensor, Tensor]:
            self.calls += 1
            return function(x)

        return invert_monotone(counted, *arguments)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    out = Counter()
    monkeypatch.setattr(module, "invert_monotone", out)
    return out


@torch.no_grad()
def shaped(kind: str, depth: int, hidden: int, width: int = 4) -> NeuralLeaves:
    leaves = generic_neural(1, width, depth, hidden)
    raw = {
        "plain": 0.5,
        "nearly flat": -1.5,  # weights of 3e-8 each
        "flat": -6.0,  # weights of 1e-27 each
        "steep": 300.0,
        "mixed": torch.linspace(-2.0, 50.0, width),
    }[kind]
    for weight in leaves.weights:
        weight.mul_(0.3).add_(raw)
    for gate in leaves.gates:
        gate.mul_(6.0)  # some units are nearly flat at their centre, some nearly twice as steep
    return leaves


KINDS = ["plain", "nearly flat", "steep", "mixed"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 3), (3, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_and_chosen_leaves_are_inverted_to_rounding(
    kind: str, shape: tuple[int, int], dtype: torch.dtype, counter: Counter
) -> None:
    leaves = shaped(kind, *shape).to(dtype)
    log_u, log_1mu = logarithms(dtype)
    weights = torch.randn(1, 1, 4, dtype=dtype).log_softmax(-1)
    x = leaves.invert(log_u[None, None], log_1mu[None, None], weights, [0])[0, 0]
    assert counter.calls <= 250

    def logit(x: Tensor) -> Tensor:
        at = leaves.evaluate(x[None], [0])
        parts = [(weights[0] + part[0]).logsumexp(-1) for part in (at.log_cdf, at.log_sf)]
        return parts[0] - parts[1]

    assert_at_rounding(logit, x, log_u - log_1mu, leaves)

    counter.calls = 0
    log_u, log_1mu = log_u.repeat(4)[None], log_1mu.repeat(4)[None]
    components = torch.arange(4).repeat_interleave(2 * len(LEVELS))[None]
    within = free(log_u.shape[1], [0]).to("cpu", dtype)
    x = leaves.invert_chosen(log_u, log_1mu, components, within)
    assert counter.calls <= 250

    def z(x: Tensor) -> Tensor:
        every = leaves.value_and_slope(x[None, :, None], [0])[0]
        return every[0].gather(1, components.T)[:, 0]

    assert_at_rounding(z, x[0], (log_u - log_1mu)[0], leaves)


@torch.no_grad()
def assert_at_rounding(
    function: Callable[[Tensor], Tensor], x: Tensor, target: Tensor, leaves: NeuralLeaves
) -> None:
    """The residual is that of the target's rounding, or of a few ulps of x (or of its offset)."""
    eps = torch.finfo(target.dtype).eps  # of the leaves; x itself may be wider
    assert x.isfinite().all()
    size = x.abs() + leaves.location.abs() + leaves.scale
    ends = [function(x + side * 8 * eps * size) for side in (-1, 1)]
    slack = 64 * eps * (1 + target.abs())
    assert (ends[0] <= target + slack).all()
    assert (ends[1] >= target - slack).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_flat_leaves_end_at_a_finite_number(dtype: torch.dtype, counter: Counter) -> None:
    """Where the solution lies past the last float, the answer is as far out as floats go."""
    leaves = shaped("flat", 2, 2).to(dtype)
    log_u, log_1mu = (t.reshape(1, 1, -1) for t in logarithms(dtype))
    weights = torch.zeros(1, 1, 4, dtype=dtype)
    x = leaves.invert(log_u, log_1mu, weights, [0])
    assert not x.isnan().any()
    assert counter.calls <= 300


@pytest.mark.parametrize("dtype", DTYPES)
def test_components_without_weight_do_not_matter(dtype: torch.dtype) -> None:
    """A component at the other end of the world with weight zero leaves the quantiles alone."""
    leaves = shaped("plain", 1, 3).to(dtype)
    log_u, log_1mu = (t.reshape(1, 1, -1) for t in logarithms(dtype))
    weights = torch.tensor([[[0.0, -1.0, -torch.inf, -torch.inf]]], dtype=dtype).log_softmax(-1)
    x = leaves.invert(log_u, log_1mu, weights, [0])
    with torch.no_grad():
        for bias in leaves.biases:
            bias[..., 2:] += 1e4
    again = leaves.invert(log_u, log_1mu, weights, [0])
    tolerance = 1e3 * torch.finfo(dtype).eps
    assert torch.allclose(x, again, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "bounds", [(-1.0, 2.0), (30.0, 31.0), (-1e4, -1e4 + 5), (200.0, torch.inf), (-torch.inf, -90)]
)
def test_truncated_draws_stay_inside_and_are_monotone_in_u(
    bounds: tuple[float, float], dtype: torch.dtype
) -> None:
    leaves = generic_neural(1, 1, 2, 3).to(dtype)
    u = torch.linspace(1e-6, 1 - 1e-6, 101, dtype=torch.float64)[None]
    lower, upper = (torch.full_like(u, end, dtype=dtype) for end in bounds)
    zeros = torch.zeros(1, 101, dtype=torch.long)
    x = leaves.invert_chosen(u.log(), torch.log1p(-u), zeros, cells(lower, upper))
    assert ((x >= lower) & (x <= upper)).all()
    assert (x.diff() >= 0).all()
    # The share of the interval's mass below x is u again.
    whole = leaves.log_interval(lower, upper, [0])[0, :, 0]
    inside = (x[0] > lower[0]) & (x[0] < upper[0])
    assert inside.float().mean() > 0.9
    part = leaves.log_interval(lower, torch.maximum(x, lower.nextafter(x + 1)), [0])[0, :, 0]
    tolerance = 1e-9 if dtype == torch.float64 else 2e-3
    gap = ((part - whole).exp().double() - u[0])[inside].abs()
    assert gap.max() < tolerance * (1 if abs(bounds[0]) < 1e3 else 1e3)


@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2**31),
    st.floats(0.01, 5.0),
    st.sampled_from(DTYPES),
    st.floats(-1e4, 1e4),
)
def test_bracket_really_brackets(
    depth: int, hidden: int, seed: int, spread: float, dtype: torch.dtype, target: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    leaves = NeuralLeaves(2, 3, depth, hidden)
    with torch.no_grad():
        for parameter in leaves.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
    leaves = leaves.to(dtype)
    network = leaves._network([0, 1])
    goal = torch.full((2, 1, 3), target, dtype=dtype)
    low, high = bracket(network, goal)
    assert low.isfinite().all()
    assert high.isfinite().all()
    assert (low <= high).all()
    at_low, at_high = value(network, low), value(network, high)
    assert at_low.isfinite().all()
    assert at_high.isfinite().all()
    # A bracket ends short of the target only where nothing farther is left before overflow.
    far = torch.finfo(dtype).max ** 0.5
    assert ((at_low <= goal) | (low <= -far)).all()
    assert ((at_high >= goal) | (high >= far)).all()
