"""Cells of columns on the model's scale, and evidence made of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.columns.axis import Flags, Floats

__all__ = ["Encoded", "Ends", "Part", "assembled", "joined", "nothing"]


@final
@dataclass(frozen=True)
class Encoded:
    """Evidence on the model's scale, with the terms that convert answers to the user's scale.

    Args:
        evidence: B rows. A cell that contains no value of its column is missing here.
        log_jacobian: (B,), to add to the model's log values. It makes densities per unit of the
            user's scale, per second for times. It sums over exact cells of continuous columns and,
            on a fine lattice, the width of the cell; all other exact cells have masses.
        empty: (B,), whether a row has a cell that contains no value; its probability is 0.
    """

    evidence: Evidence
    log_jacobian: Tensor
    empty: Tensor


class Ends(NamedTuple):
    """The ends (B,) of cells as numbers: equal for an exact value, NaN if missing."""

    low: Floats
    high: Floats
    low_closed: bool = False
    high_closed: bool = True


class Part(NamedTuple):
    """Cells (B,) of one column on the model's scale."""

    lower: Floats
    upper: Floats
    log_slope: Floats
    empty: Flags

    def take(self, index: npt.NDArray[np.intp]) -> "Part":
        """Return some of the cells."""
        return Part(*(side[index] for side in self))  # type: ignore[arg-type]


def joined(parts: list[Part]) -> Part:
    """Return the cells of all parts, which are in order and disjoint, without empty ones."""
    lower, upper, slope, empty = (np.concatenate(side) for side in zip(*parts, strict=True))
    keep = ~empty
    if not keep.any():
        return nothing(1, empty=True)
    lower, upper, slope = lower[keep], upper[keep], slope[keep]
    wide = lower < upper
    # Neighbours on a lattice are one interval; an atom is no part of the interval above it.
    starts = np.append(True, (lower[1:] != upper[:-1]) | ~(wide[1:] & wide[:-1]))
    lower, upper = lower[starts], upper[np.append(starts[1:], True)]
    return Part(lower, upper, slope[starts], np.zeros(len(lower), dtype=bool))


def nothing(rows: int, empty: bool = False) -> Part:
    """Return missing or empty cells."""
    free = np.full(rows, np.nan)
    return Part(free, free, np.zeros(rows), np.full(rows, empty))


def assembled(
    parts: list[Part],
    positions: tuple[int, ...],
    rows: int,
    sets: Mapping[int, Tensor] | None = None,
) -> Encoded:
    """Return the evidence of the columns at some positions, and of sets of codes."""
    slope, empty = np.zeros(rows), np.zeros(rows, dtype=bool)
    (lower, upper), exact = np.empty((2, rows, len(parts))), True
    for place, part in enumerate(parts):
        lower[:, place], upper[:, place] = part.lower, part.upper
        exact = exact and part.upper is part.lower
        slope += part.log_slope
        empty |= part.empty
    low, high = torch.from_numpy(lower), torch.from_numpy(upper)
    evidence = Evidence.exact(low, positions) if exact else Evidence.interval(low, high, positions)
    evidence = replace(evidence, sets=dict(sets)) if sets else evidence
    return Encoded(evidence, torch.from_numpy(slope), torch.from_numpy(empty))
