import math

import mpmath
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from marginals.numerics import (
    log1mexp,
    log_matmul,
    log_normalised,
    log_sigmoid_density,
    log_sigmoid_interval,
    log_softplus,
    logit_of_interval,
    logsumexp,
    raw_weights,
    sum_of_others,
)

INF = torch.inf
DTYPES = [torch.float32, torch.float64]
NEGATIVE = [-1e-300, -1e-20, -1e-9, -1e-3, -0.5, -0.69, -0.6931471805599453, -0.7, -1, -30, -700]


def exactly(function: object, *arguments: float, digits: int = 60) -> float:
    """Evaluate an mpmath expression."""
    with mpmath.workdps(digits):
        return float(function(*map(mpmath.mpf, arguments)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_log1mexp_has_full_relative_precision(dtype: torch.dtype) -> None:
    x = torch.tensor(NEGATIVE, dtype=dtype, requires_grad=True)
    if dtype == torch.float32:
        x = x.detach()[1:-1].requires_grad_()  # 1e-300 and exp(-700) are 0
    value = log1mexp(x)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    points = x.tolist()
    expected = [exactly(lambda x: mpmath.log(-mpmath.expm1(x)), v, digits=400) for v in points]
    slope = [exactly(lambda x: -1 / mpmath.expm1(-x), v) for v in points]
    eps = torch.finfo(dtype).eps
    assert_close(value.double(), torch.tensor(expected), rtol=4 * eps, atol=0)
    assert_close(gradient.double(), torch.tensor(slope), rtol=50 * eps, atol=0)
    assert log1mexp(torch.tensor([0.0, -INF])).tolist() == [-INF, 0.0]


@pytest.mark.parametrize("beta", [1.0, 10.0, 20.0])
def test_log_softplus_has_a_value_and_a_gradient_everywhere(beta: float) -> None:
    points = [-1e300, -1e5, -100.0, -20.001 / beta, -19.999 / beta, -2.0, -1.0, 0.0, 1.0, 1e5]

    def softplus(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log(mpmath.log1p(mpmath.exp(beta * x)) / beta)

    x = torch.tensor(points, requires_grad=True)
    value = log_softplus(x, beta)
    expected = [beta * v - math.log(beta) if v < -1e3 else exactly(softplus, v) for v in points]
    # The far form drops e^s / 2, which its comment bounds by 1e-9.
    assert_close(value, torch.tensor(expected), rtol=1e-15, atol=2e-9)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert bool((gradient > 0).all())
    assert_close(gradient[0], torch.tensor(beta))
    assert_close(gradient[-1], torch.tensor(1e-5))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_logsumexp(dim: int) -> None:
    x = 100 * torch.randn(3, 4, 5)
    assert_close(logsumexp(x, dim), x.logsumexp(dim), rtol=1e-15, atol=1e-13)
    assert gradgradcheck(lambda x: logsumexp(x, dim), torch.randn(2, 3, requires_grad=True)[None])


def test_logsumexp_of_nothing_is_minus_infinity_with_zero_gradient() -> None:
    x = torch.tensor([[-INF, -INF], [0.0, -INF], [-1e5, -1e5]], requires_grad=True)
    out = logsumexp(x)
    assert_close(out, torch.tensor([-INF, 0.0, -1e5 + math.log(2)]), rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert_close(gradient, torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]]))


@pytest.mark.parametrize("kind", ["softmax", "softplus"])
def test_weights_sum_to_one_and_invert(kind: str) -> None:
    mass = torch.rand(4, 6) + 1e-3
    mass = mass / mass.sum(-1, keepdim=True)
    weights = log_normalised(raw_weights(mass, kind), kind)
    assert_close(weights.exp(), mass, rtol=1e-12, atol=0)
    wild = log_normalised(100 * torch.randn(50, 6), kind)
    assert wild.isfinite().all()
    assert_close(wild.exp().sum(-1), torch.ones(50))


def test_softplus_weights_are_the_papers() -> None:
    raw = torch.randn(3, 5)
    plain = F.softplus(raw, beta=20, threshold=1000)
    expected = plain / plain.sum(-1, keepdim=True)
    assert_close(log_normalised(raw, "softplus").exp(), expected, rtol=1e-8, atol=0)


# log_matmul ---------------------------------------------------------------------------------------


def exact_matmul(values: Tensor, weights: Tensor) -> Tensor:
    """Sum in float64, with the maximum of each sum taken out."""
    return (values.double()[:, :, None] + weights.double()[:, None]).logsumexp(-1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spread", [0.1, 10.0, 300.0, 3e3, 1e5])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 7, 2, 9)])
def test_log_matmul_over_any_range(
    spread: float, shape: tuple[int, int, int, int], dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Values and gradients, and the same when entries are recomputed in pieces."""
    nodes, rows, outs, size = shape
    values = (spread * torch.randn(nodes, rows, size)).to(dtype).requires_grad_()
    weights = (spread * torch.randn(nodes, outs, size)).log_softmax(-1).to(dtype).requires_grad_()
    out = log_matmul(values, weights)
    wide = [t.detach().double().requires_grad_() for t in (values, weights)]
    expected = exact_matmul(*wide)
    eps = torch.finfo(dtype).eps
    # Log values of size s carry a rounding error of eps s from the start.
    assert_close(out.double(), expected, rtol=4 * eps, atol=8 * eps * (1 + spread * 4))
    upstream = torch.randn(out.shape)
    found = torch.autograd.grad(out, [values, weights], upstream.to(dtype))
    slack = 100 * eps * (1 + spread)
    for one, two in zip(found, torch.autograd.grad(expected, wide, upstream), strict=True):
        assert one.isfinite().all()
        assert_close(one.double(), two, rtol=slack, atol=slack)
    monkeypatch.setattr("marginals.numerics.logspace._REPAIR_ELEMENTS", 7)
    assert torch.equal(log_matmul(values, weights), out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_matmul_recomputes_entries_that_underflow(dtype: torch.dtype) -> None:
    """The large weight meets the small value and vice versa; without the host, a bound is left."""
    far = 200.0 if dtype == torch.float32 else 2000.0
    values = torch.tensor([[[0.0, -far], [-far, 0.0]]], dtype=dtype)
    weights = torch.tensor([[[-3 * far, 0.0], [0.0, -0.5 * far], [-far, -far]]], dtype=dtype)
    expected = torch.tensor([[[-far, 0.0, -far], [-0.0, -0.5 * far, -far]]], dtype=dtype)
    assert_close(log_matmul(values, weights), expected, rtol=1e-6, atol=1e-6)
    bound = log_matmul(values, weights, host_free=True)
    info = torch.finfo(dtype)
    assert_close(bound, expected.clamp_min(math.log(2 * info.tiny / info.eps)))


def test_log_matmul_gradcheck_on_both_paths() -> None:
    near = torch.randn(1, 3, 4), torch.randn(1, 2, 4).log_softmax(-1)
    values, weights = torch.randn(1, 3, 4), torch.randn(1, 2, 4)
    values[:, 0, :2] -= 2000.0
    weights[:, 0, 2:] -= 5000.0
    plain = torch.exp(values - values.amax(-1, keepdim=True)) @ weights.exp().transpose(1, 2)
    assert (plain == 0).any()
    for pair in [near, (values, weights)]:
        assert gradcheck(log_matmul, [t.clone().requires_grad_() for t in pair], atol=1e-5)


def test_log_matmul_of_rows_of_minus_infinity() -> None:
    values = torch.tensor([[[-INF, -INF], [0.0, -INF], [-INF, -3000.0]]]).requires_grad_()
    weights = torch.tensor([[[-0.5, -1.0], [-INF, 0.0]]]).requires_grad_()
    out = log_matmul(values, weights)
    expected = torch.tensor([[[-INF, -INF], [-0.5, -INF], [-3001.0, -3000.0]]])
    assert_close(out, expected, rtol=0, atol=1e-12)
    finite = torch.where(out.isfinite(), out, 0.0).sum()
    for gradient in torch.autograd.grad(finite, [values, weights]):
        assert gradient.isfinite().all()


@given(
    st.lists(st.floats(-2000, 2000), min_size=3, max_size=3),
    st.lists(st.floats(-2000, 0), min_size=3, max_size=3),
)
def test_log_matmul_never_floors(values: list[float], weights: list[float]) -> None:
    v, w = torch.tensor(values).reshape(1, 1, 3), torch.tensor(weights).reshape(1, 1, 3)
    assert_close(log_matmul(v, w), exact_matmul(v, w), rtol=1e-14, atol=1e-11)


# The rest ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("dim", [0, 1])
def test_sum_of_others(size: int, dim: int) -> None:
    x = torch.randn(4, size) if dim else torch.randn(size, 4)
    expected = x.sum(dim, keepdim=True) - x
    assert_close(sum_of_others(x, dim), expected, rtol=1e-12, atol=1e-12)


def test_sum_of_others_with_minus_infinity() -> None:
    x = torch.tensor([[1.0, -INF, 2.0, 4.0], [1.0, -INF, -INF, 4.0]])
    expected = torch.tensor([[-INF, 7.0, -INF, -INF], [-INF] * 4])
    assert torch.equal(sum_of_others(x, 1), expected)


def sigmoid(z: float) -> mpmath.mpf:
    return mpmath.mpf(0) if z == -INF else 1 / (1 + mpmath.exp(-mpmath.mpf(z)))


@pytest.mark.parametrize("low", [-1e4, -40.0, -1.0, 0.0, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("gap", [1e-12, 1e-3, 1.0, 100.0])
def test_log_sigmoid_interval_in_both_tails(low: float, gap: float) -> None:
    top = low + gap
    gap = top - low  # of the rounded ends
    if gap == 0:
        return
    value = log_sigmoid_interval(torch.tensor(low), torch.tensor(top), torch.tensor(gap)).item()
    digits = 9000 if abs(low) > 1e3 else 200
    expected = exactly(lambda a, b: mpmath.log(sigmoid(b) - sigmoid(a)), low, top, digits=digits)
    assert value == pytest.approx(expected, rel=1e-15, abs=1e-14)


def test_log_sigmoid_interval_with_open_ends_and_density() -> None:
    z = torch.tensor([-800.0, -2.0, 0.0, 5.0, 800.0])
    inf = torch.full_like(z, INF)
    assert torch.equal(log_sigmoid_interval(-inf, z, inf), F.logsigmoid(z))
    assert torch.equal(log_sigmoid_interval(z, inf, inf), F.logsigmoid(-z))
    assert torch.equal(log_sigmoid_interval(-inf, inf, inf), torch.zeros_like(z))
    expected = -z.abs() - 2 * torch.log1p(torch.exp(-z.abs())) + 0.25
    assert_close(log_sigmoid_density(z, torch.tensor(0.25)), expected)


@pytest.mark.parametrize("u", [1e-12, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("ends", [(-2.0, 1.0), (30.0, 31.0), (-900.0, -850.0), (-INF, 0.0)])
def test_logit_of_interval(u: float, ends: tuple[float, float]) -> None:
    low, top = torch.tensor(ends[0]), torch.tensor(ends[1])
    mass, level = log_sigmoid_interval(low, top, top - low), torch.tensor(u)
    parts = (F.logsigmoid(low), F.logsigmoid(-top), mass, level.log(), torch.log1p(-level))

    def exact(u: mpmath.mpf) -> mpmath.mpf:
        p = sigmoid(ends[0]) + u * (sigmoid(ends[1]) - sigmoid(ends[0]))
        return mpmath.log(p) - mpmath.log1p(-p)

    expected = exactly(exact, u, digits=900)
    assert logit_of_interval(*parts).item() == pytest.approx(expected, rel=1e-13, abs=1e-13)
