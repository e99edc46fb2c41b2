import mpmath
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from marginals.cells import Cells
from marginals.leaves import NeuralLeaves
from tests.laws.registry import generic_neural
from tests.leaves.reference import leaf_of

SHAPES = [(1, 1), (1, 3), (2, 2), (2, 5), (3, 1), (3, 3), (5, 2)]  # depth, hidden
DTYPES = [torch.float32, torch.float64]


def cells(lower: Tensor, upper: Tensor) -> Cells:
    return Cells(lower, upper, tuple(range(len(lower))))


@pytest.fixture(params=SHAPES, ids=str)
def leaves(request: pytest.FixtureRequest) -> NeuralLeaves:
    return generic_neural(2, 3, *request.param)


# Against many digits ------------------------------------------------------------------------------


def test_evaluate_against_many_digits(leaves: NeuralLeaves) -> None:
    points = [-30.0, -3.0, -0.1, 0.0, 0.7, 2.0, 5.0, 40.0]
    x = torch.tensor([points, points])
    out = leaves.evaluate(x, [0, 1])
    with mpmath.workdps(150):
        for column in range(2):
            for component in range(3):
                leaf = leaf_of(leaves, column, component)
                for row, point in enumerate(points):
                    place = (column, row, component)
                    for part, exact in [
                        (out.log_cdf, mpmath.log(leaf.cdf(point))),
                        (out.log_sf, mpmath.log(leaf.sf(point))),
                        (out.log_density, leaf.log_density(point)),
                    ]:
                        expected = pytest.approx(float(exact), rel=1e-13, abs=1e-13)
                        assert part[place].item() == expected


def depth_of(leaves: NeuralLeaves, log_value: float, component: int = 0) -> float:
    """Return about where in column 0 the network's output is `log_value`, by its outer slope."""
    far = torch.tensor([[1e9]])
    _, log_slope = leaves.value_and_slope(far[..., None], [0])
    slope = log_slope[0, 0, component].exp().item()
    return log_value / slope + leaves.location[0].item()


