import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
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
NEGATIVE = [-1e-300, -1e-20, -1e-9, -1e-3, -0.5, -0.69, -0.6931471805599453, -0.7, -1, -30, -700]


def high(function: object, *arguments: float) -> float:
    """Evaluate an mpmath expression with 60 digits."""
    with mpmath.workdps(60):
        return float(function(*map(mpmath.mpf, arguments)))


# log1mexp and log_softplus -----------------------------------------------------------------------


@pytest.mark.parametrize("x", NEGATIVE)
def test_log1mexp_has_full_relative_precision(x: float) -> None:
    expected = high(lambda x: mpmath.log(-mpmath.expm1(x)), x)
    assert log1mexp(torch.tensor(x)).item() == pytest.approx(expected, rel=4e-16)
    single = log1mexp(torch.tensor(x, dtype=torch.float32)).item()
    rounded = torch.tensor(x, dtype=torch.float32).item()
    if rounded < 0 and rounded > -80:
        expected = high(lambda x: mpmath.log(-mpmath.expm1(x)), rounded)
        assert single == pytest.approx(expected, rel=4e-7)


def test_log1mexp_at_its_ends() -> None:
    assert log1mexp(torch.tensor(0.0)) == -INF
    assert log1mexp(torch.tensor(-INF)) == 0


def test_log1mexp_has_the_right_gradient() -> None:
    x = torch.tensor(NEGATIVE[1:], requires_grad=True)
    (gradient,) = torch.autograd.grad(log1mexp(x).sum(), x)
    expected = [high(lambda x: -1 / mpmath.expm1(-x), v) for v in NEGATIVE[1:]]
    assert_close(gradient, torch.tensor(expected), rtol=1e-14, atol=0)


@pytest.mark.parametrize("beta", [1.0, 10.0, 20.0])
@pytest.mark.parametrize("x", [-1e300, -1e5, -100.0, -20.001, -19.999, -2.0, -1.0, 0.0, 1.0, 1e5])
def test_log_softplus(x: float, beta: float) -> None:
    def softplus(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log(mpmath.log1p(mpmath.exp(beta * x)) / beta)

    value = log_softplus(torch.tensor(x), beta).item()
    expected = beta * x - math.log(beta) if x < -1e3 else high(softplus, x)
    # The far form drops e^s / 2, of which the comment says 1e-9.
    assert value == pytest.approx(expected, rel=1e-15, abs=2e-9)


def test_log_softplus_has_a_gradient_everywhere() -> None:
    x = torch.tensor([-1e30, -50.0, -2.1, -1.9, 0.0, 3.0, 1e30], requires_grad=True)
    (gradient,) = torch.autograd.grad(log_softplus(x, 10.0).sum(), x)
    assert gradient.isfinite().all()
    assert (gradient[:-1] > 0).all()
    assert_close(gradient[0], torch.tensor(10.0))
    # Past 20 / beta torch's softplus is the identity, with gradient 1.
    assert_close(gradient[-2], torch.tensor(1 / 3))


def test_log_softplus_is_continuous_where_its_forms_meet() -> None:
    x = torch.tensor([-2.0 - 1e-12, -2.0 + 1e-12])
    below, above = log_softplus(x, 10.0)
    assert (below - above).abs() < 2e-9


# logsumexp and weights ---------------------------------------------------------------------------


def test_logsumexp_of_nothing_is_minus_infinity_with_zero_gradient() -> None:
    x = torch.tensor([[-INF, -INF], [0.0, -INF], [-1e5, -1e5]], requires_grad=True)
    out = logsumexp(x)
    assert_close(out, torch.tensor([-INF, 0.0, -1e5 + math.log(2)]), rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert_close(gradient, torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]]))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_logsumexp_along_any_dim(dim: int) -> None:
    x = 100 * torch.randn(3, 4, 5)
    assert_close(logsumexp(x, dim), x.logsumexp(dim), rtol=1e-15, atol=1e-13)


def test_logsumexp_second_derivative() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    assert torch.autograd.gradgradcheck(logsumexp, x)


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
    plain = torch.nn.functional.softplus(raw, beta=20, threshold=1000)
    expected = plain / plain.sum(-1, keepdim=True)
    assert_close(log_normalised(raw, "softplus").exp(), expected, rtol=1e-8, atol=0)


