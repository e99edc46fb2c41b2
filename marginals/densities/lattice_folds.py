"""First and last values of a lattice: infinite cells, spread over finite ones for training.

The cell of a first value reaches down to -inf. A table goes on below it with cells of one width, so
that its mass is a sum over points like any other. In training each row is at one of the points.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.cells.lattice_table import LatticeTable

# An end of a range within this share of a cell from an end of the cell is that end.
NEAR = 0.01
# Cells next to the first or last value that say how many of its rows lie beyond it, and the most.
_NEXT, _MOST_SPREAD = 3, 0.9


class Fold(NamedTuple):
    """How the first and the last value of a lattice are spread over the cells beyond them.

    The share of a value's rows that lie beyond a cell is a power of `falls` or `rises`: the cells
    hold as many rows as the next values.
    """

    below: int = 0  # cells beyond the first value
    above: int = 0
    falls: float = 0.0
    rises: float = 0.0

    @staticmethod
    def stored(parts: Sequence[float]) -> "Fold":
        """Return a fold from its parts, as JSON holds them."""
        below, above, falls, rises = parts
        return Fold(int(below), int(above), falls, rises)

    @staticmethod
    def of(table: LatticeTable | None, cells: Evidence) -> "Fold":
        """Count the cells (N, 1) of a lattice at its ends, and next to them."""
        if table is None or not table.below + table.above:
            return Fold()
        ends = torch.from_numpy(table.ends)
        middle = cells.midpoints().double().cpu()[:, 0]
        # The lower end of an infinite cell belongs to the cell before it.
        after = middle.nextafter(torch.full_like(middle, torch.inf))
        middle = torch.where(cells.upper[:, 0].cpu() == torch.inf, after, middle)
        inside = middle[(middle > ends[0]) & (middle <= ends[-1])]
        counts = torch.bincount(torch.searchsorted(ends, inside) - 1, minlength=len(table))
        rows = counts[table.below : len(table) - table.above].double()
        if len(rows) <= _NEXT:
            return Fold(table.below, table.above)
        shares = [
            float(1 - part[1 : 1 + _NEXT].mean() / part[0].clamp_min(1))
            for part in (rows, rows.flip(0))
        ]
        room = (table.below, table.above)
        falls, rises = (
            min(max(share, 0.0), _MOST_SPREAD) if cells else 0.0
            for share, cells in zip(shares, room, strict=True)
        )
        return Fold(*room, falls, rises)

    def spread(
        self, known: Evidence, column: int, ends: Tensor, generator: torch.Generator
    ) -> Evidence:
        """Replace the infinite cells of the first and the last value by parts, at random."""
        position = known.columns.index(column)
        lower, upper = known.lower.clone(), known.upper.clone()
        low, high = lower[:, position], upper[:, position]
        ends = ends.to(low)
        cells = len(ends) - 1
        level = torch.rand(len(known), generator=generator, dtype=torch.float64).to(low.device)
        for side, room, share in ((-1, self.below, self.falls), (1, self.above, self.rises)):
            own = room if side < 0 else cells - 1 - room  # the cell of the value itself
            edge, near = (ends[own + 1], high) if side < 0 else (ends[own], low)
            gap = NEAR * (ends[own + 1] - ends[own])
            open_ = (low if side < 0 else high).isinf() & ((near - edge).abs() < gap)
            away = (level.log() / math.log(share)).floor() if share > 0 else torch.zeros_like(level)
            cell = own + side * away.clamp(max=room).long()
            lower[:, position] = torch.where(open_ & bool(room), ends[cell], lower[:, position])
            upper[:, position] = torch.where(open_ & bool(room), ends[cell + 1], upper[:, position])
        return replace(known, lower=lower, upper=upper)
