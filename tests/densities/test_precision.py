"""Narrow models and wide evidence: float32 parameters keep the digits of float64 cells."""

import copy

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.tensor_density import TensorDensity
from marginals.structure import balanced
from marginals.tensors import CPTensor
from tests.laws.registry import generic, ht, mixture
from tests.laws.statistics import assert_uniform

INF = torch.inf
OFFSET = 1e5  # two neighbours in float32 lie 0.008 apart there


def narrow(kinds: tuple[int | None, ...] = (None, 3, None)) -> TensorDensity:
    """Build a model in float32 whose continuous columns lie around 1e5."""
    model = generic(ht(balanced(len(kinds)), 4), kinds)
    model.leaves.families[0].location.fill_(OFFSET)
    return model.float()


def wide(model: Density) -> Density:
    """Copy a model to float64: the same numbers, computed with more digits."""
    return copy.deepcopy(model).double()


def parameters_of(model: Density) -> set[torch.dtype]:
    return {p.dtype for p in model.parameters()}


# Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tensor", "mixture", "view"])
def test_samples_are_as_wide_as_model_and_evidence(kind: str) -> None:
    model: Density = narrow()
    if kind == "mixture":
        model = mixture([model, narrow()])
    if kind == "view":
        model = model.marginal([2, 1, 0])
    model = model.float()
    double = wide(model)
    x = torch.full((2, 1), OFFSET)
    assert parameters_of(model) == {torch.float32}
    assert model.sample(3).dtype == torch.float32
    assert model.sample(3, Evidence.exact(x.float())).dtype == torch.float32
    assert model.sample(3, Evidence.exact(x.double())).dtype == torch.float64
    assert double.sample(3).dtype == torch.float64
    assert double.sample(3, Evidence.exact(x.float())).dtype == torch.float64


def test_answers_have_the_dtype_of_the_model() -> None:
    model = narrow()
    for dtype in [torch.float32, torch.float64]:
        x = torch.full((2, 1), OFFSET, dtype=dtype)
        given = {2: (OFFSET, None)}
        assert model.logpdf(x, [0]).dtype == torch.float32
        assert model.logcdf(x, [0], given).dtype == torch.float32
        assert wide(model).logpdf(x, [0], given).dtype == torch.float64


def test_exact_cells_are_returned_to_the_last_digit() -> None:
    x = torch.tensor([[OFFSET + 1 / 3], [OFFSET + 2 / 3]], dtype=torch.float64)
    rows = narrow().sample(5, Evidence.exact(x))
    assert torch.equal(rows[..., 0], x.expand(2, 5))


# Values at large offsets ----------------------------------------------------------------------


def test_log_densities() -> None:
    model = narrow((None, None))
    x = OFFSET + torch.randn(200, 2, dtype=torch.float64)
    exact = wide(model).logpdf(x)
    assert_close(model.logpdf(x).double(), exact, rtol=1e-4, atol=1e-4)
    # Which float32 cells could not give.
    assert (model.logpdf(x.float()).double() - exact).abs().max() > 1e-3


@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-8])
def test_narrow_intervals(width: float) -> None:
    model = narrow((None, None))
    low = OFFSET + 2 * torch.randn(50, 2, dtype=torch.float64)
    high = low + width
    exact = wide(model).logprob(low, high)
    assert_close(model.logprob(low, high).double(), exact, rtol=1e-4, atol=1e-4)
    # In the limit, the density times the area (float64 rounds the widths of bounds so large).
    area = (high - low).log().sum(-1)
    assert_close(exact, wide(model).logpdf(low) + area, rtol=0, atol=20 * width + 1e-4)


def test_narrow_intervals_given() -> None:
    model = narrow()
    given = Evidence.interval(
        torch.tensor([[OFFSET + 0.1]], dtype=torch.float64),
        torch.tensor([[OFFSET + 0.1 + 1e-6]], dtype=torch.float64),
        [2],
    )
    x = OFFSET + torch.randn(20, 1, dtype=torch.float64)
    exact = wide(model).logpdf(x, [0], given)
    assert_close(model.logpdf(x, [0], given).double(), exact, rtol=1e-4, atol=1e-4)
    # As good as the value itself.
    point = wide(model).logpdf(x, [0], {2: OFFSET + 0.1})
    assert_close(exact, point, rtol=0, atol=1e-4)


@pytest.mark.parametrize("width", [1.0, 1e-2, 1e-4])
def test_samples_fill_a_narrow_interval(width: float) -> None:
    """Neighbours in float32 are farther apart than the interval is wide."""
    model = narrow()
    low, high = OFFSET + 0.3, OFFSET + 0.3 + width
    rows = model.sample(2000, {2: (low, high)})
    assert rows.dtype == torch.float64
    x = rows[:, 2]
    assert (x > low).all()
    assert (x <= high).all()
    start = torch.full_like(x, low)[:, None]
    mass = wide(model).logprob(start, torch.full_like(start, high), [2])
    u = (wide(model).logprob(start, x[:, None], [2]) - mass).exp()
    assert_uniform(u.detach())


def test_quantiles_with_wide_evidence() -> None:
    """A float32 model answers with quantiles in the precision of the question."""
    model = narrow()
    levels = torch.linspace(0.1, 0.9, 50, dtype=torch.float64)
    given = Evidence.of({0: OFFSET + 0.1})
    x = model.ppf(levels, 2, given)
    assert x.dtype == torch.float64
    exact = wide(model).ppf(levels, 2, given)
    assert_close(x, exact, rtol=0, atol=1e-4)


# Far out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_probabilities_far_in_the_tail(dtype: torch.dtype) -> None:
    """Of log values of thousands, with their digits."""
    model = generic(CPTensor(2, 3), [None, None]).to(dtype)
    x = torch.tensor([[-1e4, -2e4]], dtype=torch.float64)
    lower: Tensor = model.logcdf(x)
    assert lower.isfinite().all()
    assert (lower < -1000).all()
    assert_close(lower.double(), wide(model).logcdf(x), rtol=1e-5, atol=0)
    given = {1: (2e4, None)}
    tail = model.logsf(-x[:, :1], [0], given)
    assert_close(tail.double(), wide(model).logsf(-x[:, :1], [0], given), rtol=1e-4, atol=0)