# log_matmul ---------------------------------------------------------------------------------------


def slow_matmul(values: Tensor, weights: Tensor) -> Tensor:
    """Sum term by term in float64, each sum with its own maximum taken out."""
    nodes, rows, _ = values.shape
    out = torch.empty(nodes, rows, weights.shape[1], dtype=torch.float64)
    for n in range(nodes):
        for b in range(rows):
            for m in range(weights.shape[1]):
                terms = (values[n, b].double() + weights[n, m].double()).tolist()
                peak = max(terms)
                if peak == -math.inf:
                    out[n, b, m] = peak
                    continue
                total = math.fsum(math.exp(term - peak) for term in terms)
                out[n, b, m] = peak + math.log(total)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.1, 10.0, 100.0, 1e3, 1e5])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 4, 5), (3, 7, 2, 9)])
def test_log_matmul_over_any_range(
    spread: float, shape: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    nodes, rows, outs, size = shape
    values = (spread * torch.randn(nodes, rows, size)).to(dtype)
    weights = (spread * torch.randn(nodes, outs, size)).log_softmax(-1).to(dtype)
    out = log_matmul(values, weights)
    eps = torch.finfo(dtype).eps
    # Log values of size s carry a rounding error of eps s before anything is done.
    slack = 8 * eps * (1 + spread * 4)
    assert_close(out.double(), slow_matmul(values, weights), rtol=4 * eps, atol=slack)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_matmul_repairs_what_underflows(dtype: torch.dtype) -> None:
    """The large weight meets the small value and the other way round: both underflow."""
    far = 200.0 if dtype == torch.float32 else 2000.0
    values = torch.tensor([[[0.0, -far], [-far, 0.0]]], dtype=dtype)
    weights = torch.tensor([[[-3 * far, 0.0], [0.0, -0.5 * far], [-far, -far]]], dtype=dtype)
    expected = torch.tensor([[[-far, 0.0, -far], [-0.0, -0.5 * far, -far]]], dtype=dtype)
    assert_close(log_matmul(values, weights), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1.0, 300.0, 3000.0])
def test_log_matmul_has_the_gradient_of_the_exact_sum(spread: float, dtype: torch.dtype) -> None:
    values = (spread * torch.randn(2, 5, 4)).to(dtype).requires_grad_()
    weights = (spread * torch.randn(2, 3, 4)).log_softmax(-1).to(dtype).requires_grad_()
    upstream = torch.randn(2, 5, 3).to(dtype)
    got = torch.autograd.grad((log_matmul(values, weights) * upstream).sum(), [values, weights])
    wide = [t.detach().double().requires_grad_() for t in (values, weights)]
    exact = (wide[0][:, :, None] + wide[1][:, None]).logsumexp(-1)
    expected = torch.autograd.grad((exact * upstream).sum(), wide)
    slack = 100 * torch.finfo(dtype).eps * (1 + spread)
    for one, two in zip(got, expected, strict=True):
        assert one.isfinite().all()
        assert_close(one.double(), two, rtol=slack, atol=slack)


def test_log_matmul_gradcheck_on_both_paths() -> None:
    near = torch.randn(1, 3, 4), torch.randn(1, 2, 4).log_softmax(-1)
    values, weights = torch.randn(1, 3, 4), torch.randn(1, 2, 4)
    values[:, 0, :2] -= 2000.0
    weights[:, 0, 2:] -= 5000.0
    assert_repaired(values, weights)
    for pair in [near, (values, weights)]:
        assert gradcheck(log_matmul, [t.clone().requires_grad_() for t in pair], atol=1e-5)


def assert_repaired(values: Tensor, weights: Tensor) -> None:
    plain = torch.exp(values - values.amax(-1, keepdim=True)) @ weights.exp().transpose(1, 2)
    assert (plain == 0).any()


