"""The toy densities, as the authors' script defines them, and their values where known."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import logsumexp

Rows = np.ndarray[Any, np.dtype[np.float64]]
Draw = Callable[[int, np.random.Generator], Rows]


@final
@dataclass(frozen=True)
class Toy:
    """A density of three columns.

    Args:
        draw: a number of rows and a generator to rows (N, 3).
        logpdf: rows to log densities (N,), None where there is no closed form.
        third: the ends of the third axis of the figures; the others are from -4 to 4.
    """

    draw: Draw
    logpdf: Callable[[Rows], Rows] | None
    third: float


def draw_spirals(count: int, generator: np.random.Generator) -> Rows:
    """Draw from two spirals, one the mirror image of the other, that part along the third axis."""
    angle = np.sqrt(generator.random(count)) * 3 * math.pi
    x = -np.cos(angle) * angle + generator.random(count) / 2
    y = np.sin(angle) * angle + generator.random(count) / 2
    arm = np.stack([x, y, np.hypot(x, y) / 3], 1) / 3  # (N, 3)
    side = generator.choice([-1.0, 1.0], (count, 1))
    return side * arm + 0.1 * generator.normal(size=(count, 3))


_HALF = math.sqrt(0.5)
_CENTRES = (4 / 1.414) * np.array(
    [
        *([1, 0, -1], [-1, 0, 0.14], [0, 1, -0.43], [0, -1, 0.71]),
        *([_HALF, _HALF, -0.71], [_HALF, -_HALF, 1]),
        *([-_HALF, _HALF, -0.14], [-_HALF, -_HALF, 0.43]),
    ]
)  # (8, 3)
_SPREAD = 0.5 / 1.414


def draw_gaussians(count: int, generator: np.random.Generator) -> Rows:
    """Draw from eight Gaussians on a ring, at different heights."""
    centres = _CENTRES[generator.integers(8, size=count)]
    drawn: Rows = centres + _SPREAD * generator.normal(size=(count, 3))
    return drawn


def logpdf_gaussians(rows: Rows) -> Rows:
    """Return the log density of the eight Gaussians."""
    squares = (((rows[:, None] - _CENTRES) / _SPREAD) ** 2).sum(-1)  # (N, 8)
    constant = math.log(8) + 3 * math.log(_SPREAD * math.sqrt(2 * math.pi))
    found: Rows = logsumexp(-squares / 2, axis=1) - constant
    return found


def draw_checkerboard(count: int, generator: np.random.Generator) -> Rows:
    """Draw from cubes of side 2 in [-4, 4]^3: those whose places are all even, or all odd."""
    odd = generator.integers(2, size=(count, 1))
    places = 2 * generator.integers(2, size=(count, 3)) + odd
    return 2 * (places + generator.random((count, 3))) - 4


def logpdf_checkerboard(rows: Rows) -> Rows:
    """Return the log density of the checkerboard: 16 cubes of volume 8, equally likely."""
    places = np.floor((rows + 4) / 2)
    inside = ((places >= 0) & (places < 4)).all(1)
    alike = (places % 2 == places[:, :1] % 2).all(1)
    return np.where(inside & alike, -math.log(16 * 8), -np.inf)


TOYS = {
    "spirals": Toy(draw_spirals, None, 2.0),
    "gaussians": Toy(draw_gaussians, logpdf_gaussians, 4.0),
    "checkerboard": Toy(draw_checkerboard, logpdf_checkerboard, 4.0),
}
