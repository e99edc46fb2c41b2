"""The joint CDF: its derivative is the density, it is monotone, and its limits are 0 and 1."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from tests.laws.registry import build, coded, names, rows_of, smooth

MODELS = names("cdf")


def mixed_derivative(model: Density, x: Tensor, columns: list[int]) -> Tensor:
    """Differentiate F once by each continuous column, and take differences over the codes."""
    total = torch.zeros(len(x))
    steps = [c for c in columns if c in coded(model)]
    for shifts in product([0.0, 1.0], repeat=len(steps)):
        cells = {c: x[:, c].clone() for c in columns}
        for column, shift in zip(steps, shifts, strict=True):
            cells[column] -= shift
        leaves = [cells[c].requires_grad_() for c in columns if c not in steps]
        value = model.cdf(torch.stack([cells[c] for c in columns], 1), columns)
        for leaf in leaves:
            (value,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
        total += (-1) ** sum(shifts) * value.detach()
    return total


@pytest.mark.parametrize("name", MODELS)
def test_mixed_derivative_of_the_cdf_is_the_density(name: str) -> None:
    model = build(name)
    columns = list(range(min(model.columns, 4)))
    x = rows_of(model, 6)
    expected = model.pdf(x[:, columns], columns)
    assert_close(mixed_derivative(model, x, columns), expected.detach(), rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", names("cdf", at_least=2, at_most=4))
def test_partial_derivative_of_the_cdf_mixes_exact_and_interval_cells(name: str) -> None:
    """dF/dx_c is the density of column c together with P(the rest <= x), one row of evidence."""
    model = build(name)
    x = rows_of(model, 6)
    for column in smooth(model):
        at = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model.cdf(at).sum(), at)
        lower = torch.full_like(x, -torch.inf)
        lower[:, column] = x[:, column]
        expected = model.log_value(Evidence.interval(lower, x)).exp()
        assert_close(slope[:, column], expected.detach(), rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_cdf_is_monotone_in_each_coordinate(name: str) -> None:
    model = build(name)
    x = rows_of(model, 8)
    for column in range(model.columns):
        line = x[:, None].repeat(1, 30, 1)
        line[..., column] += torch.linspace(-20, 20, 30)
        steps = model.cdf(line).detach().diff(dim=1)
        # Rounding may turn a flat stretch by an ulp of one.
        assert steps.min() >= -1e-15
        assert steps.max() > 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_cdf_and_survival_function_have_limits_zero_and_one(name: str) -> None:
    model = build(name)
    x = rows_of(model, 5)
    for column in range(model.columns):
        for sign, log, linear in ((-1, model.logcdf, model.cdf), (1, model.logsf, model.sf)):
            far = x.clone()
            far[:, column] = sign * torch.inf
            assert torch.equal(log(far), torch.full((5,), -torch.inf))
            far[:, column] = sign * 1e4
            assert linear(far).max() < 1e-100
    everywhere = torch.full_like(x, torch.inf)
    assert_close(model.logcdf(everywhere), torch.zeros(5), rtol=0, atol=1e-14)
    assert_close(model.logcdf(torch.full_like(x, 1e4)), torch.zeros(5), rtol=0, atol=1e-14)
    assert_close(model.logsf(-everywhere), torch.zeros(5), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", names("cdf", at_least=2))
def test_cdf_at_infinity_is_the_marginal_cdf(name: str) -> None:
    model = build(name)
    x = rows_of(model, 5)
    for column in range(model.columns):
        rest = [c for c in range(model.columns) if c != column]
        high = x.clone()
        high[:, column] = torch.inf
        assert_close(model.logcdf(high), model.logcdf(x[:, rest], rest), rtol=0, atol=1e-14)
        view = model.marginal(rest)
        assert_close(model.logcdf(high), view.logcdf(x[:, rest]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_box_is_the_alternating_sum_of_the_cdf(name: str) -> None:
    model = build(name)
    one, two = rows_of(model, 20), rows_of(model, 20)
    lower, upper = torch.minimum(one, two), torch.maximum(one, two)
    lower[:, coded(model)] -= 1
    corners = product([0, 1], repeat=model.columns)
    total, size = torch.zeros(20), torch.zeros(20)
    for corner in corners:
        at_upper = torch.tensor(corner, dtype=torch.bool)
        value = model.cdf(torch.where(at_upper, upper, lower)).detach()
        total += (-1) ** (model.columns - sum(corner)) * value
        size += value
    box = model.prob(lower, upper).detach()
    assert ((total - box).abs() <= 1e-14 * size).all()
    kept = box > 1e-3 * size
    assert kept.any()
    assert_close(box[kept], total[kept], rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_box_and_survival_function_by_reflection(name: str) -> None:
    """In one column, P(X > x) = 1 - F(x); in many, the sign patterns of all corners sum to 1."""
    model = build(name)
    x = rows_of(model, 4)
    total = torch.zeros(4)
    for above in product([False, True], repeat=model.columns):
        side = torch.tensor(above)
        lower = torch.where(side, x, -torch.inf)
        upper = torch.where(side, torch.inf, x)
        total += model.prob(lower, upper).detach()
    assert_close(total, torch.ones(4), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_box_is_additive(name: str) -> None:
    """Cutting one side of a box in two, however thin the cut, gives two boxes that add up."""
    model = build(name)
    upper = rows_of(model, 10)
    lower = upper - 2
    for column in smooth(model):
        cut = upper.clone()
        cut[:, column] -= torch.logspace(-9, 0, 10)
        first = model.logprob(lower, cut)
        second_lower = lower.clone()
        second_lower[:, column] = cut[:, column]
        second = model.logprob(second_lower, upper)
        whole = model.logprob(lower, upper)
        assert_close(torch.logaddexp(first, second), whole, rtol=0, atol=1e-12)
        # The thin slice itself keeps its digits: to first order it is density times width.
        thin = model.logprob(second_lower[:1], upper[:1])
        cell = lower[:1].clone()
        cell[:, column] = upper[:1, column]
        density = model.log_value(Evidence.interval(cell, upper[:1]))
        width = (upper - cut)[:1, column].log()
        assert_close(thin, density + width, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_a_huge_finite_bound_is_as_good_as_infinity(name: str) -> None:
    model = build(name)
    x, nothing = rows_of(model, 4), torch.full((4,), -torch.inf)
    for size in [1e4, 1e30]:
        far = torch.full_like(x, size)
        assert_close(model.logprob(-far, x), model.logcdf(x), rtol=0, atol=1e-10)
        assert_close(model.logprob(x, far), model.logsf(x), rtol=0, atol=1e-10)
        assert_close(model.logprob(-far, far), torch.zeros(4), rtol=0, atol=1e-10)
        # A box without width is empty.
        assert torch.equal(model.logprob(x, torch.cat([x[:, :1], far[:, 1:]], 1)), nothing)
