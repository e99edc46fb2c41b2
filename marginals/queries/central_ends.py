"""Ends of central intervals as values of a column.

Quantiles of a column that is rounded to few values hold more than the level, because a cell may be
as wide as the interval. The ends are those values beyond which the probability is nearest to half
of what the interval leaves out.
"""

from typing import Any

import numpy as np
import torch

from marginals.columns import Column, Schema, decode_column
from marginals.columns.axis import Floats, quiet
from marginals.columns.decoding import restored
from marginals.columns.rounding import Rounding
from marginals.densities import Univariates


def central_ends(
    parts: Univariates, schema: Schema, column: Column, level: float
) -> tuple[Any, Any]:
    """Return the lower and upper ends of one column's central intervals, two arrays (B,).

    Args:
        parts: The distributions of the column given B rows.
        schema: The schema of the table.
        column: A column with an order.
        level: The probability that an interval holds.
    """
    tail = (1 - level) / 2
    levels = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    ends = parts.ppf(levels[:, None, None])[..., 0]  # (2, B)
    rounding = column.rounding
    if rounding is None or not rounding.is_coarse:
        first, last = (decode_column(schema, column.name, end) for end in ends)
        return first, last
    with quiet():
        low, high = rounding(column.axis.numbers(ends.cpu().numpy()))
        low = _nearer(parts, column, rounding, low, tail, 1)
        high = _nearer(parts, column, rounding, high, tail, -1)
    return restored(column, low), restored(column, high)


def _nearer(
    parts: Univariates,
    column: Column,
    rounding: Rounding,
    ends: Floats,
    tail: float,
    inwards: int,
) -> Floats:
    """Return the ends (B,), or their neighbours where these leave out what is nearer to the tail.

    A rounded quantile leaves out less than the tail, its neighbour more: the mass of its cell.
    """
    beyond = [_cdf(parts, column, end) for end in rounding.cells(ends)]
    left_out = sum(beyond) if inwards > 0 else 2 - sum(beyond)
    return np.where(left_out < 2 * tail, rounding.neighbours(ends, inwards), ends)


def _cdf(parts: Univariates, column: Column, numbers: Floats) -> Floats:
    """Return the probability (B,) below numbers (B,), which may be infinite."""
    finite = np.isfinite(numbers)
    points = torch.from_numpy(column.axis.point(np.where(finite, numbers, 0.0)))
    found = parts.cdf(points.to(parts.log_evidence)[:, None])[:, 0]
    return np.where(finite, found.double().cpu().numpy(), numbers > 0)
