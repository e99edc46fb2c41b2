"""Frequencies among the rows of the data that agree with evidence."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.cells.cell import Exact, Interval, contains
from marginals.columns import Schema
from marginals.columns.encoding import read_cells
from marginals.columns.table_coercion import matched
from marginals.explorer.evidence_json import Given, RequestError
from marginals.explorer.monitor_axis import Floats, MonitorAxis, family_of, to_page

Flags = npt.NDArray[np.bool_]

# An exact value of a fine column counts rows within this share of the axis to either side.
_WINDOW = 0.025
_MOST_POINTS = 600


@final
class DataRows:
    """The rows of a table, read once for quick counts.

    Args:
        frame: the table, with some of the model's columns.
        schema: of the model, which reads categories not seen in training as missing.
        axes: of all columns.
    """

    def __init__(self, frame: pd.DataFrame, schema: Schema, axes: Sequence[MonitorAxis]) -> None:
        own, positions = matched(schema, frame)
        self.frame = own.reset_index(drop=True)
        self.schema, self.axes = schema, axes
        self.places = {i: place for place, i in enumerate(positions)}
        self.numbers = {
            i: _numbers(axes[i], self.frame.iloc[:, place]) for i, place in self.places.items()
        }
        self.bins = {i: _bins(axes[i], numbers) for i, numbers in self.numbers.items()}

    def __len__(self) -> int:
        return len(self.frame)

    def agreeing(self, given: Given) -> tuple[Flags, Floats, list[str]]:
        """Return which rows agree with evidence, their weights, and remarks.

        Rows with a gap in a column with evidence do not agree. Soft evidence weighs rows, so that
        the categories have the requested shares.
        """
        agree = np.ones(len(self), dtype=bool)
        remarks = []
        for i, cell in given.hard.items():
            axis = self.axes[i]
            if i not in self.numbers:
                remarks.append(f"{axis.id} is not in the data")
                continue
            if isinstance(cell, Exact) and axis.kind == "curve" and not self._is_atom(i, cell):
                width = _WINDOW * (axis.places[-1] - axis.places[0])
                at = float(to_page(axis.column, [cell.value])[0])
                agree &= np.abs(self.numbers[i] - at) <= width
                remarks.append(f"{axis.id} within ±{width:.3g}" if axis.family == "number" else "")
            else:
                agree &= self._holds(i, cell)
        weights = np.ones(len(self))
        for i, shares in given.soft.items():
            if i in self.bins:
                weights *= _jeffrey(self.bins[i], agree, np.array(shares))
        return agree, weights, [remark for remark in remarks if remark]

    def shares(self, given: Given) -> dict[str, Any]:
        """Return the number of rows that agree, and their frequencies in each column's bins."""
        agree, weights, remarks = self.agreeing(given)
        found = {}
        for i, bins in self.bins.items():
            axis = self.axes[i]
            known = agree & (bins >= -1)
            at, own = bins[known], weights[known]
            count = len(axis.ends) - 1
            total = float(own.sum())
            inside = at >= 0
            counts = np.bincount(at[inside], own[inside], minlength=count + len(axis.atoms))
            masses = counts / total if total > 0 else counts.astype(np.float64)
            found[axis.id] = {
                "n": int(known.sum()),
                "m": np.round(masses[:count], 6).tolist(),
                "a": np.round(masses[count:], 6).tolist(),
            }
        return {
            "rows": len(self),
            "agree": int(agree.sum()),
            "remarks": remarks,
            "columns": found,
        }

    def points(self, given: Given, x: int, y: int) -> list[list[float]]:
        """Return places of agreeing rows in two columns, for a picture."""
        if x not in self.numbers or y not in self.numbers:
            return []
        agree = self.agreeing(given)[0]
        both = np.stack([self.numbers[x], self.numbers[y]], 1)[agree]
        both = both[np.isfinite(both).all(1)]
        stride = max(1, -(-len(both) // _MOST_POINTS))
        return [[float(f"{v:.7g}") for v in row] for row in both[::stride]]

    def row(self, number: int) -> dict[str, Any]:
        """Return a row as the page's values by column, None for gaps."""
        if not 0 <= number < len(self):
            raise RequestError(f"Expected a row between 0 and {len(self) - 1}; got {number}.")
        out: dict[str, Any] = {}
        for i, place in self.places.items():
            axis, value = self.axes[i], self.frame.iat[number, place]
            out[axis.id] = page_value(axis, value)
        return out

    def _is_atom(self, i: int, cell: Exact) -> bool:
        return float(to_page(self.axes[i].column, [cell.value])[0]) in self.axes[i].atoms

    def _holds(self, i: int, cell: Any) -> Flags:
        column, page = self.axes[i].column, self.numbers[i]
        if family_of(column) == "category" or column.listed is not None:
            numbers = read_cells(self.schema, {column.name: cell})[i]
            codes = np.arange(len(column.listed or ()), dtype=np.float64)
            listed = column.axis.numbers(codes)
            allowed = np.array([contains(numbers, float(value)) for value in listed])
            bins = self.bins[i]
            return (bins >= 0) & allowed[np.maximum(bins, 0)]
        if isinstance(cell, Exact):
            return page == float(to_page(column, [cell.value])[0])
        if isinstance(cell, Interval):
            step = self.axes[i].step or 0.0
            slack = 1e-6 * step
            low = -np.inf if cell.low is None else float(to_page(column, [cell.low])[0]) - slack
            high = np.inf if cell.high is None else float(to_page(column, [cell.high])[0]) + slack
            return (page >= low) & (page <= high)
        return np.isin(page, to_page(column, list(cell.values)))


def page_value(axis: MonitorAxis, value: Any) -> Any:
    """Return a value of a column as the page writes it: a label or a number; None if missing."""
    if value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value))):
        return None
    if axis.column.listed is not None:
        for label, own in zip(axis.labels, axis.values, strict=True):
            if value == own:
                return label
        if axis.family == "category":
            return None
    if isinstance(value, pd.Interval):
        value = value.mid
    return float(f"{float(to_page(axis.column, [value])[0]):.15g}")


