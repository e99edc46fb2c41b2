"""Many dicts of cells as rows of evidence, encoded column by column."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from marginals.cells.cell import AnyOf, Cell, Exact, Interval, OneOf, as_cell, contains
from marginals.cells.evidence import Evidence
from marginals.columns.axis import Flags, Floats, quiet
from marginals.columns.cell_reading import numbers
from marginals.columns.dtypes import family
from marginals.columns.encoded_cells import Encoded, Ends
from marginals.columns.encoding import encode_ends, read_cells
from marginals.columns.kinds import Categorical
from marginals.columns.schema import Column, Schema

_WHOLE = 2.0**53  # floats below are exact


def read_rows(schema: Schema, rows: Sequence[Mapping[Any, Any]]) -> list[dict[int, Cell]]:
    """Read many dicts as `read_cells` does, the plain numbers of each column at once.

    Args:
        schema: of the fitted table.
        rows: cells by name or position of a column, as users write them.
    """
    if len(rows) == 1:
        return [read_cells(schema, rows[0])]
    found: list[dict[int, Cell]] = []
    waiting: dict[int, list[tuple[int, Exact | Interval]]] = {}
    for at, row in enumerate(rows):
        found.append({})
        for i, (name, value) in zip(schema.positions(row), row.items(), strict=True):
            cell = as_cell(value, f"column {name!r}")
            if isinstance(cell, Exact | Interval) and _is_plain(schema.columns[i], cell):
                waiting.setdefault(i, []).append((at, cell))
                found[at][i] = cell  # keeps the order
            else:
                found[at] |= read_cells(schema, {name: cell})
    for i, cells in waiting.items():
        column = schema.columns[i]
        ends = pd.Series([end for _, cell in cells for end in _ends(cell)], dtype=np.float64)
        with quiet():
            values = column.axis.snapped(numbers(column, ends)).reshape(-1, 2).tolist()
        for (at, cell), (low, high) in zip(cells, values, strict=True):
            found[at][i] = _with_ends(cell, low, high)
    return found


def _is_plain(column: Column, cell: Exact | Interval) -> bool:
    """Say whether a cell has ends of plain, finite numbers in the right order."""
    if isinstance(column.kind, Categorical) or family(column.dtype) != "number":
        return False
    low, high = _ends(cell)
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
        return False
    fine = all(math.isnan(end) or abs(end) < _WHOLE for end in (low, high))
    return fine and not low > high and not (math.isnan(low) and math.isnan(high))


def _ends(cell: Exact | Interval) -> tuple[Any, Any]:
    """Return the ends of a cell, NaN where open."""
    if isinstance(cell, Exact):
        return cell.value, cell.value
    return tuple(math.nan if end is None else end for end in (cell.low, cell.high))  # type: ignore[return-value]


def _with_ends(cell: Exact | Interval, low: float, high: float) -> Cell:
    if isinstance(cell, Exact):
        return Exact(low)
    bottom, top = (None if math.isnan(end) else end for end in (low, high))
    return Interval(bottom, top, cell.low_closed, cell.high_closed)


def has_gaps(schema: Schema, cells: Mapping[int, Cell]) -> bool:
    """Say whether a dict is several boxes: a set or union of a column that lists no values."""
    return any(
        isinstance(cell, OneOf | AnyOf) and schema.columns[i].listed is None
        for i, cell in cells.items()
    )


def encode_rows(
    schema: Schema, rows: Sequence[Mapping[int, Cell]], *, masses: bool = True
) -> Encoded:
    """Encode dicts of cells without gaps, a row for each; columns that a dict lacks are missing.

    One call for each column and kind of interval takes the place of one for each dict.

    Args:
        schema: of the fitted table.
        rows: by position, as `read_cells` returns them.
        masses: whether exact values must have their probability, and not a density.
    """
    columns = tuple(sorted({i for row in rows for i in row}))
    lower, upper = np.full((2, len(rows), len(columns)), np.nan)
    slope, empty = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
    sets: dict[int, torch.Tensor] = {}
    for place, i in enumerate(columns):
        own = [(at, row[i]) for at, row in enumerate(rows) if i in row]
        empty[[at for at, cell in own if _is_nowhere(cell)]] = True
        for index, ends in _alike((at, c) for at, c in own if isinstance(c, Exact | Interval)):
            low, high, log_slope, nowhere = encode_ends(schema, i, ends, masses)
            lower[index, place], upper[index, place] = low, high
            slope[index] += log_slope
            empty[index] |= nowhere
        chosen = [(at, cell) for at, cell in own if isinstance(cell, OneOf | AnyOf)]
        if chosen:
            sets[i], nowhere = _masks(schema, i, chosen, len(rows))
            empty |= nowhere
    low_rows, high_rows = torch.from_numpy(lower), torch.from_numpy(upper)
    evidence = Evidence.interval(low_rows, high_rows, columns)
    evidence = replace(evidence, sets=sets) if sets else evidence
    return Encoded(evidence, torch.from_numpy(slope), torch.from_numpy(empty))


def _alike(cells: Iterable[tuple[int, Exact | Interval]]) -> Iterable[tuple[list[int], Ends]]:
    """Yield the places and ends of cells with the same sides closed; free cells are left out."""
    groups: dict[tuple[bool, bool], list[tuple[int, float, float]]] = {}
    for at, cell in cells:
        if isinstance(cell, Exact):
            groups.setdefault((True, True), []).append((at, cell.value, cell.value))
        elif cell.low is not None or cell.high is not None:
            low = -np.inf if cell.low is None else cell.low
            high = np.inf if cell.high is None else cell.high
            groups.setdefault((cell.low_closed, cell.high_closed), []).append((at, low, high))
    for closed, found in groups.items():
        places, low_ends, high_ends = zip(*found, strict=True)
        yield list(places), Ends(np.array(low_ends, float), np.array(high_ends, float), *closed)


def _is_nowhere(cell: Cell) -> bool:
    """Say whether an interval has equal ends and does not include both."""
    if not isinstance(cell, Interval) or cell.low is None or cell.low != cell.high:
        return False
    return not (cell.low_closed and cell.high_closed)


def _masks(
    schema: Schema, position: int, cells: Sequence[tuple[int, OneOf | AnyOf]], rows: int
) -> tuple[torch.Tensor, Flags]:
    """Return the allowed codes of each row, (B, C), all where there is no set; and empty rows."""
    axis = schema.columns[position].axis
    count = len(schema.columns[position].listed or ())
    numbers: Floats = axis.numbers(np.arange(count, dtype=np.float64))
    mask = np.ones((rows, count), dtype=bool)
    for at, cell in cells:
        if isinstance(cell, OneOf):
            mask[at] = np.isin(numbers, cell.values)
        else:
            mask[at] = [contains(cell, number) for number in numbers.tolist()]
    empty = mask.sum(axis=1) == 0
    mask[empty] = True
    return torch.from_numpy(mask), empty
