"""From tables, dicts and arrays of values to evidence on the model's scale."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.cells.cell import (
    MISSING,
    NOTHING,
    AnyOf,
    Cell,
    Exact,
    Interval,
    OneOf,
    as_cell,
    contains,
    union,
)
from marginals.columns.axis import Axis, Flags, Floats, quiet
from marginals.columns.cell_reading import number_of, numbers
from marginals.columns.encoded_cells import Encoded, Ends, Part, assembled, joined, nothing
from marginals.columns.kinds import Categorical
from marginals.columns.refusals import (
    Strict,
    refuse_ends,
    refuse_infinite,
    refuse_order,
    refuse_value,
    refused,
)
from marginals.columns.schema import Column, Name, Schema
from marginals.columns.table_coercion import (
    as_series,
    column_of,
    matched,
    row_of,
    upper_columns,
)

__all__ = [
    "NoProbabilityError",
    "check_possible",
    "encode",
    "encode_bounds",
    "encode_boxes",
    "encode_cells",
    "encode_ends",
    "encode_values",
    "has_mass",
    "read_cells",
    "read_ends",
]


class NoProbabilityError(ValueError):
    """An event asks for single values of a continuous column, which have only a density.

    Args:
        column: the name of the column.
    """

    def __init__(self, column: Name) -> None:
        self.column = column
        super().__init__(
            f"Expected an interval for continuous column {column!r}; got a single value, whose "
            "probability is 0. Give a pair (low, high), or ask for `pdf`."
        )


# Tables -----------------------------------------------------------------------------------------


def encode(
    schema: Schema,
    frame: Any,
    upper: Any = None,
    columns: Any = None,
    *,
    strict: Strict = "all",
    masses: bool = False,
) -> Encoded:
    """Encode a table: a DataFrame with some columns by name, or an array with all of them.

    Args:
        schema: the schema of the fitted table.
        frame: exact values or, with `upper`, lower ends. NaN, None, NA and NaT are missing; if only
            one end is missing, that side is open. A column of pandas intervals holds both ends.
        upper: upper ends for some or all of the same columns; a cell with equal ends is exact.
        columns: the columns to take from a frame, or the names of an array's columns.
        strict: which impossible values raise an error; the others make their row empty. "declared"
            accepts values beyond inferred bounds, or absent from an inferred table.
        masses: require exact values to have a probability; values that only have a density raise
            an error.
    """
    frame, positions = matched(schema, frame, columns)
    high = {} if upper is None else upper_columns(schema, frame, upper)
    parts = []
    with quiet():
        for place, i in enumerate(positions):
            column, series = schema.columns[i], column_of(frame, place)
            ends = read_ends(column, series, high.get(i))
            check_possible(column.axis, series, ends, strict)
            if masses and ends.low is ends.high:
                _check_masses(column, ends.low)
            parts.append(_part(column.axis, ends, masses))
    return assembled(parts, positions, len(frame))


def encode_values(schema: Schema, column: Name, values: Any) -> tuple[Tensor, Tensor]:
    """Return a column's `values` on the model's scale and their log-Jacobians, both (N,).

    In integer and rounded columns, each value becomes the middle of its cell, for plots and draws.
    For the mass of a value, use the cell `encode_bounds(schema, column, values, values)`.

    Args:
        schema: the schema of the fitted table.
        column: a name or position.
        values: values in the column's units.
    """
    series, axis = as_series(values), schema[column].axis
    with quiet():
        ends = read_ends(axis.column, series)
        check_possible(axis, series, ends)
        return _tensor(axis.point(ends.low)), _tensor(axis.exact(ends.low).log_slope)


def encode_bounds(schema: Schema, column: Name, lower: Any, upper: Any) -> tuple[Tensor, Tensor]:
    """Return the ends (N,) of a column's cells (`lower`, `upper`] on the model's scale.

    None or a missing end leaves that side open, and equal ends are an exact value. A cell that
    contains no value of the column becomes (inf, inf): its probability is 0.

    Args:
        schema: the schema of the fitted table.
        column: a name or position.
        lower, upper: the ends of the cells, in the column's units.
    """
    sides = as_series(lower), as_series(upper)
    counts = {len(side) for side in sides} - {1}
    if len(counts) > 1:
        raise ValueError(
            f"Expected as many lower as upper ends of column {column!r}, or a single one; got "
            f"{len(sides[0])} and {len(sides[1])}. Pair them."
        )
    count = counts.pop() if counts else 1
    low, high = (side if len(side) == count else side.repeat(count) for side in sides)
    with quiet():
        axis = schema[column].axis
        part = _part(axis, read_ends(axis.column, low, high), masses=True)
    free = np.isnan(part.lower)  # missing, or empty
    bottom = np.where(part.empty, np.inf, np.where(free, -np.inf, part.lower))
    return _tensor(bottom), _tensor(np.where(free, np.inf, part.upper))


def encode_ends(
    schema: Schema, position: int, ends: Ends, masses: bool
) -> tuple[Floats, Floats, Floats, Flags]:
    """Return bounds (B,) on the model's scale, log-Jacobians, and which cells are empty."""
    with quiet():
        return _part(schema.columns[position].axis, ends, masses)


