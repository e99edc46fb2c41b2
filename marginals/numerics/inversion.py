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
_SECTIONS, _FEW_ELEMENTS = 17, 1024


def invert_monotone(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    target: Tensor,
    low: Tensor,
    high: Tensor,
    noise: float = 0.0,
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

    >>> target, end = torch.tensor([-8.0, 27.0]), torch.full((2,), 9.0)
    >>> invert_monotone(lambda x: (x**3, 3 * x**2), target, -end, end)
    tensor([-2.,  3.])
    """
    x = 0.5 * low + 0.5 * high
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


def narrow_bracket(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], target: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """Shrink the brackets of a few solutions by 16 in one evaluation of `function`.

    Args:
        function: as in `invert_monotone`; accepts points with one more leading dim.
        target, low, high: as in `invert_monotone`.

    Returns:
        Brackets; those of more than a thousand elements are left as they are.
    """
    if target.numel() > _FEW_ELEMENTS:
        return low, high
    steps = torch.linspace(0, 1, _SECTIONS, dtype=low.dtype, device=low.device)
    steps = steps.view(-1, *(1,) * low.ndim)
    points = low * (1 - steps) + high * steps  # (T, ...), no overflow
    points[0], points[-1] = low, high
    below = function(points[1:-1])[0] <= target  # (T - 2, ...)
    place = below.to(torch.int64).sum(0, keepdim=True)
    return points.gather(0, place)[0], points.gather(0, place + 1)[0]
