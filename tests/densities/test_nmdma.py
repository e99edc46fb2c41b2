"""nMDMA with strong shifts: normalised, exact where it answers, and clear where it does not."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals import fit
from marginals.cells.evidence import Evidence
from marginals.densities.build import build
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.nmdma import NMDMA
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import Leaves, NeuralLeaves
from marginals.structure import balanced
from marginals.tensors import ComponentTensor, CPTensor, FullTensor
from tests.laws.registry import generic, ht
from tests.laws.statistics import assert_uniform
from tests.laws.test_gradients import central_difference

NAN, INF = torch.nan, torch.inf
TENSORS: dict[str, Callable[[int], ComponentTensor]] = {
    "ht": lambda columns: ht(balanced(columns), 3),
    "cp": lambda columns: CPTensor(columns, 3),
    "mera": lambda columns: ht(balanced(columns), 3, mera=True),
    "full": lambda columns: FullTensor(columns, 2),
}


def make_model(columns: int, order: Sequence[int] | None = None, tensor: str = "ht") -> NMDMA:
    """Build nMDMA with shifts of the order of the columns' scales."""
    model = NMDMA(generic(TENSORS[tensor](columns), [None] * columns), order)
    with torch.no_grad():
        model.raw.normal_()
    return model


@torch.no_grad()
def nodes(model: NMDMA, column: int, points: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights for one column, as in `tests.laws.quadrature`.

    A shift moves a column to the left by up to a few scales, hence the width.
    """
    low, centre, high = model.inner.ppf(torch.tensor([0.02, 0.5, 0.98]), column)
    scale = (high - low) / 3
    t = torch.linspace(-3.9, 3.9, points)
    return centre - scale / 2 + scale * t.sinh(), scale * t.cosh() * (t[1] - t[0])


POINTS = {1: 400, 2: 160, 3: 88}


@torch.no_grad()
def integral(model: NMDMA, columns: Sequence[int], rest: Tensor, names: Sequence[int]) -> Tensor:
    """Integrate the density over `columns`, with the others (names) at `rest` (B, n)."""
    rules = [nodes(model, column, POINTS[len(columns)]) for column in columns]
    x = torch.cartesian_prod(*[x for x, _ in rules]).reshape(-1, len(columns))
    w = torch.cartesian_prod(*[w for _, w in rules]).reshape(-1, len(columns)).prod(1)
    out = []
    for row in rest:
        full = torch.cat([x, row.expand(len(x), -1)], 1)
        out.append(model.pdf(full, [*columns, *names]) @ w)
    return torch.stack(out)


# The density ----------------------------------------------------------------------------------


ORDERS = dict(zip(TENSORS, [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]], strict=True))


@pytest.mark.parametrize("tensor", TENSORS)
def test_mass_is_one(tensor: str) -> None:
    """For two and three columns, in another order for each tensor."""
    for order in ([c for c in ORDERS[tensor] if c < 2], ORDERS[tensor]):
        model = make_model(len(order), order, tensor)
        mass = integral(model, order, torch.zeros(1, 0), [])
        assert_close(mass, torch.ones(1), rtol=0, atol=1e-5)


def test_density_by_hand() -> None:
    """Two columns, order (1, 0), two components of one hidden unit each, written out."""
    leaves = NeuralLeaves(2, 2, depth=1, hidden=1)
    model = NMDMA(TensorDensity(Leaves([leaves], [(0, 1)]), CPTensor(2, 2)), order=[1, 0])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
        leaves.location.copy_(torch.tensor([1.0, -2.0]))
        leaves.scale.copy_(torch.tensor([0.5, 3.0]))
    weights = model.inner.tensor.raw.softmax(0)
    x = torch.tensor([0.7, -1.1])

    def softplus(t: float) -> float:
        return math.log1p(math.exp(10 * t)) / 10

    def density(column: int, k: int, v: float) -> float:
        """Differentiate the sigmoid of one small network by hand."""
        location, scale = leaves.location[column].item(), leaves.scale[column].item()
        w1, w2 = (softplus(w[0, 0, column, k].item()) for w in leaves.weights)
        b1, b2 = (b[0, column, k].item() for b in leaves.biases)
        gate = math.tanh(leaves.gates[0][0, column, k].item())
        h = w1 * (v - location) / scale + b1
        z = w2 * (h + gate * math.tanh(h)) + b2
        slope = w2 * (1 + gate * (1 - math.tanh(h) ** 2)) * w1 / scale
        cdf = 1 / (1 + math.exp(-z))
        return slope * cdf * (1 - cdf)

    total = 0.0
    for k in range(2):
        # Column 0 is last and stays; column 1 comes before it and is shifted by it.
        squashed = 1 / (1 + math.exp(-(x[0].item() - 1.0) / 0.5))
        shift = 3.0 * softplus(model.raw[1, k, 0].item()) * squashed
        last, first = density(0, k, x[0].item()), density(1, k, x[1].item() + shift)
        total += weights[k].item() * last * first
    assert model.pdf(x).item() == pytest.approx(total, rel=1e-12)


def test_starts_at_the_inner_model() -> None:
    model = NMDMA(generic(TENSORS["ht"](3), [None] * 3))
    x = model.sample(50)
    assert_close(model.logpdf(x), model.inner.logpdf(x), rtol=0, atol=0.02)


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_far_row_has_a_finite_log_density(distance: float, dtype: torch.dtype) -> None:
    model = make_model(4, [2, 0, 3, 1]).to(dtype)
    signs = torch.tensor([[1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, 1, -1]], dtype=dtype)
    value = model.logpdf(distance * signs)
    assert value.dtype == dtype
    assert value.isfinite().all()
    assert (value < -distance / 100).all()
    value.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


# What it still answers ------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]], ids=str)
@pytest.mark.parametrize("lost", [1, 2])
def test_the_density_of_the_last_columns_is_an_integral(order: list[int], lost: int) -> None:
    model = make_model(3, order)
    first, last = order[:lost], order[lost:]
    rows = model.sample(4)[:, last]
    assert_close(model.pdf(rows, last), integral(model, first, rows, last), rtol=1e-5, atol=0)
    holes = torch.full((4, 3), NAN)
    holes[:, last] = rows
    assert_close(model.logpdf(holes), model.logpdf(rows, last), rtol=0, atol=1e-13)
    view = model.marginal(last)
    assert_close(view.logpdf(rows), model.logpdf(rows, last), rtol=0, atol=1e-13)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 2, 0]], ids=str)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_interval_given_all_later_columns_is_an_integral(order: list[int], place: int) -> None:
    """Column `place` in the order lies in an interval, those before it are missing."""
    model = make_model(3, order)
    column, later = order[place], order[place + 1 :]
    row = model.sample(1)
    given = Evidence.exact(row[:, later], later) if later else None
    low, high = row[0, column] - 0.7, row[0, column] + 1.9
    # Gauss and Legendre's rule on the interval.
    x, w = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(60))
    x = low + (high - low) * (x + 1) / 2
    joint = torch.cat([x[:, None], row[:, later].expand(len(x), -1)], 1)
    with torch.no_grad():
        part = model.pdf(joint, [column, *later]) @ w * (high - low) / 2
        base = model.pdf(row[:, later], later) if later else torch.ones(1)
    box = model.prob(low.reshape(1, 1), high.reshape(1, 1), [column], given)
    assert_close(box, part / base, rtol=1e-8, atol=0)
    ends = torch.stack([low, high])[:, None]
    cdf, sf = model.cdf(ends, [column], given), model.sf(ends, [column], given)
    assert_close(cdf + sf, torch.ones(2), rtol=0, atol=1e-12)
    assert_close(cdf[1] - cdf[0], box[0], rtol=0, atol=1e-12)


def test_rows_with_patterns_of_their_own() -> None:
    model = make_model(3, [2, 0, 1])
    lower = torch.tensor([[0.5, 1.0, NAN], [NAN, -INF, NAN], [0.1, 0.2, 0.3], [0.0, 2.0, -INF]])
    upper = torch.tensor([[0.5, 1.0, NAN], [NAN, 3.0, NAN], [0.1, 0.2, 0.3], [0.0, 2.0, 1.0]])
    known = Evidence.interval(lower, upper)
    out = model.log_value(known)
    each = [model.log_value(known.rows(slice(i, i + 1))) for i in range(4)]
    assert_close(out, torch.cat(each), rtol=0, atol=1e-13)
    assert_close(out[0], model.logpdf(torch.tensor([0.5, 1.0]), [0, 1]))
    assert_close(out[1], model.logcdf(torch.tensor([3.0]), [1]))
    assert_close(out[2], model.logpdf(torch.tensor([0.1, 0.2, 0.3])))
    expected = model.logcdf(torch.tensor([1.0]), [2], {0: 0.0, 1: 2.0})
    expected = expected + model.logpdf(torch.tensor([0.0, 2.0]), [0, 1])
    assert_close(out[3], expected)


# What it lost ---------------------------------------------------------------------------------

ZERO = torch.zeros(1, 1)
LOST: dict[str, tuple[Callable[[NMDMA], Any], str]] = {
    "the first column alone": (lambda m: m.logpdf(ZERO, [2]), "column 0 is not exact"),
    "two columns but not the last": (lambda m: m.logpdf(torch.zeros(1, 2), [2, 0]), "column 1"),
    "a hole in a row": (lambda m: m.logpdf(torch.tensor([[NAN, 0.0, 0.0]])), "column 0"),
    "the joint CDF": (lambda m: m.logcdf(torch.zeros(1, 3)), "column 0 is not exact"),
    "the joint survival function": (lambda m: m.logsf(torch.zeros(1, 3)), "column 0"),
    "the CDF of the first column": (lambda m: m.cdf(ZERO, [2]), "column 0"),
    "a box of two columns": (
        lambda m: m.logprob(torch.zeros(1, 2), torch.ones(1, 2), [0, 1]),
        "column 1",
    ),
    "given the first column": (lambda m: m.logpdf(ZERO, [1], {2: 0.0}), "column 0 is not exact"),
    "given an interval": (lambda m: m.logpdf(ZERO, [2], {0: (0.0, 1.0), 1: 0.0}), "column 0"),
    "given an interval of the last": (lambda m: m.logpdf(ZERO, [0], {1: (0.0, None)}), "column 1"),
    "a view given the first column": (lambda m: m.condition({2: 0.0}), "column 0 is not exact"),
    "a marginal's density": (lambda m: m.marginal([0]).logpdf(ZERO), "column 1 is not exact"),
    "univariates": (lambda m: m.univariates(), "univariate conditionals and quantiles"),
    "quantiles": (lambda m: m.ppf(0.5, 1), "univariate conditionals and quantiles"),
    "quantiles given the rest": (lambda m: m.ppf(0.5, 2, {0: 0.0, 1: 0.0}), "quantiles"),
    "samples given the first column": (lambda m: m.sample(3, {2: 0.0}), "column 0"),
    "samples within an interval": (lambda m: m.sample(3, {1: (0.0, 1.0)}), "within intervals"),
}


@pytest.mark.parametrize("case", LOST)
def test_lost_queries_name_the_alternative(case: str) -> None:
    call, what = LOST[case]
    model = make_model(3, [2, 0, 1])
    with pytest.raises(ValueError, match=f"nMDMA can answer.*{what}.*Use a TensorDensity"):
        call(model)


def test_only_the_row_at_fault_is_lost() -> None:
    model = make_model(2)
    fine, lost = torch.tensor([[NAN, 0.0]]), torch.tensor([[0.0, NAN]])
    assert model.logpdf(fine).isfinite().all()
    with pytest.raises(ValueError, match="nMDMA"):
        model.logpdf(torch.cat([fine, lost]))


def test_a_fit_refuses_rows_that_are_lost_before_its_first_step() -> None:
    model = make_model(2)
    rows = torch.zeros(50, 2)
    rows[49, 1] = NAN
    with pytest.raises(ValueError, match=r"nMDMA can answer.*column 1 is not exact"):
        fit(model, rows, validation=rows[:9], max_steps=1, batch_size=5)


def test_errors_of_building() -> None:
    with pytest.raises(ValueError, match=r"neural leaves in all columns of nMDMA.*TensorDensity"):
        NMDMA(generic(CPTensor(2, 2), [None, 3]))
    with pytest.raises(ValueError, match=r"leaves of kinds \['neural', 'atoms'\]"):
        NMDMA(build(torch.randn(9, 2), width=2, atoms={0: [0.0]}))
    inner = generic(CPTensor(3, 2), [None] * 3)
    for order in [[0, 1], [0, 1, 1], [1, 2, 3], [0, 1, 2, 3]]:
        with pytest.raises(ValueError, match=r"`order` to hold 0..2 once each; got"):
            NMDMA(inner, order)


# Samples --------------------------------------------------------------------------------------


@torch.no_grad()
def uniforms(model: Density, rows: Tensor, order: Sequence[int], free: int) -> list[Tensor]:
    """Transform the first `free` columns in the order by their CDF given all later columns."""
    out = []
    for place in range(free):
        column, later = order[place], list(order[place + 1 :])
        given = Evidence.exact(rows[:, later], later) if later else None
        out.append(model.cdf(rows[:, [column]], [column], given))
    return out


def assert_independent_uniforms(u: list[Tensor]) -> None:
    for one in u:
        assert_uniform(one)
    for one, two in combinations(u, 2):
        assert_uniform((one + two) % 1.0)
        assert_uniform((one - two) % 1.0)


@pytest.mark.parametrize("tensor", TENSORS)
def test_samples_are_uniform_under_the_conditional_cdfs(tensor: str) -> None:
    order = ORDERS[tensor]
    model = make_model(3, order, tensor)
    rows = model.sample(4000)
    assert rows.shape == (4000, 3)
    assert not rows.requires_grad
    assert_independent_uniforms(uniforms(model, rows, order, 3))


@pytest.mark.parametrize("known", [1, 2])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]], ids=str)
def test_samples_given_the_last_columns(order: list[int], known: int) -> None:
    model = make_model(3, order)
    last = order[3 - known :]
    values = model.sample(3)[:, last]
    rows = model.sample(2000, Evidence.exact(values, last))
    assert rows.shape == (3, 2000, 3)
    assert torch.equal(rows[..., last], values[:, None].expand(3, 2000, known))
    for row in rows:
        assert_independent_uniforms(uniforms(model, row, order, 3 - known))
    one = model.sample(2000, dict(zip(last, values[0].tolist(), strict=True)))
    assert one.shape == (2000, 3)
    assert_independent_uniforms(uniforms(model, one, order, 3 - known))


def test_a_view_given_the_last_columns() -> None:
    model = make_model(3, [2, 0, 1])
    view = model.condition({1: 0.4})  # columns 0 and 2
    rows = view.sample(3000)
    assert rows.shape == (3000, 2)
    assert_independent_uniforms(uniforms(view, rows, [1, 0], 2))
    x = torch.tensor([[0.1, 0.2]])
    assert_close(view.logpdf(x), model.logpdf(x, [0, 2], {1: 0.4}))


def test_seeds_and_numbers_of_samples() -> None:
    model = make_model(2)
    before = torch.get_rng_state()
    one, two, other = (model.sample(20, None, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())
    for draws in (0, 1):
        assert model.sample(draws).shape == (draws, 2)
        given = Evidence.exact(torch.zeros(4, 1), [1])
        assert model.sample(draws, given).shape == (4, draws, 2)
    x = torch.randn(3, 2)  # complete rows are returned as they are
    assert torch.equal(model.sample(2, Evidence.exact(x)), x[:, None].expand(3, 2, 2))


def test_a_mixture_with_nmdma() -> None:
    one, two = make_model(2), generic(CPTensor(2, 2), [None] * 2)
    both = Mixture([one, two], [1, 3])
    x = both.sample(3000)
    expected = (0.25 * one.pdf(x) + 0.75 * two.pdf(x)).log()
    assert_close(both.logpdf(x), expected)
    assert_independent_uniforms(uniforms(both, x, [0, 1], 2))
    with pytest.raises(ValueError, match="nMDMA"):
        both.ppf(0.5, 0)


# Parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]], ids=str)
def test_the_shift_is_strictly_triangular(order: list[int]) -> None:
    model = make_model(4, order)
    allowed = torch.zeros(4, 4, dtype=torch.bool)
    for place, column in enumerate(order):
        allowed[column, order[place + 1 :]] = True
    x = model.sample(40)
    (gradient,) = torch.autograd.grad(model.logpdf(x).sum(), model.raw)
    moved = gradient.abs().amin(1) > 0  # by every component
    assert torch.equal(moved, allowed)
    # And the others have no say at all.
    before = model.logpdf(x)
    with torch.no_grad():
        model.raw[~allowed[:, None].expand_as(model.raw)] = 50.0
    assert torch.equal(model.logpdf(x), before)


def test_gradients_by_differences() -> None:
    """By the values, and along a direction in the space of all parameters, each of which moves."""
    model = make_model(3, [1, 0, 2])
    x = model.sample(3).requires_grad_()
    assert torch.autograd.gradcheck(model.logpdf, x, eps=1e-6, atol=1e-6)
    x, named = model.sample(60), dict(model.named_parameters())
    direction = [torch.randn_like(p) for p in named.values()]
    gradients = torch.autograd.grad(model.logpdf(x).sum(), [*named.values()])
    for name, gradient in zip(named, gradients, strict=True):
        assert gradient.isfinite().all(), name
        assert (gradient != 0).any(), name
    slope = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
    difference = central_difference(lambda: model.logpdf(x).sum(), [*named.values()], direction)
    assert_close(slope, difference, rtol=1e-6, atol=1e-6)


def test_gradient_with_holes_and_open_ends_is_finite() -> None:
    model = make_model(3, [1, 0, 2])
    x = torch.tensor([[NAN, NAN, 0.3], [0.2, NAN, -0.4]], requires_grad=True)
    model.logpdf(x).sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[~x.detach().isnan()] != 0).all()
    assert (x.grad[x.detach().isnan()] == 0).all()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    for lower, upper in [(-INF, 0.5), (0.5, INF), (0.1, 0.5)]:
        model.zero_grad()
        bounds = [torch.tensor([[b]], requires_grad=True) for b in (lower, upper)]
        later = torch.tensor([[0.3, -0.2]], requires_grad=True)
        model.logprob(*bounds, [1], Evidence.exact(later, [0, 2])).sum().backward()
        assert all(b.grad.isfinite().all() for b in [*bounds, later])
        assert (later.grad != 0).all()
        assert all(p.grad.isfinite().all() for p in model.parameters())


# Precision ------------------------------------------------------------------------------------


def test_float32_and_float64_agree() -> None:
    model = make_model(3, [2, 1, 0])
    x = model.sample(50)
    wide = model.logpdf(x)
    narrow = model.float().logpdf(x)
    assert narrow.dtype == torch.float32
    assert_close(narrow.double(), wide, rtol=1e-4, atol=1e-4)
    assert model.sample(2).dtype == torch.float32
    assert model.sample(2, Evidence.exact(x[:, :1])).dtype == torch.float64
