"""Cells that cover a monitor's axis: one for each bar, or bins of a curve by their middles."""

from typing import NamedTuple

import numpy as np
import torch

from marginals.cells import Evidence
from marginals.explorer.monitor_axis import Floats, MonitorAxis


class AxisCells(NamedTuple):
    """Cells of one column.

    Args:
        page: their ends in the page's numbers, one more than there are cells.
        lower, upper: what they are on the model's scale; equal ends are an exact value.
        log_widths: the log mass of a cell is its log value plus this.
    """

    page: Floats
    lower: Floats
    upper: Floats
    log_widths: Floats

    def evidence(self, position: int) -> Evidence:
        """Return a row of evidence for each cell."""
        lower, upper = (torch.from_numpy(end[:, None]) for end in (self.lower, self.upper))
        return Evidence.interval(lower, upper, (position,))


def cells_of(axis: MonitorAxis, most: int) -> AxisCells:
    """Return the cells of an axis.

    The mass of a bin is its width, on the model's scale, times the density in its middle.

    Args:
        axis: the axis.
        most: the largest number of bins; a bar has a cell of its own.
    """
    count = len(axis.places)
    if axis.column.listed is not None:
        codes = np.arange(count, dtype=np.float64)
        page = np.arange(count + 1, dtype=np.float64) - 0.5
        return AxisCells(page, codes, codes, np.zeros(count))
    ends = axis.points[axis.ends]
    if axis.kind == "bars":
        half = 0.5 * (axis.step or 1.0)
        page = np.append(axis.places - half, axis.places[-1] + half)
        return AxisCells(page, ends[:-1], ends[1:], np.zeros(count))
    places = np.unique(np.linspace(0, count - 1, most + 1).round().astype(int))
    ends = ends[places]
    if not np.isfinite(ends[0]):  # the column's bound, which is infinitely far
        ends[0] = ends[1] - 2 * (ends[2] - ends[1])
    if not np.isfinite(ends[-1]):
        ends[-1] = ends[-2] + 2 * (ends[-2] - ends[-3])
    middle = (ends[1:] + ends[:-1]) / 2
    return AxisCells(axis.places[places], middle, middle, np.log(np.diff(ends)))
