"""From tables, dicts and arrays of values to evidence on the model's scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.columns.axes import axis
from marginals.columns.axis import Axis, Flags, quiet
from marginals.columns.cell_reading import Floats
from marginals.columns.ends import ends, refuse
from marginals.columns.known_cell import known_cell
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.schema import Column, Name, Schema
from marginals.columns.table_coercion import as_series, column_of, matched, upper_columns

__all__ = ["Encoded", "encode", "encode_bounds", "encode_known", "encode_values"]


@final
@dataclass(frozen=True)
class Encoded:
    """Evidence on the model's scale, and what it takes to come back from there.

    Args:
        evidence: B rows. A cell that no value of its column can be in is missing here.
        log_jacobian: (B,), to be added to the model's log values: then densities are per unit of
            the user's scale, of times per second. It counts exact cells of continuous columns, not
            those of rounded ones, atoms, integers and categories, which have masses. Of a fine
            lattice it counts the width of the cell: the value has a mass too.
        empty: (B,), whether a row has a cell that no value can be in: its probability is 0.
    """

    evidence: Evidence
    log_jacobian: Tensor
    empty: Tensor


class _Cells(NamedTuple):
    """Cells of one column on the model's scale, all (B,)."""

    lower: Floats
    upper: Floats
    log_slope: Floats
    empty: Flags


def encode(
    schema: Schema, frame: Any, upper: Any = None, columns: Any = None, *, strict: bool = True
) -> Encoded:
    """Encode a table: a DataFrame with some of the columns by name, or an array of all of them.

    Args:
        schema: of the table fitted.
        frame: exact values, or with `upper` lower ends. NaN, None, NA and NaT are missing; a single
            end that is missing is open. A column of pandas intervals holds both ends.
        upper: upper ends of (some of) the same columns; a cell whose ends are equal is exact.
        columns: selects columns of a frame, and names those of an array.
        strict: whether a value that the column cannot take raises, or makes the row empty.
    """
    frame, positions = matched(schema, frame, columns)
    high = {} if upper is None else upper_columns(schema, frame, upper)
    parts = [
        _cells(schema.columns[i], column_of(frame, place), high.get(i), strict)
        for place, i in enumerate(positions)
    ]
    return _assembled(parts, positions, len(frame), {})


def encode_known(
    schema: Schema, known: Mapping[Name, Any], *, strict: bool = True, fine: bool = True
) -> Encoded:
    """Encode a dict as one row: a value, a pair (low, high) with None for an open end, or a set.

    A pair means low < x <= high. Sets, and lists, are for categories; pairs of categories need an
    ordered column. A missing value tells nothing. Without `fine`, a value of a fine lattice is its
    cell, whose probability can be asked for, and not the middle of it.
    """
    positions = schema.positions(known)
    parts, sets = [], {}
    for i, cell in zip(positions, known.values(), strict=True):
        column = schema.columns[i]
        low, high, mask = known_cell(column, cell)
        parts.append(_cells(column, low, high, strict, fine))
        if mask is not None:
            sets[i] = mask
    return _assembled(parts, positions, 1, sets)


def encode_values(schema: Schema, column: Name, values: Any) -> tuple[Tensor, Tensor]:
    """Return values of a column (N,) on the model's scale, and log-Jacobians (N,).

    Of integer and rounded columns these are the middles of cells, for plots and draws: their masses
    are those of `encode_bounds(schema, column, values, values)`.
    """
    series = as_series(values)
    with quiet():
        line = axis(schema[column])
        low, _ = ends(line.column, series)
        wrong = line.wrong(low)
        if wrong.any():
            refuse(line, series, low, wrong)
        return _tensor(line.point(low)), _tensor(line.exact(low).log_slope)


def encode_bounds(schema: Schema, column: Name, lower: Any, upper: Any) -> tuple[Tensor, Tensor]:
    """Return the ends (N,) of cells (lower, upper] on the model's scale.

    None or a missing end is open, equal ends are an exact value, and a cell that no value of the
    column can be in comes back as (inf, inf): its probability is 0.
    """
    low_side, high_side = as_series(lower), as_series(upper)
    counts = {len(low_side), len(high_side)} - {1}
    if len(counts) > 1:
        raise ValueError(
            f"Expected as many lower as upper ends of column {column!r}, or a single one; got "
            f"{len(low_side)} and {len(high_side)}. Pair them."
        )
    count = counts.pop() if counts else 1
    sides = [side if len(side) == count else side.repeat(count) for side in (low_side, high_side)]
    cells = _cells(schema[column], sides[0], sides[1], strict=False, fine=False)
    open_ends = np.isnan(cells.lower)  # nothing is known, or the cell is empty
    low = np.where(open_ends, -np.inf, cells.lower)
    high = np.where(open_ends, np.inf, cells.upper)
    return _tensor(np.where(cells.empty, np.inf, low)), _tensor(high)


# Parts ----------------------------------------------------------------------------------------


def _cells(column: Column, series: Any, upper: Any, strict: bool, fine: bool = True) -> _Cells:
    with quiet():
        return _quiet_cells(axis(column), series, upper, strict, fine)


def _quiet_cells(line: Axis, series: Any, upper: Any, strict: bool, fine: bool) -> _Cells:
    low, high = ends(line.column, series, upper)
    exact, interval = low == high, low < high
    empty = exact & line.wrong(low)
    if strict and empty.any():
        refuse(line, series, low, empty)
    known = np.where(exact & ~empty, low, np.nan)
    cell = line.middles(known) if fine and isinstance(line, LatticeAxis) else line.exact(known)
    lower, end, slope = cell.lower, cell.upper, cell.log_slope
    if interval.any():
        lower, end = lower.copy(), end.copy()
        lower[interval], end[interval] = line.between(low[interval], high[interval])
        empty |= lower > end
    if empty.any():
        lower, end = np.where(empty, np.nan, lower), np.where(empty, np.nan, end)
    return _Cells(lower, end, slope, empty)


def _assembled(
    parts: list[_Cells], positions: tuple[int, ...], rows: int, sets: Mapping[int, Tensor]
) -> Encoded:
    slope, empty = np.zeros(rows), np.zeros(rows, dtype=bool)
    for part in parts:
        slope += part.log_slope
        empty |= part.empty
    lower = _matrix([part.lower for part in parts], rows)
    if all(part.upper is part.lower for part in parts):
        plain = Evidence.exact(lower, positions)
    else:
        plain = Evidence.interval(lower, _matrix([part.upper for part in parts], rows), positions)
    evidence = Evidence(plain.columns, plain.lower, plain.upper, dict(sets), plain.intervals)
    return Encoded(evidence, torch.from_numpy(slope), torch.from_numpy(empty))


def _matrix(columns: list[Floats], rows: int) -> Tensor:
    return torch.from_numpy(np.stack(columns, 1) if columns else np.empty((rows, 0)))


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))