# Dicts ------------------------------------------------------------------------------------------


def encode_cells(schema: Schema, cells: Mapping[Any, Any], *, strict: Strict = "all") -> Encoded:
    """Encode a dict of cells as one row, or as disjoint boxes if a set or union has gaps.

    Args:
        schema: the schema of the fitted table.
        cells: cells by column.
        strict: as in `encode`.
    """
    return encode_boxes(schema, read_cells(schema, cells, strict=strict))


def read_cells(
    schema: Schema, cells: Mapping[Any, Any], *, strict: Strict = "none"
) -> dict[int, Cell]:
    """Return cells as users write them as cells of numbers, by the position of their column.

    Args:
        schema: of the fitted table.
        cells: by name or position of a column; see `as_cell`.
        strict: which exact values that the column cannot take raise an error, as in `encode`.
    """
    positions = schema.positions(cells)
    with quiet():
        return {
            i: _read_cell(schema.columns[i], cell, strict)
            for i, cell in zip(positions, cells.values(), strict=True)
        }


def encode_boxes(
    schema: Schema,
    cells: Mapping[int, Cell],
    masses: Collection[int] = (),
    most: int | None = None,
) -> Encoded:
    """Encode cells of numbers as disjoint boxes, a row for each: one, unless a cell has gaps.

    Args:
        schema: of the fitted table.
        cells: by position, as `read_cells` returns them.
        masses: columns whose exact values must have their probability, and not a density. There
            a value off the lattice is empty; elsewhere it is rounded, as in tables.
        most: the most boxes.
    """
    parts, sets = [], {}
    with quiet():
        for i, cell in cells.items():
            axis = schema.columns[i].axis
            listed = axis.column.listed
            if isinstance(cell, OneOf | AnyOf) and listed is not None:
                codes = axis.point(_values_in(axis, cell))
                codes = codes[~np.isnan(codes)]
                sets[i] = _mask(codes, len(listed))
                parts.append(nothing(1, empty=not len(codes)))
            else:
                parts.append(_pieces(axis, cell, i in masses))
    counts = [len(part.lower) for part in parts]
    rows = math.prod(counts)
    if most is not None and rows > most:
        raise ValueError(
            f"Expected sets and unions to combine to at most {most:,} boxes; got {rows:,}. Give "
            "fewer values or wider intervals."
        )
    if rows > 1:
        places = np.indices(counts).reshape(len(counts), -1)
        parts = [part.take(place) for part, place in zip(parts, places, strict=True)]
    return assembled(parts, tuple(cells), rows, sets)


def _values_in(axis: Axis, cell: OneOf | AnyOf) -> Floats:
    """Return the values of a cell of a column that lists its values."""
    if isinstance(cell, OneOf):
        return np.array(cell.values, dtype=np.float64)
    every = axis.numbers(np.arange(len(axis.column.listed or ()), dtype=np.float64))
    return np.array([value for value in every.tolist() if contains(cell, value)])


def _check_masses(column: Column, values: Floats) -> None:
    """Refuse values that have only a density."""
    known = values[~np.isnan(values)]
    if not bool((column.axis.has_mass(known) | column.axis.wrong(known)).all()):
        raise NoProbabilityError(column.name)


