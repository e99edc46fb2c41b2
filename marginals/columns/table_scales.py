"""The scales of a table's columns with one bound, which depend on the other columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from marginals.columns.axis import Floats
from marginals.columns.bound_scales import Distances, choose_lengths
from marginals.columns.column_axis import standardised
from marginals.columns.dtypes import family
from marginals.columns.encoded_cells import Ends
from marginals.columns.encoding import read_ends
from marginals.columns.kinds import Categorical
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.normal_scores import LEAST_ROWS
from marginals.columns.reference_point import both_ends
from marginals.columns.schema import Column
from marginals.columns.smooth_axis import SmoothAxis
from marginals.columns.table_coercion import column_of

__all__ = ["with_lines"]

_ROWS = 2000  # examined


def with_lines(
    columns: Sequence[Column], frame: Any, upper: Mapping[int, Any] | None = None
) -> list[Column]:
    """Return the columns, those with one bound on a line where a logarithm is less likely.

    Columns of many rows are modelled on their normal scores instead, and stay as they are.

    Args:
        columns: the columns of a table, with their scales.
        frame: the table.
        upper: the upper ends of cells of some columns, by position.
    """
    places = [i for i, column in enumerate(columns) if _may_bend(column)]
    if not places or len(frame) >= LEAST_ROWS:
        return list(columns)
    order = np.random.default_rng(0).permutation(len(frame))
    rows = np.sort(order[:_ROWS])
    ends = {
        i: read_ends(column, column_of(frame, i), (upper or {}).get(i))
        for i, column in enumerate(columns)
        if not isinstance(column.kind, Categorical) and family(column.dtype) == "number"
    }
    known = [_numbers(columns[i], own, rows, i in places) for i, own in ends.items()]
    lengths = dict(zip(ends, choose_lengths(known), strict=True))
    return [
        _straightened(column, lengths[i], both_ends(ends[i])) if lengths.get(i) else column
        for i, column in enumerate(columns)
    ]


def _straightened(column: Column, length: float, values: Floats) -> Column:
    """Return the column on a line of some length, fitted to its values again."""
    return standardised(replace(column, line=length, soft=0.0, atoms=()), values)


def _may_bend(column: Column) -> bool:
    """Return whether a column has one bound, and numbers beyond it."""
    if isinstance(column.kind, Categorical) or family(column.dtype) != "number":
        return False
    if not isinstance(column.axis, SmoothAxis | LatticeAxis):
        return False
    return sum(map(math.isinf, column.axis.bounds)) == 1


def _numbers(column: Column, ends: Ends, rows: Any, bent: bool) -> Floats | Distances:
    """Return the exact cells of a column as numbers, or as distances from its bound."""
    low, high = ends.low[rows], ends.high[rows]
    found = np.where((low == high) & np.isfinite(low), low, np.nan)
    if not bent:
        return found
    axis = column.axis
    assert isinstance(axis, SmoothAxis | LatticeAxis)
    found = np.where(axis.at_atom(found), np.nan, found)
    away, step = axis.distance(found), float(isinstance(axis, LatticeAxis))
    # The cell of a first value has no end: such a column is a line next to its bound already.
    values = np.where(away > 0.0, away, np.nan)
    usable = not (step and (away < step).any())
    sign = 1.0 if math.isinf(axis.bounds[1]) else -1.0
    return Distances(values, sign, step) if usable else found
