"""Reparametrised samples: gradients through the draws."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.tensors import CPTensor
from tests.densities.test_distribution import GIVEN, make_model, rows
from tests.laws.registry import generic, mixture
from tests.laws.statistics import P_VALUE


@torch.no_grad()
def from_uniforms(model: Density, u: Tensor, given: Evidence | None) -> Tensor:
    """Invert the Rosenblatt transform row by row: columns of the view, one after the other."""
    out = []
    for i, row in enumerate(u):
        view = model if given is None else model.condition(given.rows(slice(i, i + 1)))
        x = torch.empty(1, 0)
        for column, level in enumerate(row):
            known = Evidence.exact(x, range(column)) if column else None
            x = torch.cat([x, view.ppf(level, column, known).reshape(1, 1)], 1)
        out.append(x[0])
    return torch.stack(out)


@torch.no_grad()
def to_uniforms(view: Density, x: Tensor) -> Tensor:
    out = []
    for column in range(x.shape[1]):
        known = Evidence.exact(x[:, :column], range(column)) if column else None
        out.append(view.cdf(x[:, [column]], [column], known))
    return torch.stack(out, 1)


@pytest.mark.parametrize("kind", ["one column", "two columns", "three columns", "mixture", "batch"])
def test_implicit_gradients_equal_differences(kind: str) -> None:
    """Move the parameters a little: each sample moves so that its uniforms stay what they were."""
    columns = {"one column": 1, "two columns": 2, "three columns": 3}.get(kind, 2)
    model, given = make_model(columns), None
    if kind == "mixture":
        model = mixture([make_model(2), generic(CPTensor(2, 2), [None] * 2)], [2, 1])
    if kind == "batch":
        model = make_model(3)
        given = rows(model).rows(torch.tensor([0, 1, 2, 0]))
    d = model.distribution(given)
    x = d.rsample() if given is not None else d.rsample((4,))  # (4, D) or (4,)
    flat = x.reshape(4, -1)
    parameters = [p for p in model.parameters() if p.numel()]
    direction = [torch.randn_like(p) for p in parameters]
    u = to_uniforms(d.density, flat.detach())

    def moved(step: float) -> Tensor:
        with torch.no_grad():
            for p, change in zip(parameters, direction, strict=True):
                p.add_(step * change)
            out = from_uniforms(model, u, given)
            for p, change in zip(parameters, direction, strict=True):
                p.sub_(step * change)
        return out

    assert_close(moved(0.0), flat.detach(), rtol=0, atol=1e-8)
    slope = (moved(1e-4) - moved(-1e-4)) / 2e-4
    for i in range(4):
        for j in range(flat.shape[1]):
            gradients = torch.autograd.grad(flat[i, j], parameters, retain_graph=True)
            implicit = sum((g * c).sum() for g, c in zip(gradients, direction, strict=True))
            assert_close(implicit, slope[i, j], rtol=1e-5, atol=1e-5)


def test_rsample_has_the_gradient_of_the_evidence() -> None:
    model = make_model(2)
    cells = GIVEN.clone().requires_grad_()
    d = model.distribution(Evidence.exact(cells, [0]))
    x = d.rsample()
    (gradient,) = torch.autograd.grad(x.sum(), cells)
    u = d.cdf(x.detach()).detach()
    ends = [
        model.distribution(Evidence.exact(GIVEN + step, [0])).icdf(u).detach()
        for step in (1e-5, -1e-5)
    ]
    assert_close(gradient[:, 0], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [1, 2])
def test_gradient_of_an_expectation(columns: int) -> None:
    """The mean of reparametrised gradients against the gradient of an integral."""
    model = make_model(columns)
    parameters = [p for p in model.parameters() if p.numel()]
    direction = [torch.randn_like(p) for p in parameters]

    def f(x: Tensor) -> Tensor:
        return torch.tanh(x / 2).sum(-1) + torch.sin(x).prod(-1)

    # The exact gradient, by quadrature over the whole line of each column.
    t = torch.linspace(-4.0, 4.0, 300 if columns == 1 else 140)
    rules = []
    for column in range(columns):
        low, centre, high = model.ppf(torch.tensor([0.02, 0.5, 0.98]), column).detach()
        scale = (high - low) / 4
        rules.append((centre + scale * t.sinh(), scale * t.cosh() * (t[1] - t[0])))
    x = torch.cartesian_prod(*[x for x, _ in rules]).reshape(-1, columns)
    w = torch.cartesian_prod(*[w for _, w in rules]).reshape(-1, columns).prod(1)
    exact = torch.autograd.grad((model.pdf(x) * f(x)) @ w, parameters)
    exact = sum((g * c).sum() for g, c in zip(exact, direction, strict=True))
    # Each sample's derivative along the direction: the gradient by v of a gradient linear in v.
    samples = model.distribution().rsample((4000,)).reshape(4000, columns)
    v = torch.ones(4000, requires_grad=True)
    gradients = torch.autograd.grad(v @ f(samples), parameters, create_graph=True)
    along = sum((g * c).sum() for g, c in zip(gradients, direction, strict=True))
    (each,) = torch.autograd.grad(along, v)
    error = (each.mean() - exact) / (each.std() / 4000**0.5)
    # Two-sided normal tail of the declared failure rate.
    assert 2 * (1 - Normal(0.0, 1.0).cdf(error.abs())) > P_VALUE


def test_rsample_draws_what_sample_draws() -> None:
    model = make_model()
    for d in [model.distribution(), model.distribution(rows(model))]:
        one = d.sample((3,), torch.Generator().manual_seed(1))
        two = d.rsample((3,), torch.Generator().manual_seed(1))
        assert_close(two.detach(), one, rtol=1e-12, atol=1e-12)
        assert two.requires_grad
