"""Cells as leaves take them: columns first."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from marginals.numerics import select


@dataclass(frozen=True)
class Cells:
    """Cells of n columns and B rows: each exact, an interval, missing, or a set of categories.

    Args:
        lower, upper: (n, B). Equal: an exact value; NaN: missing; else the interval (lower, upper].
            `upper is lower` promises that there is no interval.
        intervals: positions of the columns that may hold an interval.
        sets: by position, a mask (B, C) or (1, C) of allowed categories.
        complete: a promise that every cell is exact.
        patterns: a promise that there is no interval, and that each row knows one of these sets of
            positions; empty if nothing is promised.
    """

    lower: Tensor
    upper: Tensor
    intervals: tuple[int, ...] = ()
    sets: tuple[tuple[int, Tensor], ...] = ()
    complete: bool = False
    patterns: tuple[tuple[int, ...], ...] = ()

    def take(self, positions: Sequence[int]) -> "Cells":
        """Return the cells of some columns."""
        if list(positions) == list(range(self.lower.shape[0])):
            return self
        lower = select(self.lower, positions)
        upper = lower if self.upper is self.lower else select(self.upper, positions)
        place = {p: i for i, p in enumerate(positions)}
        intervals = tuple(place[p] for p in self.intervals if p in place)
        sets = tuple((place[p], mask) for p, mask in self.sets if p in place)
        patterns = tuple(tuple(place[p] for p in known if p in place) for known in self.patterns)
        return Cells(lower, upper, intervals, sets, self.complete, patterns)

    def repeat(self, draws: int) -> "Cells":
        """Repeat each row once per draw."""
        lower = self.lower.repeat_interleave(draws, 1)
        upper = lower if self.upper is self.lower else self.upper.repeat_interleave(draws, 1)
        sets = tuple(
            (position, mask if len(mask) == 1 else mask.repeat_interleave(draws, 0))
            for position, mask in self.sets
        )
        return Cells(lower, upper, self.intervals, sets)


@dataclass(frozen=True)
class Truncation:
    """Cells (n, N) to which draws are confined; see `Cells` for the meaning of the bounds."""

    lower: Tensor
    upper: Tensor
    sets: tuple[tuple[int, Tensor], ...] = ()
