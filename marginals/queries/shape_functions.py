"""Functions of uniforms whose correlations show dependence: pieces, and shapes by degree."""

from numbers import Integral

import torch
from torch import Tensor


def trimmed_functions(u: Tensor, q: int, trim: float, ramp: float) -> Tensor:
    """Return q orthonormal functions of uniforms (...), of mean 0 and variance 1, (..., q).

    [trim, 1 - trim] is cut into q equal pieces. On its piece, function k is c w(u) (u - m), where m
    is the middle and the weight w rises from 0 to 1 within `ramp` of both ends; elsewhere it is 0,
    so that no two overlap. q = 1 gives a trimmed Spearman correlation.
    """
    half = (0.5 - trim) / q
    middles = trim + half * (2 * torch.arange(q, dtype=u.dtype, device=u.device) + 1)
    away = u[..., None] - middles
    weight = ((half - away.abs()) / ramp).clamp(0, 1)
    flat = (half - ramp) ** 3 / 3
    ramps = half**2 * ramp / 3 - half * ramp**2 / 2 + ramp**3 / 5
    # The integral of the square over both halves of the piece.
    return weight * away / (2 * (flat + ramps)) ** 0.5


def shape_functions(u: Tensor, degrees: int) -> Tensor:
    """Return the Legendre polynomials of uniforms (...), of mean 0 and variance 1, (..., degrees).

    Degree 1 rises, degree 2 falls and rises, degree 3 rises, falls and rises, and so on. All are
    bounded, so that rows far out count no more than a few others.

    >>> shape_functions(torch.tensor([0.0, 0.5, 1.0]), 2)
    tensor([[-1.7321,  2.2361],
            [ 0.0000, -1.1180],
            [ 1.7321,  2.2361]])
    """
    x = 2 * u - 1
    found = [torch.ones_like(x), x]
    for k in range(1, degrees):  # Bonnet's recursion
        found.append(((2 * k + 1) * x * found[k] - k * found[k - 1]) / (k + 1))
    return torch.stack([(2 * k + 1) ** 0.5 * found[k] for k in range(1, degrees + 1)], -1)


def check_functions(q: int, trim: float, ramp: float) -> None:
    """Raise unless q functions fit between the trimmed ends."""
    if not isinstance(q, Integral) or q < 1:
        raise ValueError(
            f"Expected `q` to be a number of functions, 1 or more, or None; got {q!r}."
        )
    if not 0 <= trim < 0.5:
        raise ValueError(f"Expected `trim` to be at least 0 and below 0.5; got {trim}.")
    widest = (0.5 - trim) / q
    if not 0 < ramp <= widest:
        raise ValueError(
            f"Expected `ramp` to be positive and at most {widest:.3g}, half the width of a piece; "
            f"got {ramp}. Give a smaller ramp or a smaller `q`."
        )