@pytest.mark.parametrize("width", [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("size", [0.0, -5.0, 5.0, -300.0, 300.0, -3000.0, 3000.0, -1e4, 1e4])
def test_intervals_keep_full_precision_in_both_tails(
    leaves: NeuralLeaves, size: float, width: float
) -> None:
    """To log values of -1e4, down to widths of 1e-9: 1e-9 relative on the probability."""
    low = depth_of(leaves, size)
    high = low + width
    value = leaves.log_interval(torch.tensor([[low]]), torch.tensor([[high]]), [0])
    with mpmath.workdps(100):
        exact = leaf_of(leaves, 0, 0).log_interval(low, high)
    assert value[0, 0, 0].item() == pytest.approx(float(exact), rel=0, abs=1e-9)
    if abs(size) == 1e4 and size > 0:
        assert value[0, 0, 0] < -9000


@pytest.mark.parametrize("width", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("size", [0.0, -5.0, 5.0, -300.0, 300.0, -1e4, 1e4])
def test_intervals_in_float32(leaves: NeuralLeaves, size: float, width: float) -> None:
    """Bounds that float32 holds exactly enough: relative precision of the log value."""
    leaves = leaves.float()
    low = torch.tensor([[depth_of(leaves, size)]], dtype=torch.float32)
    high = low + width * max(1.0, abs(low.item()) / 100)
    value = leaves.log_interval(low, high, [0])
    with mpmath.workdps(100):
        exact = leaf_of(leaves, 0, 0).log_interval(low.item(), high.item())
    assert value[0, 0, 0].item() == pytest.approx(float(exact), rel=5e-6, abs=5e-5)


@pytest.mark.parametrize("raw_gate", [-2.0, -5.0, -8.0, -12.0, -17.0, -30.0])
@pytest.mark.parametrize("width", [1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("at", [0.0, 1e-5, 1e-2, 0.5])
def test_intervals_keep_their_precision_where_a_unit_is_nearly_flat(
    raw_gate: float, width: float, at: float
) -> None:
    """A gate near -1 turns h + a tanh h into h^3 / 3 around the unit's centre."""
    leaves = generic_neural(1, 1, 1, 1)
    with torch.no_grad():
        leaves.gates[0].fill_(raw_gate)
        leaves.biases[0].zero_()
        leaves.location.zero_()
        leaves.scale.fill_(1.0)
    high = at + width
    value = leaves.log_interval(torch.tensor([[at]]), torch.tensor([[high]]), [0])
    with mpmath.workdps(200):
        exact = leaf_of(leaves, 0, 0).log_interval(at, high)
    assert value.item() == pytest.approx(float(exact), rel=0, abs=1e-9)


@pytest.mark.parametrize("raw_gate", [-2.0, -5.0, -8.0, -12.0])
@pytest.mark.parametrize("width", [1e-4, 1e-2, 1.0])
def test_float32_intervals_where_a_unit_is_nearly_flat(raw_gate: float, width: float) -> None:
    leaves = generic_neural(1, 1, 1, 1)
    with torch.no_grad():
        leaves.gates[0].fill_(raw_gate)
        leaves.biases[0].zero_()
        leaves.location.zero_()
        leaves.scale.fill_(1.0)
    leaves = leaves.float()
    low = torch.tensor([[-width / 3]], dtype=torch.float32)
    high = low + width
    value = leaves.log_interval(low, high, [0])
    with mpmath.workdps(100):
        exact = leaf_of(leaves, 0, 0).log_interval(low.item(), high.item())
    assert value.item() == pytest.approx(float(exact), rel=0, abs=1e-3)


def test_a_narrow_interval_is_density_times_width(leaves: NeuralLeaves) -> None:
    x = torch.linspace(-20, 20, 41)[None]
    upper = x + 1e-9
    mass = leaves.log_interval(x, upper, [0])
    density = leaves.evaluate(x, [0]).log_density
    assert_close(mass, density + (upper - x).log()[..., None], rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_far_finite_bound_leaves_the_near_one_alone(
    leaves: NeuralLeaves, dtype: torch.dtype
) -> None:
    """(-1e6, x] has the probability of (-inf, x], however large the other bound."""
    leaves = leaves.to(dtype)
    x = torch.tensor([[-1.0, 0.3, 2.5]], dtype=dtype)
    infinite = leaves.log_interval(torch.full_like(x, -torch.inf), x, [0])
    above = leaves.log_interval(x, torch.full_like(x, torch.inf), [0])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for size in [1e6, 1e12, 1e30]:
        far = torch.full_like(x, size)
        assert_close(leaves.log_interval(-far, x, [0]), infinite, rtol=tolerance, atol=tolerance)
        assert_close(leaves.log_interval(x, far, [0]), above, rtol=tolerance, atol=tolerance)


# Cells --------------------------------------------------------------------------------------------


def test_log_values_of_each_kind_of_cell(leaves: NeuralLeaves) -> None:
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


def test_columns_in_any_order_and_number(leaves: NeuralLeaves) -> None:
    x = torch.randn(2, 7)
    both = leaves.log_values(Cells(x, x), [0, 1])
    back = leaves.log_values(Cells(x.flip(0), x.flip(0)), [1, 0])
    # Up to the rounding of fused operations, which depends on the place in memory.
    assert_close(back, both.flip(0), rtol=1e-14, atol=1e-14)
    assert_close(leaves.log_values(Cells(x[1:], x[1:]), [1]), both[1:], rtol=1e-14, atol=1e-14)


def test_only_the_columns_named_hold_intervals(leaves: NeuralLeaves) -> None:
    lower = torch.randn(2, 5)
    upper = lower.clone()
    upper[1] += 1.0
    every = leaves.log_values(cells(lower, upper), [0, 1])
    some = leaves.log_values(Cells(lower, upper, (1,)), [0, 1])
    assert_close(some, every, rtol=0, atol=1e-15)


def test_gradients_of_values_and_intervals(leaves: NeuralLeaves) -> None:
    x = torch.randn(2, 3, requires_grad=True)
    assert gradcheck(lambda x: leaves.evaluate(x, [0, 1]).log_density, x)
    upper = (x.detach() + torch.rand(2, 3) + 0.1).requires_grad_()
    assert gradcheck(lambda a, b: leaves.log_interval(a, b, [0, 1]), [x, upper])


def test_missing_and_open_cells_have_clean_gradients(leaves: NeuralLeaves) -> None:
    inf, nan = torch.inf, torch.nan
    lower = torch.tensor([[nan, -inf, -inf, 0.0], [1.0, -1.0, nan, 0.0]], requires_grad=True)
    upper = torch.tensor([[nan, inf, 0.5, inf], [1.0, 1.0, nan, 1e-3]], requires_grad=True)
    value = leaves.log_values(cells(lower, upper), [0, 1])
    value.sum().backward()
    for parameter in [*leaves.parameters(), lower, upper]:
        assert parameter.grad.isfinite().all()
    assert lower.grad[0, 0] == 0
    assert upper.grad[0, 2] > 0


# Far out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("far", [50.0, -50.0, 1e6, -1e6])
def test_far_tails_are_finite_with_a_gradient(
    leaves: NeuralLeaves, far: float, dtype: torch.dtype
) -> None:
    leaves = leaves.to(dtype)
    x = (leaves.location + far * leaves.scale)[:, None].detach().requires_grad_()
    out = leaves.evaluate(x, [0, 1])
    for part in (out.log_cdf, out.log_sf, out.log_density):
        assert part.isfinite().all()
        assert part.dtype == dtype
    out.log_density.sum().backward()
    assert x.grad.isfinite().all()
    # Towards the centre the density grows.
    assert (x.grad * far < 0).all()
    for parameter in leaves.parameters():
        assert parameter.grad.isfinite().all()
    assert (leaves.biases[-1].grad != 0).all()
    assert all((weight.grad != 0).all() for weight in leaves.weights)


@pytest.mark.parametrize("far", [50.0, 1e6])
def test_far_tails_in_float32_agree_with_float64(leaves: NeuralLeaves, far: float) -> None:
    x = (leaves.location + far * leaves.scale)[:, None]
    wide = leaves.evaluate(x, [0, 1]).log_density
    single = leaves.float().evaluate(x.float(), [0, 1]).log_density
    assert_close(single.double(), wide, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearly_flat_leaves_keep_a_finite_log_density(dtype: torch.dtype) -> None:
    """Weights of e^-200: the slope underflows in float32, its logarithm does not."""
    leaves = generic_neural(1, 2, 2, 2).to(dtype)
    with torch.no_grad():
        for weight in leaves.weights:
            weight.fill_(-20.0)
    x = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    out = leaves.evaluate(x, [0])
    assert out.log_density.isfinite().all()
    assert out.log_density.max() < -500
    out.log_density.sum().backward()
    for weight in leaves.weights:
        assert weight.grad.isfinite().all()
        assert (weight.grad != 0).all()


# Starting points ----------------------------------------------------------------------------------


def test_start_puts_the_medians_on_the_rows(leaves: NeuralLeaves) -> None:
    rows = 5 * torch.randn(2, 3) + 40
    data = 3 * torch.randn(2, 1000) + 40
    data[0, :100] = torch.nan
    leaves.scale_to(data)
    leaves.start(rows)
    assert_close(leaves.location, data.nanmean(1))
    for component in range(3):
        at = leaves.evaluate(rows[:, [component]], [0, 1])
        assert_close(at.log_cdf[..., component].exp(), torch.full((2, 1), 0.5))
    # A kernel of a quarter of a standard deviation: narrow, and not a needle.
    levels = torch.tensor([0.1, 0.9]).reshape(1, 1, 2)
    weights = torch.where(torch.eye(3, dtype=torch.bool), 0.0, -torch.inf).expand(2, 3, 3)
    ends = leaves.invert(
        levels.log().expand(2, 3, 2), torch.log1p(-levels).expand(2, 3, 2), weights, [0, 1]
    )
    spread = (ends[..., 1] - ends[..., 0]) / 3
    assert (spread > 0.3).all()
    assert (spread < 4.0).all()


def test_start_survives_constant_and_empty_columns() -> None:
    leaves = NeuralLeaves(2, 3)
    data = torch.stack([torch.full((10,), 7.0), torch.full((10,), torch.nan)])
    leaves.scale_to(data)
    leaves.start(torch.tensor([[7.0] * 3, [0.0] * 3]))
    assert all(p.isfinite().all() for p in leaves.state_dict().values())
    x = torch.tensor([[7.0], [0.0]])
    assert leaves.evaluate(x, [0, 1]).log_density.isfinite().all()


def test_start_comes_from_the_generator(leaves: NeuralLeaves) -> None:
    rows = torch.randn(2, 3)
    states = []
    for seed in (1, 1, 2):
        leaves.start(rows, torch.Generator().manual_seed(seed))
        states.append(torch.cat([p.detach().flatten() for p in leaves.parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize("wrong", [{"columns": 0}, {"width": 0}, {"depth": 0}, {"hidden": 0}])
def test_sizes_must_be_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NeuralLeaves(**{"columns": 1, "width": 1, **wrong})
