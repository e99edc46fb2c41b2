"""Gradients: every parameter gets one, and they are right."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.leaves import CategoricalLeaves
from tests.laws.registry import boxes_of, build, coded, names, rows_of, smooth

# A view leaves parameters of its base unused.
TRAINED = [name for name in names("cdf", "marginal") if "view" not in name]


def moving(model: Density) -> dict[str, Tensor]:
    """Say, for each parameter, which entries change the density at all."""
    out = {name: torch.ones_like(p, dtype=torch.bool) for name, p in model.named_parameters()}
    for path, part in model.named_modules():
        if isinstance(part, CategoricalLeaves):
            # The codes that pad a column to the most categories, and a category that is alone.
            alone = torch.tensor(part.categories) == 1
            fixed = (part.absent | alone[:, None])[:, None]
            out[f"{path}.logits"] = ~fixed.expand_as(part.logits)
    for name in out:
        # One weight that is all of the mass cannot move.
        if model.get_parameter(name).shape[-1] == 1 and "tensor" in name:
            out[name] = torch.zeros_like(out[name])
    return out


def assert_all_move(model: Density, value: Tensor) -> None:
    model.zero_grad()
    value.sum().backward()
    for name, entries in moving(model).items():
        if not entries.any():
            continue
        gradient = model.get_parameter(name).grad
        assert gradient is not None, name
        assert gradient.isfinite().all(), name
        assert (gradient[entries] != 0).all(), name


@pytest.mark.parametrize("name", TRAINED)
def test_every_parameter_receives_a_gradient_from_densities(name: str) -> None:
    model = build(name)
    # Many rows, so that each code occurs.
    assert_all_move(model, model.logpdf(rows_of(model, 200)))


@pytest.mark.parametrize("name", TRAINED)
def test_every_parameter_receives_a_gradient_from_intervals_and_gaps(name: str) -> None:
    model = build(name)
    assert_all_move(model, model.log_value(boxes_of(model, 200)))


@pytest.mark.parametrize("name", names(smooth=1))
def test_gradient_of_logpdf_by_the_values(name: str) -> None:
    model = build(name)
    x = rows_of(model, 2)
    at = smooth(model)

    def value(cells: Tensor) -> Tensor:
        row = x.clone()
        row[:, at] = cells
        return model.logpdf(row)

    assert gradcheck(value, x[:, at].clone().requires_grad_(), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", names("cdf", smooth=1))
def test_gradient_of_logprob_by_both_bounds(name: str) -> None:
    model = build(name)
    lower, at = rows_of(model, 2), smooth(model)
    lower[:, coded(model)] -= 1
    upper = lower + 1.5

    def value(low: Tensor, high: Tensor) -> Tensor:
        bounds = lower.clone(), upper.clone()
        bounds[0][:, at], bounds[1][:, at] = low, high
        return model.logprob(*bounds)

    ends = [side[:, at].clone().requires_grad_() for side in (lower, upper)]
    assert gradcheck(value, ends, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", names("cdf", "marginal", smooth=1))
def test_gradient_with_open_ends_and_gaps_is_finite_and_right(name: str) -> None:
    model = build(name)
    boxes = boxes_of(model, 12)
    free = boxes.lower.isfinite() & (boxes.lower < boxes.upper)
    free[:, coded(model)] = False

    def value(shift: Tensor) -> Tensor:
        return model.log_value(Evidence.interval(boxes.lower - shift, boxes.upper)).sum()

    shift = torch.zeros_like(boxes.lower, requires_grad=True)
    # Exact cells may not become intervals and codes may not move.
    (gradient,) = torch.autograd.grad(value(shift), shift)
    assert gradient.isfinite().all()
    step = 1e-6 * free
    slope = (value(step) - value(-step)) / 2e-6
    assert_close(gradient[free].sum(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("cdf", "marginal"))
def test_gradient_by_the_parameters(name: str) -> None:
    """A directional derivative along a random direction in the space of all parameters."""
    model = build(name)
    rows, boxes = rows_of(model, 10), boxes_of(model, 10)

    def value() -> Tensor:
        return model.logpdf(rows).sum() + model.log_value(boxes).sum()

    parameters = [p for p in model.parameters() if p.numel()]
    direction = [torch.randn_like(p) for p in parameters]
    gradients = torch.autograd.grad(value(), parameters, allow_unused=True)
    pairs = zip(gradients, direction, strict=True)
    slope = sum((g * d).sum() for g, d in pairs if g is not None)
    assert_close(slope, central_difference(value, parameters, direction), rtol=1e-6, atol=1e-5)


@torch.no_grad()
def central_difference(
    value: object, parameters: list[nn.Parameter], direction: list[Tensor], step: float = 1e-5
) -> Tensor:
    ends = []
    for side in (step, -2 * step):
        for parameter, change in zip(parameters, direction, strict=True):
            parameter.add_(side * change)
        ends.append(value())
    return (ends[0] - ends[1]) / (2 * step)