def page_number(axis: MonitorAxis, number: float) -> Any:
    """Return a number of the page as the page writes values: a label for a listed column."""
    if axis.column.listed is None:
        return float(f"{number:.15g}")
    return axis.labels[int(np.abs(axis.places - number).argmin())]


def _numbers(axis: MonitorAxis, cells: Any) -> Floats:
    """Return cells as the page's numbers, codes for categories, NaN for gaps."""
    if axis.family == "category":
        codes: Mapping[Any, int] = axis.column.codes
        return np.array([_code(codes, value) for value in cells], dtype=np.float64)
    if isinstance(cells.dtype, pd.IntervalDtype):
        cells = pd.Series(pd.arrays.IntervalArray(cells).mid)
    return to_page(axis.column, cells)


def _code(codes: Mapping[Any, int], value: Any) -> float:
    try:
        return codes.get(value, np.nan)
    except TypeError:  # not hashable
        return np.nan


def _bins(axis: MonitorAxis, numbers: Floats) -> npt.NDArray[np.int64]:
    """Return the bar or bin of each cell; atoms follow the bins; -1 beyond, -2 for gaps."""
    missing = np.isnan(numbers)
    if axis.kind == "bars":
        places = axis.places
        near = np.clip(
            np.searchsorted(places, numbers - 1e-9 * np.abs(numbers)), 0, len(places) - 1
        )
        tolerance = 1e-6 * (axis.step or 1.0)
        found = np.where(np.abs(places[near] - numbers) <= tolerance, near, -1)
    else:
        found = np.searchsorted(axis.places, numbers, "right") - 1
        found = np.where((found < 0) | (found >= len(axis.places) - 1), -1, found)
        for place, atom in enumerate(axis.atoms):
            found = np.where(numbers == atom, len(axis.places) - 1 + place, found)
    return np.where(missing, -2, found).astype(np.int64)


def _jeffrey(bins: npt.NDArray[np.int64], agree: Flags, shares: Floats) -> Floats:
    """Return weights of rows that give the categories the requested shares."""
    counts = np.bincount(bins[agree & (bins >= 0)], minlength=len(shares)).astype(np.float64)
    total = counts.sum()
    ratio = np.divide(shares * total, counts, out=np.zeros_like(counts), where=counts > 0)
    return np.where(bins >= 0, ratio[np.maximum(bins, 0)], 0.0)
