import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.cells import Cells, Truncation
from marginals.leaves import Leaves, SharedLeaves
from tests.laws.statistics import assert_uniform
from tests.leaves.test_scale import logarithms

BASES = ["normal", "logistic"]
DTYPES = [torch.float32, torch.float64]


@torch.no_grad()
def generic_shared(columns: int, width: int, hidden: int = 8, base: str = "normal") -> SharedLeaves:
    """Leaves off every start: bent scales, components of several sizes."""
    leaves = SharedLeaves(columns, width, hidden, base)
    for parameter in leaves.learned.parameters():
        parameter.add_(0.5 * torch.randn_like(parameter))
    leaves.learned.location.copy_(2 * torch.randn(columns))
    leaves.learned.unit.copy_(torch.empty(columns).uniform_(0.5, 3))
    leaves.spreads.add_(0.5 * torch.randn_like(leaves.spreads))
    return leaves


@pytest.fixture(params=[(b, h) for b in BASES for h in (1, 8)], ids=str)
def leaves(request: pytest.FixtureRequest) -> SharedLeaves:
    base, hidden = request.param
    return generic_shared(2, 3, hidden, base)


def cells(lower: Tensor, upper: Tensor) -> Cells:
    return Cells(lower, upper, tuple(range(len(lower))))


# Values -------------------------------------------------------------------------------------------


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


def test_the_mass_is_one(leaves: SharedLeaves) -> None:
    t = torch.linspace(-6.5, 6.5, 4001)
    x = leaves.learned.location[:, None] + leaves.learned.unit[:, None] * t.sinh()
    weight = leaves.learned.unit[:, None] * t.cosh() * (t[1] - t[0])
    density = leaves.evaluate(x, [0, 1]).log_density.exp()
    mass = (density * weight[..., None]).sum(1)
    assert_close(mass, torch.ones(2, 3), rtol=0, atol=1e-9)


def test_the_density_is_the_derivative_of_the_cdf(leaves: SharedLeaves) -> None:
    x = (3 * torch.randn(2, 9)).requires_grad_()
    out = leaves.evaluate(x, [0, 1])
    for component in range(3):
        (slope,) = torch.autograd.grad(
            out.log_cdf[..., component].exp().sum(), x, retain_graph=True
        )
        assert_close(out.log_density[..., component].exp(), slope, rtol=1e-10, atol=1e-14)


def test_an_interval_is_a_difference(leaves: SharedLeaves) -> None:
    lower = torch.randn(2, 9)
    upper = lower + torch.rand(2, 9) + 0.1
    low, high = leaves.evaluate(lower, [0, 1]), leaves.evaluate(upper, [0, 1])
    value = leaves.log_interval(lower, upper, [0, 1]).exp()
    assert_close(value, high.log_cdf.exp() - low.log_cdf.exp(), rtol=1e-10, atol=1e-14)
    assert_close(value, low.log_sf.exp() - high.log_sf.exp(), rtol=1e-10, atol=1e-14)


