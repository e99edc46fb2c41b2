"""Safeguarded Newton ends on every increasing function, within a bounded number of steps.

The functions below defeat Newton's steps in every way we know of; each such step then halves the
bracket. And the answer is right: the residual is at rounding level, or the two floats next to the
answer enclose the solution, so no better float exists.
"""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from marginals.numerics import invert_monotone
from marginals.numerics.inversion import MAX_ITERATIONS

Function = Callable[[Tensor], tuple[Tensor, Tensor]]
DTYPES = [torch.float32, torch.float64]


def solve(function: Function, target: Tensor, low: float, high: float) -> tuple[Tensor, int]:
    """Return the solution, checked, and the number of calls that it took."""
    calls = 0

    def counted(x: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal calls
        calls += 1
        return function(x)

    x = invert_monotone(
        counted, target, torch.full_like(target, low), torch.full_like(target, high)
    )
    residual = (function(x)[0] - target).abs()
    small = residual <= 4 * torch.finfo(x.dtype).eps * (1 + target.abs())
    inf = torch.tensor(torch.inf, dtype=x.dtype)
    below, above = function(x.nextafter(-inf))[0], function(x.nextafter(inf))[0]
    enclosed = (below <= target) & (target <= above)
    assert (small | enclosed).all(), residual
    return x, calls


def root(power: float) -> Function:
    """Its slope is infinite at 0: Newton's step from x jumps to -(power - 1) x."""
    return lambda x: (x.sign() * x.abs() ** (1 / power), x.abs() ** (1 / power - 1) / power)


def jump(at: float) -> Function:
    """The target lies inside a jump: nothing solves it, and the slope does not show the jump."""
    return lambda x: ((x > at).to(x.dtype) + 1e-3 * x, torch.full_like(x, 1e-3))


FUNCTIONS: dict[str, tuple[Function, list[float], int]] = {
    "line": (lambda x: (3 * x - 1, torch.full_like(x, 3.0)), [0.0, -1e5, 1e5], 4),
    "cube root": (root(3), [0.0, 1.0, -37.0], 250),
    "twentieth root": (root(20), [0.5, 1.0, -1.2], 200),
    "ninth power": (lambda x: (x**9, 9 * x**8), [0.0, 1e-12, 512.0], 250),
    "arctangent": (lambda x: (x.atan(), 1 / (1 + x * x)), [0.0, 1.0, -1.5, 1.57], 120),
    "saturating": (lambda x: (x / (1 + x.abs()), (1 + x.abs()) ** -2), [0.0, 0.999, -0.5], 120),
    "steep step": (
        lambda x: (torch.tanh(1e8 * (x - math.pi)), 1e8 / torch.cosh(1e8 * (x - math.pi)) ** 2),
        [0.3, -0.99],
        120,
    ),
    "jump": (jump(0.3), [0.5, -1.0, 2.0], 120),
    "jump at zero": (jump(0.0), [0.5], 1200),
    "nearly flat": (lambda x: (1e-12 * x + 3, torch.full_like(x, 1e-12)), [3.0, 3.0001], 4),
    "slope too small": (lambda x: (x, torch.full_like(x, 1e-30)), [0.2, -700.0], 80),
    "slope too large": (lambda x: (x, torch.full_like(x, 1e30)), [0.2, -700.0], 80),
    "slope of zero": (lambda x: (x, torch.zeros_like(x)), [0.2, -700.0], 80),
    "two plateaus": (
        lambda x: (
            torch.tanh(50 * (x + 9)) + torch.tanh(50 * (x - 9)) + 1e-9 * x,
            50 / torch.cosh(50 * (x + 9)) ** 2 + 50 / torch.cosh(50 * (x - 9)) ** 2 + 1e-9,
        ),
        [-1.5, 0.0, 1e-9, 1.5],
        120,
    ),
}
ON_THE_WHOLE_LINE = ["cube root", "twentieth root", "arctangent", "saturating", "jump"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_adversarial_functions(name: str, dtype: torch.dtype) -> None:
    function, targets, most = FUNCTIONS[name]
    x, calls = solve(function, torch.tensor(targets, dtype=dtype), -1e6, 1e9)
    assert calls <= most
    # An answer does not depend on what else is solved in the same call.
    for target, together in zip(targets, x, strict=True):
        alone, _ = solve(function, torch.tensor([target], dtype=dtype), -1e6, 1e9)
        assert torch.equal(alone[0], together)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*ON_THE_WHOLE_LINE, "nearly flat"])
def test_a_bracket_of_the_whole_line(name: str, dtype: torch.dtype) -> None:
    function, targets, _ = FUNCTIONS[name]
    limit = torch.finfo(dtype).max / 4
    _, calls = solve(function, torch.tensor(targets, dtype=dtype), -limit, limit)
    assert calls <= MAX_ITERATIONS


@pytest.mark.parametrize(
    ("function", "target"),
    [*((jump(at), 0.5) for at in (1e-3, 1e-60, 1e-200, 1e-300, -1e-300)), (root(20), 1e-3)],
)
def test_a_solution_next_to_zero_in_a_bracket_of_the_whole_line(
    function: Function, target: float
) -> None:
    """Pure bisection from 1e307 down to the smallest floats is the longest run possible."""
    limit = torch.finfo(torch.float64).max / 4
    solve(function, torch.tensor([target]), -limit, limit)


def test_a_solution_at_the_end_of_its_bracket() -> None:
    target = torch.tensor([2.0, 5.0, 3.0])
    low, high = torch.tensor([2.0, 2.0, 3.0]), torch.tensor([5.0, 5.0, 3.0])
    x = invert_monotone(lambda x: (x, torch.ones_like(x)), target, low, high)
    assert_close(x, target, rtol=0, atol=4 * 6 * torch.finfo(torch.float64).eps)
    assert ((low <= x) & (x <= high)).all()


def test_a_function_that_is_not_finite_is_reported() -> None:
    target, end = torch.tensor([0.5]), torch.tensor([1.0])
    with pytest.raises(RuntimeError, match="not increasing or not finite"):
        invert_monotone(lambda x: (x * torch.nan, x), target, -end, end)


steps = st.lists(
    st.tuples(st.floats(-6, 6), st.floats(-4, 6), st.floats(-100, 100)), min_size=1, max_size=5
)


@given(steps, st.floats(-6, 2), st.floats(-3, 3), st.sampled_from(DTYPES))
def test_random_sums_of_steps(
    steps: list[tuple[float, float, float]], slope: float, level: float, dtype: torch.dtype
) -> None:
    """A line plus steps of any height (1e-6 to 1e6) and steepness (1e-4 to 1e6), anywhere."""
    height, steepness, centre = torch.tensor(steps, dtype=dtype).T[..., None]
    height, steepness, rise = 10**height, 10**steepness, 10.0**slope

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.tanh(steepness * (x - centre))
        return (height * t).sum(0) + rise * x, (height * steepness * (1 - t * t)).sum(0) + rise

    target = torch.tensor([level * float(height.sum())], dtype=dtype)
    reach = 200 + 8 * float(height.sum()) / rise
    assert solve(function, target, -reach, reach)[1] <= 250
