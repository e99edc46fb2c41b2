"""Targets whose CDFs are known in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import ndtr, ndtri

from experiments.copulas.truth import clayton_cdf, draw_clayton

Rows = np.ndarray[Any, np.dtype[np.float64]]


@final
@dataclass(frozen=True)
class Target:
    """A distribution of one or two columns.

    Args:
        label: what it is.
        columns: their number.
        end: CDFs are compared from -end to end in each column.
        draw: a number of rows and a generator to rows (N, D).
        cdf: points (N, D) to values (N,).
    """

    label: str
    columns: int
    end: float
    draw: Callable[[int, np.random.Generator], Rows]
    cdf: Callable[[Rows], Rows]


CLAWS = np.arange(5) / 2 - 1  # centres of the narrow modes
BOXES = ((-2.0, -1.0, 0.5), (0.0, 0.5, 0.3), (1.5, 2.0, 0.2))  # ends and mass of each
SIDE = 4  # squares along a side of the board, each of side 1


def _draw_claw(count: int, generator: np.random.Generator) -> Rows:
    wide = generator.random(count) < 0.5
    narrow = CLAWS[generator.integers(5, size=count)] + 0.1 * generator.normal(size=count)
    return np.where(wide, generator.normal(size=count), narrow)[:, None]


def _cdf_claw(points: Rows) -> Rows:
    found: Rows = 0.5 * ndtr(points[:, 0]) + 0.1 * ndtr((points - CLAWS) / 0.1).sum(1)
    return found


def _draw_boxes(count: int, generator: np.random.Generator) -> Rows:
    low, high, mass = (np.array(each) for each in zip(*BOXES, strict=True))
    which = generator.choice(len(BOXES), count, p=mass)
    return (low[which] + (high - low)[which] * generator.random(count))[:, None]


def _cdf_boxes(points: Rows) -> Rows:
    low, high, mass = (np.array(each) for each in zip(*BOXES, strict=True))
    found: Rows = (mass * np.clip((points - low) / (high - low), 0, 1)).sum(1)
    return found


def _draw_clayton(count: int, generator: np.random.Generator) -> Rows:
    drawn: Rows = ndtri(draw_clayton(count, generator))
    return drawn


def _cdf_clayton(points: Rows) -> Rows:
    u, v = ndtr(points).T
    with np.errstate(divide="ignore"):  # at 0, where the copula is 0
        found: Rows = clayton_cdf(u, v)
    return found


def _draw_board(count: int, generator: np.random.Generator) -> Rows:
    first = generator.integers(SIDE, size=count)
    second = 2 * generator.integers(SIDE // 2, size=count) + first % 2
    places = np.stack([first, second], 1) + generator.random((count, 2))
    drawn: Rows = places - SIDE / 2
    return drawn


def _cdf_board(points: Rows) -> Rows:
    squares = np.arange(SIDE) - SIDE / 2  # where they begin
    x, y = (np.clip(points[:, [j]] - squares, 0, 1) for j in range(2))  # (N, SIDE), lengths
    found: Rows = sum(x[:, i::2].sum(1) * y[:, i::2].sum(1) for i in range(2)) / (SIDE**2 / 2)
    return found


TARGETS = {
    "claw": Target("claw: a normal and five narrow ones", 1, 4.0, _draw_claw, _cdf_claw),
    "boxes": Target("three boxes", 1, 3.0, _draw_boxes, _cdf_boxes),
    "clayton": Target("Clayton's copula, normal columns", 2, 4.0, _draw_clayton, _cdf_clayton),
    "board": Target("checkerboard of two columns", 2, 2.5, _draw_board, _cdf_board),
}