def test_a_narrow_interval_is_density_times_width(leaves: SharedLeaves) -> None:
    x = torch.linspace(-100, 100, 41).expand(2, -1)
    upper = x + 1e-10
    mass = leaves.log_interval(x, upper, [0, 1])
    density = leaves.evaluate(0.5 * (x + upper), [0, 1]).log_density
    assert_close(mass, density + (upper - x).log()[..., None], rtol=1e-13, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_far_finite_bound_leaves_the_near_one_alone(
    leaves: SharedLeaves, dtype: torch.dtype
) -> None:
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


def test_log_values_of_each_kind_of_cell(leaves: SharedLeaves) -> None:
    inf, nan = torch.inf, torch.nan
    lower = torch.tensor([[0.5, -1.0, -inf, 0.5, nan, -inf], [nan, 0.0, -inf, 2.0, 1.0, -3.0]])
    upper = torch.tensor([[0.5, 1.0, 0.5, inf, nan, inf], [nan, 0.0, 1.0, 3.0, inf, -3.0]])
    value = leaves.log_values(cells(lower, upper), [0, 1])
    at = leaves.evaluate(torch.tensor([[0.5, -3.0], [0.0, -3.0]]), [0, 1])
    assert_close(value[0, 0], at.log_density[0, 0])
    assert_close(value[0, 1], leaves.log_interval(lower[:1, 1:2], upper[:1, 1:2], [0])[0, 0])
    assert_close(value[0, 2], at.log_cdf[0, 0])
    assert_close(value[0, 3], at.log_sf[0, 0])
    assert torch.equal(value[0, 4:], torch.zeros(2, 3))
    assert torch.equal(value[1, 0], torch.zeros(3))
    assert_close(value[1, 1], at.log_density[1, 0])
    assert_close(value[1, 5], at.log_density[1, 1])
    assert_close(leaves.log_values(Cells(lower[1:], upper[1:], (0,)), [1]), value[1:])
    some = upper.clone()
    some[0] = lower[0]
    assert_close(leaves.log_values(Cells(lower, some, (1,)), [0, 1])[1], value[1])


def test_columns_in_any_order(leaves: SharedLeaves) -> None:
    x = torch.randn(2, 7)
    both = leaves.log_values(Cells(x, x), [0, 1])
    back = leaves.log_values(Cells(x.flip(0), x.flip(0)), [1, 0])
    assert_close(back, both.flip(0), rtol=1e-14, atol=1e-14)


def test_values_at_infinity(leaves: SharedLeaves) -> None:
    x = torch.tensor([[-torch.inf, torch.inf]])
    out = leaves.evaluate(x, [0])
    assert (out.log_cdf[0, 0] == -torch.inf).all()
    assert (out.log_cdf[0, 1] == 0).all()
    assert (out.log_sf[0, 0] == 0).all()
    assert (out.log_density == -torch.inf).all()
    assert torch.equal(leaves.unscale(leaves.scale(x, [0])[0], [0]), x)


# Gradients ----------------------------------------------------------------------------------------


def test_gradients_of_values_and_intervals(leaves: SharedLeaves) -> None:
    x = torch.randn(2, 3, requires_grad=True)
    upper = (x.detach() + torch.rand(2, 3) + 0.1).requires_grad_()

    # The parameters are perturbed in place.
    def values(x: Tensor, upper: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        density = leaves.evaluate(x, [0, 1]).log_density
        return density, leaves.log_interval(x, upper, [0, 1])

    assert gradcheck(values, [x, upper, *leaves.parameters()])


def test_missing_and_open_cells_have_clean_gradients(leaves: SharedLeaves) -> None:
    inf, nan = torch.inf, torch.nan
    lower = torch.tensor([[nan, -inf, -inf, 0.0], [1.0, -1.0, nan, 0.0]], requires_grad=True)
    upper = torch.tensor([[nan, inf, 0.5, inf], [1.0, 1.0, nan, 1e-3]], requires_grad=True)
    leaves.log_values(cells(lower, upper), [0, 1]).sum().backward()
    for parameter in [*leaves.parameters(), lower, upper]:
        assert parameter.grad.isfinite().all()
    assert lower.grad[0, 0] == 0
    assert upper.grad[0, 2] > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("far", [50.0, -50.0, 1e6, -1e6])
def test_far_tails_are_finite_with_a_gradient(
    leaves: SharedLeaves, far: float, dtype: torch.dtype
) -> None:
    leaves = leaves.to(dtype)
    with torch.no_grad():
        leaves.spreads[:, 0] = -100.0  # as narrow as they come
    location, unit = leaves.learned.location, leaves.learned.unit
    x = (location + far * unit)[:, None].detach().requires_grad_()
    out = leaves.evaluate(x, [0, 1])
    mass = leaves.log_interval(x - 0.5 * unit[:, None], x + 0.5 * unit[:, None], [0, 1])
    for part in (out.log_cdf, out.log_sf, out.log_density, mass):
        assert part.isfinite().all()
        assert part.dtype == dtype
        leaves.zero_grad()
        x.grad = None
        part.sum().backward(retain_graph=True)
        assert x.grad.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in leaves.parameters())
    # Towards the centre probabilities grow.
    assert (x.grad * far < 0).all()
    assert (leaves.centres.grad * far > 0).all()


@pytest.mark.parametrize("far", [0.0, 2.0, 50.0, -1e6])
def test_float32_agrees_with_float64(leaves: SharedLeaves, far: float) -> None:
    leaves = leaves.float()
    x = (leaves.learned.location + far * leaves.learned.unit)[:, None]
    single = leaves.evaluate(x, [0, 1]).log_density
    mass = leaves.log_interval(x, x + leaves.learned.unit[:, None], [0, 1])
    leaves = leaves.double()
    x = x.double()
    wide = leaves.evaluate(x, [0, 1]).log_density
    assert_close(single.double(), wide, rtol=3e-5, atol=1e-5)
    expected = leaves.log_interval(x, x + leaves.learned.unit[:, None], [0, 1])
    if abs(far) < 100:  # beyond, float32 has lost the width itself
        assert_close(mass.double(), expected, rtol=3e-5, atol=1e-5)


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


# Quantiles, draws, expectations -------------------------------------------------------------------


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


def test_draws_follow_their_leaf(leaves: SharedLeaves) -> None:
    components = torch.randint(0, 3, (2, 3000))
    free = torch.full((2, 3000), torch.nan)
    x = leaves.sample(components, [0, 1], Truncation(free, free))
    u = leaves.evaluate(x, [0, 1]).log_cdf.exp().gather(2, components[..., None])[..., 0]
    for column in range(2):
        assert_uniform(u[column].detach())


@pytest.mark.parametrize("bounds", [(-1.0, 1.5), (40.0, 41.0), (-60.0, -59.999), (-60.0, None)])
def test_truncated_draws_follow_their_leaf(
    leaves: SharedLeaves, bounds: tuple[float, float | None]
) -> None:
    lower = torch.full((2, 3000), bounds[0])
    upper = torch.full((2, 3000), torch.inf if bounds[1] is None else bounds[1])
    components = torch.randint(0, 3, (2, 3000))
    x = leaves.sample(components, [0, 1], Truncation(lower, upper))
    assert ((x > lower) & (x <= upper)).all()
    part = leaves.log_interval(lower, x, [0, 1]) - leaves.log_interval(lower, upper, [0, 1])
    u = part.exp().gather(2, components[..., None])[..., 0].detach()
    for column in range(2):
        assert_uniform(u[column])


def test_exact_cells_are_kept_by_draws(leaves: SharedLeaves) -> None:
    lower = torch.tensor([[1.5, torch.nan], [0.0, -1.0]])
    upper = torch.tensor([[1.5, torch.nan], [1.0, -1.0]])
    x = leaves.sample(torch.zeros(2, 2, dtype=torch.long), [0, 1], Truncation(lower, upper))
    assert x[0, 0] == 1.5
    assert x[1, 1] == -1.0
    assert x.isfinite().all()


@pytest.mark.parametrize("power", [0, 1, 2])
def test_moments(leaves: SharedLeaves, power: int) -> None:
    """Against the density integrated over x."""
    t = torch.linspace(-6.5, 6.5, 8001)
    x = leaves.learned.location[:, None] + leaves.learned.unit[:, None] * t.sinh()
    weight = leaves.learned.unit[:, None] * t.cosh() * (t[1] - t[0])
    density = leaves.evaluate(x, [0, 1]).log_density.exp()
    expected = (density * (weight * x**power)[..., None]).sum(1)
    found = leaves.expect(lambda x: x**power, [0, 1])
    assert_close(found, expected, rtol=1e-6, atol=1e-6)
    single = leaves.float().expect(lambda x: x**power, [0, 1])
    assert single.dtype == torch.float32
    assert_close(single.double(), expected, rtol=1e-4, atol=1e-4)


def test_means_of_exponentials() -> None:
    """On a straight scale: E exp(c X) of a normal; of a logistic it may not exist."""
    leaves = SharedLeaves(1, 3)
    leaves.start(torch.tensor([[-1.0, 0.0, 2.0]]))
    leaves.learned.start(noise=0.0)
    mean = leaves.unscale(leaves.locations([0]), [0])
    sd = leaves.log_scales([0]).exp()
    for c in (0.5, 3.0, 24.0):
        found = leaves.expect(lambda x, c=c: (c * x).exp(), [0])
        assert_close(found, (c * mean + 0.5 * (c * sd) ** 2).exp(), rtol=1e-9, atol=0)
    assert (leaves.expect(lambda x: (x * x).exp() ** 2, [0]) == torch.inf).all()
    logistic = SharedLeaves(1, 3, base="logistic")
    assert (logistic.expect(lambda x: (40 * x).exp(), [0]) == torch.inf).all()


# Starting points ----------------------------------------------------------------------------------


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


def test_start_survives_constant_and_empty_columns() -> None:
    leaves = SharedLeaves(2, 3)
    leaves.scale_to(torch.stack([torch.full((10,), 7.0), torch.full((10,), torch.nan)]))
    leaves.start(torch.tensor([[7.0] * 3, [0.0] * 3]))
    assert all(p.isfinite().all() for p in leaves.state_dict().values())
    assert leaves.evaluate(torch.tensor([[7.0], [0.0]]), [0, 1]).log_density.isfinite().all()


@pytest.mark.parametrize("paper", [False, True])
def test_starts_come_from_the_generator(leaves: SharedLeaves, paper: bool) -> None:
    rows = torch.randn(2, 3)
    states = []
    for seed in (1, 1, 2):
        generator = torch.Generator().manual_seed(seed)
        leaves.start_as_paper(generator) if paper else leaves.start(rows, generator)
        states.append(torch.cat([p.detach().flatten() for p in leaves.parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_rebuilt_from_its_configuration(leaves: SharedLeaves) -> None:
    whole = Leaves([leaves], [(0, 1)])
    again = Leaves.from_config(whole.config())
    again.load_state_dict(whole.state_dict())
    x = torch.randn(2, 5)
    both = (part.log_values(Cells(x, x), [0, 1]) for part in (whole, again))
    assert torch.equal(*both)
    assert again.family_of(0)[0].config() == leaves.config()
    assert "min_scale=0.01" in repr(leaves)
    assert leaves.row_cost() > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": 0},
        {"width": 0},
        {"hidden": 0},
        {"base": "cauchy"},
        {"min_scale": -0.1},
        {"min_scale": math.nan},
    ],
)
def test_wrong_options_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        SharedLeaves(**{"columns": 1, "width": 1, **wrong})


def test_a_bandwidth_below_the_least_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`bandwidth`.*got 0.2"):
        SharedLeaves(1, 1, min_scale=0.3).start(torch.zeros(1, 1), bandwidth=0.2)
