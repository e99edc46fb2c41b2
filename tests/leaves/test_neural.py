"""Neural leaves against their formulas in many digits, nearly flat ones, and their start."""

import mpmath
import pytest
import torch
from torch.testing import assert_close

from marginals.leaves import NeuralLeaves
from tests.laws.registry import generic_neural
from tests.leaves.reference import leaf_of

SHAPES = [(1, 1), (1, 3), (2, 2), (2, 5), (3, 1), (3, 3), (5, 2)]  # depth, hidden
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(params=SHAPES, ids=str)
def leaves(request: pytest.FixtureRequest) -> NeuralLeaves:
    return generic_neural(2, 3, *request.param)


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


@pytest.mark.parametrize("size", [0.0, -5.0, 5.0, -300.0, 300.0, -3000.0, 3000.0, -1e4, 1e4])
def test_intervals_keep_full_precision_in_both_tails(leaves: NeuralLeaves, size: float) -> None:
    """To log values of -1e4, down to widths of 1e-9: 1e-9 relative on the probability."""
    low = depth_of(leaves, size)
    for width in (1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e6):
        high = low + width
        value = leaves.log_interval(torch.tensor([[low]]), torch.tensor([[high]]), [0])
        with mpmath.workdps(100):
            exact = leaf_of(leaves, 0, 0).log_interval(low, high)
        assert value[0, 0, 0].item() == pytest.approx(float(exact), rel=0, abs=1e-9), width
        if size == 1e4:
            assert value[0, 0, 0] < -9000


@pytest.mark.parametrize("size", [0.0, -5.0, 5.0, -300.0, 300.0, -1e4, 1e4])
def test_intervals_in_float32(leaves: NeuralLeaves, size: float) -> None:
    """Bounds that float32 holds exactly enough: relative precision of the log value."""
    leaves = leaves.float()
    low = torch.tensor([[depth_of(leaves, size)]], dtype=torch.float32)
    for width in (1e-3, 1.0, 30.0):
        high = low + width * max(1.0, abs(low.item()) / 100)
        value = leaves.log_interval(low, high, [0])
        with mpmath.workdps(100):
            exact = leaf_of(leaves, 0, 0).log_interval(low.item(), high.item())
        assert value[0, 0, 0].item() == pytest.approx(float(exact), rel=5e-6, abs=5e-5), width


@torch.no_grad()
def bent(raw_gate: float) -> NeuralLeaves:
    """One leaf with one unit; a gate near -1 turns h + a tanh h into h^3 / 3 around its centre."""
    leaves = generic_neural(1, 1, 1, 1)
    leaves.gates[0].fill_(raw_gate)
    leaves.biases[0].zero_()
    leaves.location.zero_()
    leaves.scale.fill_(1.0)
    return leaves


GATES = [-2.0, -5.0, -8.0, -12.0, -17.0, -30.0]


@pytest.mark.parametrize(
    ("dtype", "raw_gate", "width"),
    [(torch.float64, gate, width) for gate in GATES for width in (1e-9, 1e-6, 1e-3, 1.0)]
    + [(torch.float32, gate, width) for gate in GATES[:4] for width in (1e-4, 1e-2, 1.0)],
)
def test_intervals_keep_their_precision_where_a_unit_is_nearly_flat(
    raw_gate: float, dtype: torch.dtype, width: float
) -> None:
    leaves = bent(raw_gate).to(dtype)
    places = [-width / 3] if dtype == torch.float32 else [0.0, 1e-5, 1e-2, 0.5]
    low = torch.tensor([places], dtype=dtype)
    high = low + width
    value = leaves.log_interval(low, high, [0])[0, :, 0]
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    with mpmath.workdps(200):
        for found, start, end in zip(
            value.tolist(), low[0].tolist(), high[0].tolist(), strict=True
        ):
            exact = leaf_of(leaves, 0, 0).log_interval(start, end)
            assert found == pytest.approx(float(exact), rel=0, abs=tolerance)


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