def test_log_matmul_of_rows_of_minus_infinity() -> None:
    values = torch.tensor([[[-INF, -INF], [0.0, -INF], [-INF, -3000.0]]]).requires_grad_()
    weights = torch.tensor([[[-0.5, -1.0], [-INF, 0.0]]]).requires_grad_()
    out = log_matmul(values, weights)
    expected = torch.tensor([[[-INF, -INF], [-0.5, -INF], [-3001.0, -3000.0]]])
    assert_close(out, expected, rtol=0, atol=1e-12)
    finite = torch.where(out.isfinite(), out, 0.0).sum()
    for gradient in torch.autograd.grad(finite, [values, weights]):
        assert gradient.isfinite().all()


def test_log_matmul_repairs_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values = 3000 * torch.randn(2, 6, 5)
    weights = (3000 * torch.randn(2, 4, 5)).log_softmax(-1)
    whole = log_matmul(values, weights)
    monkeypatch.setattr("marginals.numerics.logspace._REPAIR_ELEMENTS", 7)
    assert torch.equal(log_matmul(values, weights), whole)


@given(
    st.lists(st.floats(-2000, 2000), min_size=3, max_size=3),
    st.lists(st.floats(-2000, 0), min_size=3, max_size=3),
)
def test_log_matmul_never_floors(values: list[float], weights: list[float]) -> None:
    v, w = torch.tensor(values).reshape(1, 1, 3), torch.tensor(weights).reshape(1, 1, 3)
    assert_close(log_matmul(v, w), slow_matmul(v, w), rtol=1e-14, atol=1e-11)


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


@pytest.mark.parametrize("low", [-1e4, -40.0, -1.0, 0.0, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("gap", [1e-12, 1e-3, 1.0, 100.0])
def test_log_sigmoid_interval_in_both_tails(low: float, gap: float) -> None:
    top = low + gap
    gap = top - low  # as the two bounds have it, without rounding
    if gap == 0:
        return
    value = log_sigmoid_interval(torch.tensor(low), torch.tensor(top), torch.tensor(gap)).item()
    with mpmath.workdps(9000 if abs(low) > 1e3 else 200):

        def tail(z: float) -> mpmath.mpf:
            return 1 / (1 + mpmath.exp(-mpmath.mpf(z)))

        expected = float(mpmath.log(tail(top) - tail(low)))
    assert value == pytest.approx(expected, rel=1e-15, abs=1e-14)


def test_log_sigmoid_interval_with_open_ends() -> None:
    z = torch.tensor([-800.0, -2.0, 0.0, 5.0, 800.0])
    inf = torch.full_like(z, INF)
    assert torch.equal(log_sigmoid_interval(-inf, z, inf), torch.nn.functional.logsigmoid(z))
    assert torch.equal(log_sigmoid_interval(z, inf, inf), torch.nn.functional.logsigmoid(-z))
    assert torch.equal(log_sigmoid_interval(-inf, inf, inf), torch.zeros_like(z))


def test_log_sigmoid_density() -> None:
    z = torch.tensor([-1000.0, -1.0, 0.5, 1000.0])
    expected = -z.abs() - 2 * torch.log1p(torch.exp(-z.abs())) + 0.25
    assert_close(log_sigmoid_density(z, torch.tensor(0.25)), expected)


@pytest.mark.parametrize("u", [1e-12, 0.1, 0.5, 0.9, 1 - 1e-12])
@pytest.mark.parametrize("ends", [(-2.0, 1.0), (30.0, 31.0), (-900.0, -850.0), (-INF, 0.0)])
def test_logit_of_interval(u: float, ends: tuple[float, float]) -> None:
    low, top = torch.tensor(ends[0]), torch.tensor(ends[1])
    mass = log_sigmoid_interval(low, top, top - low)
    sigmoid = torch.nn.functional.logsigmoid
    level = torch.tensor(u)
    logit = logit_of_interval(sigmoid(low), sigmoid(-top), mass, level.log(), torch.log1p(-level))

    def exact() -> float:
        with mpmath.workdps(900):
            f = [0 if z == -INF else 1 / (1 + mpmath.exp(-mpmath.mpf(z))) for z in ends]
            p = f[0] + mpmath.mpf(u) * (f[1] - f[0])
            return float(mpmath.log(p) - mpmath.log1p(-p))

    assert logit.item() == pytest.approx(exact(), rel=1e-13, abs=1e-13)