def has_mass(column: Column, cell: Cell) -> bool:
    """Say whether a cell of numbers has a probability, be it 0, and not only a density."""
    if isinstance(cell, Interval | AnyOf):
        return True
    values = np.array([cell.value] if isinstance(cell, Exact) else cell.values, dtype=np.float64)
    return bool((column.axis.has_mass(values) | column.axis.wrong(values)).all())


def _read_cell(column: Column, value: Any, strict: Strict) -> Cell:
    categorical = isinstance(column.kind, Categorical)
    if categorical and isinstance(value, pd.Interval):
        value = Exact(value)  # a category, as of pd.cut
    elif categorical and isinstance(value, set | frozenset | list):
        value = [Exact(part) if isinstance(part, pd.Interval) else part for part in value]
    cell = as_cell(value, f"column {column.name!r}")
    if isinstance(cell, AnyOf):
        parts = [_read_cell(column, part, strict) for part in cell.parts]
        return _categories_in(column, parts) if categorical else union(parts)
    if isinstance(cell, Exact):
        number = _finite(column, cell.value)
        if np.isnan(number):  # a category not seen in training
            return MISSING
        if refused(column.axis, np.array([number]), strict)[0]:
            refuse_value(column.axis, number, cell.value)
        return Exact(number)
    if isinstance(cell, OneOf):
        numbers_in = {_finite(column, value) for value in cell.values}
        known = tuple(sorted(number for number in numbers_in if not np.isnan(number)))
        return OneOf(known) if known or not numbers_in else MISSING
    if cell.low is None and cell.high is None:
        return cell
    if categorical and not column.ordered:
        return _categories_between(column, cell)
    numbers_of = [number_of(column, end) for end in (cell.low, cell.high) if end is not None]
    ends = iter(column.axis.snapped(np.array(numbers_of)).tolist())
    low, high = (None if end is None else next(ends) for end in (cell.low, cell.high))
    if any(end is not None and np.isnan(end) for end in (low, high)):
        return MISSING
    if low == np.inf or high == -np.inf:
        refuse_ends(column, "finite values", cell.low, cell.high, "Leave the cell missing.")
    if low is not None and high is not None and low > high:
        refuse_ends(column, "lower ends below upper ends", cell.low, cell.high, "Swap the ends.")
    return Interval(low, high, cell.low_closed, cell.high_closed)


def _finite(column: Column, value: Any) -> float:
    number = _snapped(column, value)
    if np.isinf(number):
        refuse_infinite(column, number)
    return number


def _snapped(column: Column, value: Any) -> float:
    return float(column.axis.snapped(np.array([number_of(column, value)]))[0])


def _categories_between(column: Column, cell: Interval) -> Cell:
    """Return the categories in an interval, if categories and ends are all numbers."""
    ends = [end for end in (cell.low, cell.high) if end is not None]
    if not all(map(_is_number, (*column.codes, *ends))):
        refuse_order(column, cell.low, cell.high)
    return OneOf(tuple(float(c) for value, c in column.codes.items() if contains(cell, value)))


