"""Laws of the continuous families: neural leaves, and leaves on a shared learned scale."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.leaves import NeuralLeaves, SharedLeaves
from marginals.leaves.family import ContinuousLeaves
from tests.laws.registry import generic_neural, generic_shared
from tests.laws.statistics import assert_uniform
from tests.leaves.cells import cells, exact, free

DTYPES = [torch.float32, torch.float64]
# Depth and hidden units of neural leaves; base and hidden units of shared ones.
SHAPES = [(1, 1), (1, 3), (2, 5), (3, 3), (5, 2)] + [
    (base, hidden) for base in ("normal", "logistic") for hidden in (1, 8)
]


@pytest.fixture(params=SHAPES, ids=str)
def leaves(request: pytest.FixtureRequest) -> ContinuousLeaves:
    """Two columns and three components."""
    first, hidden = request.param
    if isinstance(first, int):
        return generic_neural(2, 3, first, hidden)
    return generic_shared(2, 3, first, hidden, bend=0.5)


def units(leaves: ContinuousLeaves) -> tuple[Tensor, Tensor]:
    """Location and scale of each column, (2, 1)."""
    if isinstance(leaves, NeuralLeaves):
        return leaves.location[:, None], leaves.scale[:, None]
    assert isinstance(leaves, SharedLeaves)
    return leaves.learned.location[:, None], leaves.learned.unit[:, None]


# Values -------------------------------------------------------------------------------------------


def test_the_density_is_the_derivative_of_the_cdf(leaves: ContinuousLeaves) -> None:
    x = (3 * torch.randn(2, 9)).requires_grad_()
    out = leaves.evaluate(x, [0, 1])
    assert_close(leaves.cdf(x, [0, 1]), out.log_cdf.exp(), rtol=1e-12, atol=1e-15)
    assert_close(leaves.log_density(x, [0, 1]), out.log_density)
    for component in range(3):
        cdf = out.log_cdf[..., component].exp().sum()
        (slope,) = torch.autograd.grad(cdf, x, retain_graph=True)
        assert_close(out.log_density[..., component].exp(), slope, rtol=1e-10, atol=1e-14)


def test_an_interval_is_a_difference(leaves: ContinuousLeaves) -> None:
    lower = torch.randn(2, 9)
    upper = lower + torch.rand(2, 9) + 0.1
    low, high = leaves.evaluate(lower, [0, 1]), leaves.evaluate(upper, [0, 1])
    value = leaves.log_interval(lower, upper, [0, 1]).exp()
    assert_close(value, high.log_cdf.exp() - low.log_cdf.exp(), rtol=1e-10, atol=1e-14)
    assert_close(value, low.log_sf.exp() - high.log_sf.exp(), rtol=1e-10, atol=1e-14)


def test_a_narrow_interval_is_density_times_width(leaves: ContinuousLeaves) -> None:
    x = torch.linspace(-100, 100, 41).expand(2, -1)
    upper = x + 1e-10
    mass = leaves.log_interval(x, upper, [0, 1])
    density = leaves.evaluate(0.5 * (x + upper), [0, 1]).log_density
    assert_close(mass, density + (upper - x).log()[..., None], rtol=1e-13, atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_far_finite_bound_leaves_the_near_one_alone(
    leaves: ContinuousLeaves, dtype: torch.dtype
) -> None:
    """(-1e6, x] has the probability of (-inf, x], however large the other bound."""
    leaves = leaves.to(dtype)
    x = torch.tensor([[-1.0, 0.3, 2.5]], dtype=dtype)
    below = leaves.log_interval(torch.full_like(x, -torch.inf), x, [0])
    above = leaves.log_interval(x, torch.full_like(x, torch.inf), [0])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for size in [1e6, 1e12, 1e30]:
        far = torch.full_like(x, size).requires_grad_()
        for value, expected in [
            (leaves.log_interval(-far, x, [0]), below),
            (leaves.log_interval(x, far, [0]), above),
        ]:
            assert_close(value, expected, rtol=tolerance, atol=tolerance)
            leaves.zero_grad()
            value.sum().backward()
            assert all(p.grad.isfinite().all() for p in [far, *leaves.parameters()])


def test_log_values_of_each_kind_of_cell(leaves: ContinuousLeaves) -> None:
    inf, nan = torch.inf, torch.nan
    lower = torch.tensor([[0.5, -1.0, -inf, 0.5, nan, -inf], [nan, 0.0, -inf, 2.0, inf, -3.0]])
    upper = torch.tensor([[0.5, 1.0, 0.5, inf, nan, inf], [nan, 0.0, 1.0, 3.0, -inf, -3.0]])
    value = leaves.log_values(cells(lower, upper))
    at = leaves.evaluate(torch.tensor([[0.5, -3.0], [0.0, -3.0]]), [0, 1])
    assert_close(value[0, 0], at.log_density[0, 0])
    assert_close(value[0, 1], leaves.log_interval(lower[:1, 1:2], upper[:1, 1:2], [0])[0, 0])
    assert_close(value[0, 2], at.log_cdf[0, 0])
    assert_close(value[0, 3], at.log_sf[0, 0])
    assert torch.equal(value[0, 4:], torch.zeros(2, 3))
    assert torch.equal(value[1, 0], torch.zeros(3))
    assert_close(value[1, [1, 5]], at.log_density[1])
    assert (value[1, 4] == -torch.inf).all()  # the impossible cell


def test_values_at_infinity(leaves: ContinuousLeaves) -> None:
    x = torch.tensor([[-torch.inf, torch.inf]])
    out = leaves.evaluate(x, [0])
    assert (out.log_cdf[0, 0] == -torch.inf).all()
    assert (out.log_cdf[0, 1] == 0).all()
    assert (out.log_sf[0, 0] == 0).all()
    assert (out.log_density == -torch.inf).all()
    if isinstance(leaves, SharedLeaves):
        assert torch.equal(leaves.unscale(leaves.scale(x, [0])[0], [0]), x)


def test_columns_in_any_order_and_number(leaves: ContinuousLeaves) -> None:
    lower = torch.randn(2, 7)
    upper = lower.clone()
    upper[1] += 1.0
    for evidence in (exact(lower), cells(lower, upper)):
        both = leaves.log_values(evidence)
        # Up to the rounding of fused operations, which depends on the place in memory.
        back = leaves.log_values(evidence.select([1, 0]))
        assert_close(back, both.flip(0), rtol=1e-14, atol=1e-14)
        one = leaves.log_values(evidence.select([1]))
        assert_close(one, both[1:], rtol=1e-14, atol=1e-14)
    some = leaves.log_values(cells(lower, upper).with_facts())  # intervals in column 1 alone
    assert_close(some, both, rtol=0, atol=1e-15)


# Gradients and far tails --------------------------------------------------------------------------


def test_gradients_of_values_and_intervals(leaves: ContinuousLeaves) -> None:
    x = torch.randn(2, 3, requires_grad=True)
    upper = (x.detach() + torch.rand(2, 3) + 0.1).requires_grad_()

    # The parameters are perturbed in place.
    def values(x: Tensor, upper: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        density = leaves.evaluate(x, [0, 1]).log_density
        return density, leaves.log_interval(x, upper, [0, 1])

    few = sum(p.numel() for p in leaves.parameters()) < 200
    assert gradcheck(values, [x, upper, *(leaves.parameters() if few else ())])


def test_missing_and_open_cells_have_clean_gradients(leaves: ContinuousLeaves) -> None:
    inf, nan = torch.inf, torch.nan
    lower = torch.tensor([[nan, -inf, -inf, 0.0], [1.0, -1.0, nan, 0.0]], requires_grad=True)
    upper = torch.tensor([[nan, inf, 0.5, inf], [1.0, 1.0, nan, 1e-3]], requires_grad=True)
    leaves.log_values(cells(lower, upper)).sum().backward()
    for parameter in [*leaves.parameters(), lower, upper]:
        assert parameter.grad.isfinite().all()
    assert lower.grad[0, 0] == 0
    assert upper.grad[0, 2] > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("far", [50.0, -50.0, 1e6, -1e6])
def test_far_tails_are_finite_with_a_gradient(
    leaves: ContinuousLeaves, far: float, dtype: torch.dtype
) -> None:
    leaves = leaves.to(dtype)
    if isinstance(leaves, SharedLeaves):
        with torch.no_grad():
            leaves.spreads[:, 0] = -100.0  # as narrow as they come
    location, scale = units(leaves)
    x = (location + far * scale).detach().requires_grad_()
    out = leaves.evaluate(x, [0, 1])
    mass = leaves.log_interval(x - 0.5 * scale, x + 0.5 * scale, [0, 1])
    for part in (out.log_cdf, out.log_sf, mass, out.log_density):
        assert part.isfinite().all()
        assert part.dtype == dtype
        leaves.zero_grad()
        x.grad = None
        part.sum().backward(retain_graph=True)
        assert x.grad.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in leaves.parameters())
    # Towards the centre the density grows.
    assert (x.grad * far < 0).all()
    if isinstance(leaves, SharedLeaves):
        assert (leaves.centres.grad * far > 0).all()
    else:
        assert (leaves.biases[-1].grad != 0).all()
        assert all((weight.grad != 0).all() for weight in leaves.weights)


@pytest.mark.parametrize("far", [0.0, 2.0, 50.0, 1e6, -1e6])
def test_float32_agrees_with_float64(leaves: ContinuousLeaves, far: float) -> None:
    location, scale = units(leaves.float())
    x = location + far * scale
    single, mass = leaves.evaluate(x, [0, 1]).log_density, leaves.log_interval(x, x + scale, [0, 1])
    x, wide = x.double(), leaves.double()
    expected = wide.log_interval(x, x + scale.double(), [0, 1])
    assert_close(single.double(), wide.evaluate(x, [0, 1]).log_density, rtol=3e-5, atol=1e-5)
    if abs(far) < 100:  # beyond, float32 has lost the width itself
        assert_close(mass.double(), expected, rtol=3e-5, atol=1e-5)


# Draws and starts ---------------------------------------------------------------------------------


def test_draws_follow_their_leaf(leaves: ContinuousLeaves) -> None:
    components = torch.randint(0, 3, (2, 3000))
    x = leaves.sample(components, free(3000, [0, 1]))
    u = leaves.evaluate(x, [0, 1]).log_cdf.exp().gather(2, components[..., None])[..., 0]
    for column in u.detach():
        assert_uniform(column)


@pytest.mark.parametrize("bounds", [(-1.0, 1.5), (40.0, 41.0), (-60.0, -59.999), (-60.0, None)])
def test_truncated_draws_follow_their_leaf(
    leaves: ContinuousLeaves, bounds: tuple[float, float | None]
) -> None:
    lower = torch.full((2, 3000), bounds[0])
    upper = torch.full((2, 3000), torch.inf if bounds[1] is None else bounds[1])
    components = torch.randint(0, 3, (2, 3000))
    x = leaves.sample(components, cells(lower, upper))
    assert ((x > lower) & (x <= upper)).all()
    part = leaves.log_interval(lower, x, [0, 1]) - leaves.log_interval(lower, upper, [0, 1])
    for column in part.exp().gather(2, components[..., None])[..., 0].detach():
        assert_uniform(column)


def test_exact_cells_are_kept_by_draws(leaves: ContinuousLeaves) -> None:
    lower = torch.tensor([[1.5, torch.nan], [0.0, -1.0]])
    upper = torch.tensor([[1.5, torch.nan], [1.0, -1.0]])
    x = leaves.sample(torch.zeros(2, 2, dtype=torch.long), cells(lower, upper))
    assert x[0, 0] == 1.5
    assert x[1, 1] == -1.0
    assert x.isfinite().all()


@pytest.mark.parametrize("power", [0, 1, 2])
def test_moments(leaves: ContinuousLeaves, power: int) -> None:
    """Against the density integrated over x."""
    location, scale = units(leaves)
    t = torch.linspace(-7, 7, 16001)
    x, weight = location + scale * t.sinh(), scale * t.cosh() * (t[1] - t[0])
    density = leaves.evaluate(x, [0, 1]).log_density.exp()
    expected = (density * (weight * x**power)[..., None]).sum(1).detach()
    if power == 0:
        assert_close(expected, torch.ones(2, 3), rtol=0, atol=1e-9)
    # A network of one unit may bend sharply.
    error = 1e-4 if isinstance(leaves, NeuralLeaves) and leaves.hidden == 1 else 1e-6
    assert_close(leaves.expect(lambda x: x**power, [0, 1]), expected, rtol=error, atol=error)
    single = leaves.float().expect(lambda x: x**power, [0, 1])
    assert single.dtype == torch.float32
    assert_close(single.double(), expected, rtol=1e-4, atol=1e-4)


def test_an_expectation_that_does_not_exist_is_infinite() -> None:
    for leaves in (NeuralLeaves(1, 3), SharedLeaves(1, 3, base="logistic")):
        assert (leaves.expect(lambda x: (40 * x).exp(), [0]) == torch.inf).all()


@pytest.mark.parametrize("family", [NeuralLeaves, SharedLeaves])
def test_start_survives_constant_and_empty_columns(family: type[ContinuousLeaves]) -> None:
    leaves = family(2, 3)  # type: ignore[call-arg]
    leaves.scale_to(torch.stack([torch.full((10,), 7.0), torch.full((10,), torch.nan)]))
    leaves.start(torch.tensor([[7.0] * 3, [0.0] * 3]))
    assert all(p.isfinite().all() for p in leaves.state_dict().values())
    assert leaves.evaluate(torch.tensor([[7.0], [0.0]]), [0, 1]).log_density.isfinite().all()


@pytest.mark.parametrize("paper", [False, True])
def test_starts_come_from_the_generator(leaves: ContinuousLeaves, paper: bool) -> None:
    rows = torch.randn(2, 3)
    states = []
    for seed in (1, 1, 2):
        generator = torch.Generator().manual_seed(seed)
        leaves.start_as_paper(generator) if paper else leaves.start(rows, generator)
        states.append(torch.cat([p.detach().flatten() for p in leaves.parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize(
    ("family", "wrong"),
    [(NeuralLeaves, {name: 0}) for name in ("columns", "width", "depth", "hidden")]
    + [(SharedLeaves, {name: 0}) for name in ("columns", "width", "hidden")]
    + [(SharedLeaves, wrong) for wrong in ({"base": "cauchy"}, {"min_scale": -0.1})]
    + [(SharedLeaves, {"min_scale": torch.nan})],
)
def test_wrong_options_are_named(family: type, wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        family(**{"columns": 1, "width": 1, **wrong})
