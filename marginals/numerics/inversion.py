"""Inverting increasing functions by Newton's method inside a bracket."""

from collections.abc import Callable

import torch
from torch import Tensor

# Bisection alone shrinks a bracket of all floats to the smallest in about 2100 steps; Newton's
# method takes 4 to 8. The bound only guarantees that the loop ends.
MAX_ITERATIONS = 2200
# Units of rounding by which sums over many components may be off.
NOISE_OF_SUMS = 64.0
# Points of a bracket that are evaluated at once, and the most elements for which that pays: few
# elements take as long as one.
_SECTIONS, FEW_ELEMENTS = 65, 1024
# Brackets in which the function changes by less are left to Newton's method; others are narrowed
# a few times, which shrinks them by 1e9.
_SMALL_CHANGE, _MOST_NARROWINGS = 0.5, 5


def invert_monotone(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    target: Tensor,
    low: Tensor,
    high: Tensor,
    noise: float = 0.0,
    start: Tensor | None = None,
) -> Tensor:
    r"""Solve `function(x) = target` for every element at once.

    A step is Newton's if it stays inside the bracket and the last step at least halved the
    residual; otherwise it bisects the bracket. Every step therefore halves the residual or the
    bracket, and the loop ends with a residual at rounding level or a bracket of adjacent floats.

    Args:
        function: returns the value and the derivative of an increasing function at x.
        target: the values to reach.
        low, high: brackets of the solutions, `function(low) <= target <= function(high)`.
        noise: units of rounding that the values may be off by: a residual within them that does not
            shrink any more is good enough.
        start: the first points, inside the brackets; by default their middles.

    >>> target, end = torch.tensor([-8.0, 27.0]), torch.full((2,), 9.0)
    >>> invert_monotone(lambda x: (x**3, 3 * x**2), target, -end, end)
    tensor([-2.,  3.])
    """
    x = 0.5 * low + 0.5 * high if start is None else start
    previous = torch.full_like(target, torch.inf)
    for _ in range(MAX_ITERATIONS):
        value, slope = function(x)
        residual = value - target
        # Of the function's own dtype, which may be coarser than that of the points.
        rounding = torch.finfo(value.dtype).eps * (1 + target.abs())
        low = torch.where(residual <= 0, x, low)
        high = torch.where(residual >= 0, x, high)
        middle = 0.5 * low + 0.5 * high
        closed = (middle <= low) | (middle >= high)
        stalled = (residual.abs() <= noise * rounding) & (residual.abs() > 0.5 * previous)
        done = (residual.abs() <= 4 * rounding) | closed | stalled
        if bool(done.all()):
            return x
        newton = x - residual / slope
        good = (newton > low) & (newton < high) & (residual.abs() <= 0.5 * previous)
        previous = residual.abs()
        x = torch.where(done, x, torch.where(good, newton, middle))
    raise RuntimeError(
        f"Expected the inversion to converge; got {int((~done).sum())} of {done.numel()} elements "
        "unsolved. The function is not increasing or not finite inside its bracket."
    )


def narrow_brackets(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], target: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Shrink the brackets of a few solutions until the function hardly changes inside of them.

    Args:
        function: as in `invert_monotone`; accepts points with one more leading dim.
        target, low, high: as in `invert_monotone`.

    Returns:
        Brackets, and points inside of them from which Newton's method takes a step or two.

    >>> target, end = torch.tensor([2.0]), torch.tensor([32.0])
    >>> narrow_brackets(lambda x: (x, torch.ones_like(x)), target, 0 * end, end)[2]
    tensor([2.])
    """
    for _ in range(_MOST_NARROWINGS):
        low, high, at_low, at_high = _narrowed(function, target, low, high)
        change = at_high[0] - at_low[0]
        if not bool((change > _SMALL_CHANGE).any()):
            break
    share = ((target - at_low[0]) / change).nan_to_num(0.5).clamp(0.0, 1.0).to(low.dtype)
    width = high - low
    line = low + width * share
    # The cubic with the inverse function's values and slopes at both ends, where it stays inside.
    first, last = ((change / slope).to(low.dtype) for slope in (at_low[1], at_high[1]))
    bent = 3 * width - 2 * first - last + share * (first + last - 2 * width)
    curve = low + share * (first + share * bent)
    return low, high, torch.where((curve > low) & (curve < high), curve, line)


def _narrowed(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], target: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shrink brackets by 64; also return the function's values and slopes at both ends."""
    steps = torch.linspace(0, 1, _SECTIONS, dtype=low.dtype, device=low.device)
    steps = steps.view(-1, *(1,) * low.ndim)
    points = low * (1 - steps) + high * steps  # (T, ...), no overflow
    points[0], points[-1] = low, high
    found = torch.stack(function(points))  # (2, T, ...)
    below = found[0, 1:-1] <= target  # (T - 2, ...)
    place = below.to(torch.int64).sum(0, keepdim=True)
    at_low, at_high = (found.gather(1, at.expand(2, *at.shape))[:, 0] for at in (place, place + 1))
    return points.gather(0, place)[0], points.gather(0, place + 1)[0], at_low, at_high
