"""A row: its gaps filled in with intervals, its surprising cells, and what would be normal."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from marginals.cells import Evidence
from marginals.cells.cell import Exact
from marginals.columns import Schema
from marginals.densities import Density, Univariates
from marginals.densities.univariate_cells import log_tails
from marginals.explorer.data_rows import page_number, page_value
from marginals.explorer.evidence_json import Given, RequestError, conditioned
from marginals.explorer.monitor_axis import MonitorAxis, from_page
from marginals.explorer.monitors import evaluated, mixed_cdf
from marginals.explorer.question_text import typed
from marginals.runtime.threads import answering

LEVEL = 0.9


def explained(
    density: Density, schema: Schema, axes: Sequence[MonitorAxis], cells: Any
) -> dict[str, Any]:
    """Return each cell of a row: filled in with an interval, or its tail and what is normal.

    Args:
        density: on the model's scale.
        schema: of its columns.
        axes: of its columns.
        cells: values of the page by column; null or absent is a gap.
    """
    known = _cells(axes, cells)
    state = conditioned(density, schema, Given({i: Exact(v) for i, v in known.items()}))
    every = list(range(len(axes)))
    with torch.no_grad(), answering():
        found = state.density.univariates(state.rows, every)
        shown = evaluated(schema, axes, mixed_cdf(found, torch.ones(1, dtype=torch.float64)))
        tails = _tails(found, state.rows, density)
    lines = []
    for axis, monitor in zip(axes, shown, strict=True):
        i = axis.position
        line: dict[str, Any] = {"id": axis.id, "value": None, "low": None, "high": None}
        if len(monitor.quantiles):
            low, middle, high = (page_number(axis, q) for q in monitor.quantiles)
            line |= {"low": low, "expected": middle, "high": high}
        else:
            best = int(monitor.masses.argmax())
            line |= {"expected": axis.labels[best], "share": float(monitor.masses[best])}
        if i in known:
            tail = tails[i]
            both = tail if axis.column.listed is not None else min(1.0, 2 * tail)
            line |= {"value": page_value(axis, known[i]), "tail": both}
        lines.append(line)
    return {"cells": lines, "level": LEVEL}


def _tails(found: Univariates, rows: Evidence, density: Density) -> dict[int, float]:
    """Return P(as far out as the cell | the other cells) by column; of a category, its mass."""
    out = {}
    for place, i in enumerate(rows.columns):
        own = found.take(found.columns.index(i), torch.tensor([0]))
        lower, upper = rows.lower[:, [place]], rows.upper[:, [place]]
        inside = rows.intervals & {i}
        cell = Evidence((i,), lower, upper if inside else lower, {}, inside)
        out[i] = float(log_tails(own, cell, density.categories)[0, 0].double().exp())
    return out


def _cells(axes: Sequence[MonitorAxis], cells: Any) -> dict[int, Any]:
    """Return the observed cells of a row by position."""
    if not isinstance(cells, Mapping):
        raise RequestError("Expected `cells` to be an object of values by column.")
    by_id = {axis.id: axis for axis in axes}
    unknown = [name for name in cells if name not in by_id]
    if unknown:
        raise RequestError(f"Expected columns of the model; got {str(unknown[0])[:60]!r}.")
    return {
        by_id[name].position: _value(by_id[name], value)
        for name, value in cells.items()
        if value is not None
    }


def _value(axis: MonitorAxis, value: Any) -> Any:
    if isinstance(value, str):
        if value in axis.labels:
            return axis.values[axis.labels.index(value)]
        raise RequestError(f"Expected a value of {axis.id!r}; got {value[:60]!r}.")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if axis.family == "category" or not number or not np.isfinite(value):
        raise RequestError(f"Expected a value of {axis.id!r}; got {str(value)[:60]}.")
    return from_page(axis.column, value)


def pasted(schema: Schema, axes: Sequence[MonitorAxis], text: str) -> dict[str, Any]:
    """Read one row from text: JSON, or a header and a line separated by commas or tabs.

    Without a header, a line with a cell for each column is read in the model's order.
    """
    found = _cells_of(axes, text.strip())
    by_id = {axis.id: axis for axis in axes}
    known = {name.strip(): cell for name, cell in found.items() if name.strip() in by_id}
    if not known:
        raise RequestError(
            f"Expected a row with some of the columns {', '.join(list(by_id)[:8])}; got "
            f"{text[:60]!r}. Paste a header and a line, or a JSON object."
        )
    return {name: _read(schema, by_id[name], cell) for name, cell in known.items()}


def _cells_of(axes: Sequence[MonitorAxis], text: str) -> dict[str, Any]:
    if text.startswith(("{", "[")):
        try:
            content = json.loads(text)
        except ValueError as error:
            raise RequestError(f"Expected a row as JSON; got {error}.") from error
        content = content[0] if isinstance(content, list) and content else content
        if not isinstance(content, dict):
            raise RequestError("Expected a JSON object with a value for each column.")
        return content
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise RequestError("Expected a row; got nothing. Paste a header and a line.")
    mark = "\t" if "\t" in lines[0] else ";" if ";" in lines[0] and "," not in lines[0] else ","
    table = list(csv.reader(io.StringIO("\n".join(lines[:2])), delimiter=mark))
    if len(table) == 1:
        if len(table[0]) != len(axes):
            raise RequestError(
                f"Expected a header and a line, or a line of {len(axes)} cells; got one of "
                f"{len(table[0])}."
            )
        return dict(zip((axis.id for axis in axes), table[0], strict=True))
    return dict(zip(table[0], table[1], strict=False))


def _read(schema: Schema, axis: MonitorAxis, cell: Any) -> Any:
    if cell is None or (
        isinstance(cell, str) and cell.strip().lower() in ("", "na", "nan", "null")
    ):
        return None
    if isinstance(cell, bool | int | float) and axis.family == "number":
        return _checked(axis, cell)
    found = typed(schema, axis, str(cell))
    if found is None:
        return None
    if found["is"] != "value":
        raise RequestError(f"Expected a single value of {axis.id!r}; got {str(cell)[:60]!r}.")
    return found["value"]


def _checked(axis: MonitorAxis, number: float) -> Any:
    return page_value(axis, from_page(axis.column, float(number)))
