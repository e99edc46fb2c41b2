"""Neighbouring cells of a lattice column, on the model's scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

__all__ = ["FINE_WIDTH", "Lattice", "LatticeTable", "uniform_lattice"]

Floats = npt.NDArray[np.float64]

# Lattices without a table: cells of at most this width, in units of the model's scale, are points.
FINE_WIDTH = 1 / 200


@final
@dataclass(frozen=True)
class LatticeTable:
    """C neighbouring cells of a lattice, all of them finite.

    Args:
        ends: where cells meet, rising, (C + 1,).
        points: one point inside each cell, (C,). The density there, times the width, is the cell's
            mass.
        widths: the slopes of the model's scale at the points, per step, (C,).
        below, above: how many of the first and the last cells lie beyond the values of the column,
            and are parts of the infinite cells of its first and last value.
    """

    ends: Floats
    points: Floats
    widths: Floats
    below: int = 0
    above: int = 0

    def __len__(self) -> int:
        return len(self.points)


Lattice = Callable[[float, float], LatticeTable | None]
"""Tabulate the cells from one point of the model's scale to another, with a margin on both sides.

None if they are too many for a table.
"""


def uniform_lattice(step: float, offset: float = 0.0, margin: int = 8) -> Lattice:
    """Return the lattice with cells (offset + k step, offset + (k + 1) step] for all whole k.

    >>> uniform_lattice(0.5, margin=0)(0.1, 0.9).ends
    array([0. , 0.5, 1. ])
    """

    def table(low: float, high: float) -> LatticeTable:
        first, last = np.floor((low - offset) / step), np.floor((high - offset) / step)
        k = np.arange(first - margin, last + margin + 1)
        ends = offset + step * np.append(k, k[-1] + 1)
        return LatticeTable(ends, ends[:-1] + step / 2, np.full(len(k), step))

    return table