def _categories_in(column: Column, parts: list[Cell]) -> Cell:
    """Return the codes of the categories in any of some cells of codes."""
    codes = map(float, column.codes.values())
    return OneOf(tuple(code for code in codes if any(contains(part, code) for part in parts)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _pieces(axis: Axis, cell: Cell, masses: bool) -> Part:
    """Return the disjoint parts of a cell of one column."""
    if isinstance(cell, Exact):
        at = np.array([cell.value])
        return _part(axis, Ends(at, at), masses)
    if isinstance(cell, Interval):
        if cell.low is None and cell.high is None:
            return nothing(1)
        low = np.array([-np.inf if cell.low is None else cell.low])
        high = np.array([np.inf if cell.high is None else cell.high])
        if low[0] == high[0]:
            closed = cell.low_closed and cell.high_closed
            return _pieces(axis, Exact(cell.low) if closed else NOTHING, masses=True)
        return _part(axis, Ends(low, high, cell.low_closed, cell.high_closed), masses)
    # Next to parts with a probability, values with only a density have no weight.
    if isinstance(cell, AnyOf):
        heavy = [part for part in cell.parts if has_mass(axis.column, part)]
        return joined([_pieces(axis, part, masses=True) for part in heavy])
    if not cell.values:
        return nothing(1, empty=True)
    at = np.array(cell.values, dtype=np.float64)
    atoms = axis.has_mass(at)
    if not atoms.any():
        return joined([_part(axis, Ends(at, at))])
    at = at[atoms]
    return joined([_part(axis, Ends(at, at), masses or len(at) > 1)])


# Ends as numbers --------------------------------------------------------------------------------


def read_ends(column: Column, series: Any, upper: Any = None) -> Ends:
    """Return the ends of the cells of a column.

    Where one end is missing or infinite, that side is open. Without `upper`, all cells are exact
    and the two arrays are one, unless the column holds pandas intervals.
    """
    intervals = isinstance(series.dtype, pd.IntervalDtype)
    if isinstance(column.kind, Categorical) or not intervals:
        low = numbers(column, series)
        if upper is not None:
            return _ordered(column, (series, upper), low, numbers(column, upper))
        infinite = np.isinf(low)
        if infinite.any():
            at = int(infinite.argmax())
            refuse_infinite(column, low[at], row_of(series, at))
        return Ends(low, low)
    if upper is not None:
        raise TypeError(
            f"Expected column {column.name!r} to hold lower ends, as there are upper ones; got "
            f"{series.dtype}. Give one of the two."
        )
    left, right = (pd.Series(side) for side in (series.array.left, series.array.right))
    ends = _ordered(column, (series, right), numbers(column, left), numbers(column, right))
    closed = series.dtype.closed
    return Ends(ends.low, ends.high, closed in ("left", "both"), closed in ("right", "both"))


def _ordered(column: Column, sides: tuple[Any, Any], low: Floats, high: Floats) -> Ends:
    def refuse_first(bad: Flags, expected: str, remedy: str) -> None:
        if bad.any():
            at = int(bad.argmax())
            ends = sides[0].iloc[at], sides[1].iloc[at]
            refuse_ends(column, expected, *ends, remedy, row_of(sides[0], at))

    missing = np.isnan(low) & np.isnan(high)
    apart = ~(missing | (low == high))
    if isinstance(column.kind, Categorical) and not column.ordered and apart.any():
        at = int(apart.argmax())
        refuse_order(column, sides[0].iloc[at], sides[1].iloc[at], row_of(sides[0], at))
    low = np.where(np.isnan(low) & ~missing, -np.inf, low)
    high = np.where(np.isnan(high) & ~missing, np.inf, high)
    refuse_first(low > high, "lower ends below upper ends", "Swap the ends.")
    refuse_first((low == high) & np.isinf(low), "finite values", "Leave the cell missing.")
    free = (low == -np.inf) & (high == np.inf)
    return Ends(np.where(free, np.nan, low), np.where(free, np.nan, high))


# Parts ------------------------------------------------------------------------------------------


def _part(axis: Axis, ends: Ends, masses: bool = False) -> Part:
    low, high, *closed = ends
    exact, interval = low == high, low < high
    lower = upper = np.full(len(low), np.nan)
    slope, empty = np.zeros(len(low)), np.zeros(len(low), dtype=bool)
    if exact.any():
        empty = exact & axis.wrong(low)
        at = np.where(exact & ~empty, low, np.nan)
        if masses:
            lower, upper = axis.only(at)
        else:
            lower, upper, slope = axis.exact(at)
    if interval.any():
        lower, upper = lower.copy(), upper.copy()
        lower[interval], upper[interval] = axis.between(low[interval], high[interval], *closed)
    empty |= lower > upper
    if empty.any():
        lower, upper = np.where(empty, np.nan, lower), np.where(empty, np.nan, upper)
    return Part(lower, upper, slope, empty)


def _mask(codes: Floats, count: int) -> Tensor:
    mask = torch.zeros(1, count, dtype=torch.bool)
    mask[0, codes.astype(np.int64).tolist()] = True
    return mask


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))


def check_possible(axis: Axis, series: Any, ends: Ends, strict: Strict = "all") -> None:
    """Refuse exact values that cannot occur."""
    wrong = (ends.low == ends.high) & refused(axis, ends.low, strict)
    if wrong.any():
        at = int(wrong.argmax())
        refuse_value(axis, float(ends.low[at]), series.iloc[at], row_of(series, at))
