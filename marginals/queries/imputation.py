"""Filling the missing cells of a table."""

from collections.abc import Iterator
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from marginals.columns import Categorical, Column, Integer, Schema, decode, decode_column, encode
from marginals.columns.cell_writing import restored
from marginals.columns.dtypes import family
from marginals.columns.table_coercion import as_frame
from marginals.densities import Density, Univariates
from marginals.queries.asked import as_objects, like
from marginals.queries.moments import modes, moments, most_likely

Method = Literal["mean", "median", "mode"]


@final
class Imputation:
    """The missing cells of a table, and what fills them.

    Args:
        density: on the model's scale.
        schema: of its columns.
        x: a table with some of them; cells that are missing are filled, columns are not added.
    """

    def __init__(self, density: Density, schema: Schema, x: Any) -> None:
        self.density, self.schema, self.x = density, schema, x
        self.evidence = density.checked(encode(schema, x).evidence)
        self.missing: npt.NDArray[np.bool_] = self.evidence.lower.isnan().cpu().numpy()  # (B, n)
        self.places: list[int] = np.flatnonzero(self.missing.any(0)).tolist()

    def summarised(self, method: Method) -> Any:
        """Fill each missing cell by a summary of its conditional given the row's other cells."""
        found: dict[int, list[Any]] = {i: [] for i in self.places}
        for place, column, parts in self._conditionals():
            found[place].append(_summary(parts, self.schema, column, method))
        return self._completed({i: np.concatenate(parts) for i, parts in found.items()})

    def intervals(self, level: float) -> pd.DataFrame:
        """Return, for each missing cell, its row, column and central interval, one per line."""
        index = as_frame(self.x, self.schema.names).index
        parts = []
        for rows, name, low, high in self._ends(level):
            line = {"row": index[rows], "column": name, "lower": as_objects(low)}
            parts.append(pd.DataFrame({**line, "upper": as_objects(high)}))
        blank = pd.DataFrame(columns=["row", "column", "lower", "upper"])
        return pd.concat(parts, ignore_index=True) if parts else blank

    def bounds(self, level: float) -> tuple[Any, Any]:
        """Return two tables, of lower and of upper ends; an observed cell is its own interval.

        Categories without an order have no interval: their cells stay missing.
        """
        sides: list[Any] = []
        found = list(self._ends(level))
        for side in (2, 3):
            frame = self._frame()
            for name in dict.fromkeys(part[1] for part in found):
                own = [part for part in found if part[1] == name]
                gaps = np.zeros(len(frame), dtype=bool)
                gaps[np.concatenate([part[0] for part in own])] = True
                # Parts of one column come in the order of the rows.
                values = np.concatenate([as_objects(part[side]) for part in own])
                frame[name] = _filled(frame[name], gaps, values)
            sides.append(like(self.x, frame))
        return sides[0], sides[1]

    def _ends(self, level: float) -> Iterator[tuple[npt.NDArray[np.intp], Any, Any, Any]]:
        """Give rows, column, lower and upper ends of missing cells, batch by batch."""
        tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
        seen = dict.fromkeys(self.places, 0)
        for place, column, parts in self._conditionals():
            if isinstance(column.kind, Categorical) and not column.ordered:
                continue
            ends = parts.ppf(tails[:, None, None])[..., 0]  # (2, B)
            low, high = (decode_column(self.schema, column.name, end) for end in ends)
            rows = np.flatnonzero(self.missing[:, place])[seen[place] :][: len(low)]
            seen[place] += len(low)
            yield rows, column.name, low, high

    def drawn(self, draws: int, generator: torch.Generator) -> list[Any]:
        """Fill all missing cells of a row by joint draws: a table for each."""
        found: list[dict[int, list[Any]]] = [{i: [] for i in self.places} for _ in range(draws)]
        start, size = 0, max(1, self.density.rows_at_once() // draws)
        with torch.no_grad():
            for part in self.evidence.batches(size):
                gaps = self.missing[start : start + len(part)]
                start += len(part)
                rows = self.density.sample_rows(part, draws, generator)  # (B, S, D)
                drawn = decode(self.schema, rows.transpose(0, 1).flatten(0, 1))
                for place in self.places:
                    series = drawn.iloc[:, self.evidence.columns[place]]
                    for number, fills in enumerate(found):
                        own = series.iloc[number * len(part) : (number + 1) * len(part)]
                        fills[place].append(as_objects(own[gaps[:, place]]))
        return [
            self._completed({i: np.concatenate(values) for i, values in fills.items()})
            for fills in found
        ]

    def _conditionals(self) -> Iterator[tuple[int, Column, Univariates]]:
        """Give the conditionals of missing cells, column by column: two passes for each batch."""
        size, start = self.density.rows_at_once(), 0
        for part in self.evidence.batches(size):
            gaps = self.missing[start : start + len(part)]
            start += len(part)
            held = [i for i in self.places if gaps[:, i].any()]
            if not held:
                continue
            asked = [self.evidence.columns[i] for i in held]
            with torch.no_grad():
                every = self.density.univariates(part, asked)
                for at, place in enumerate(held):
                    rows = torch.from_numpy(np.flatnonzero(gaps[:, place])).to(part.lower.device)
                    yield place, self.schema.columns[asked[at]], every.take(at, rows)

    def _completed(self, fills: dict[int, Any]) -> Any:
        frame = self._frame()
        for place, values in fills.items():
            name = frame.columns[place]
            frame[name] = _filled(frame[name], self.missing[:, place], values)
        return like(self.x, frame)

    def _frame(self) -> pd.DataFrame:
        return as_frame(self.x, [self.schema.names[c] for c in self.evidence.columns]).copy()


def _filled(series: pd.Series, missing: npt.NDArray[np.bool_], values: Any) -> pd.Series:
    """Put values into a column, which keeps its dtype if they fit it, and becomes float if not."""
    filled = series.astype(object)
    filled.iloc[np.flatnonzero(missing)] = list(values)
    try:
        with np.errstate(invalid="raise"):  # a mean may round to beyond the integers of the dtype
            return filled.astype(series.dtype)
    except (TypeError, ValueError, ArithmeticError):
        numbers = pd.api.types.infer_dtype(list(values)) in ("floating", "integer")
        if numbers and pd.api.types.is_numeric_dtype(series.dtype):
            return filled.astype("Float64" if hasattr(series.dtype, "na_value") else float)
        return filled


def _summary(parts: Univariates, schema: Schema, column: Column, method: Method) -> Any:
    """Return what fills the cells of one column, as an array of objects."""
    if isinstance(column.kind, Categorical) and not (method == "median" and column.ordered):
        codes = most_likely(parts, len(column.kind.categories or ()))
        return as_objects(decode_column(schema, column.name, codes))
    if method == "mean":
        return as_objects(mean_values(column, moments(parts, column)[0]))
    if method == "mode":
        return as_objects(decode_column(schema, column.name, modes(parts, column)))
    half = torch.full((1, 1, 1), 0.5, dtype=torch.float64)
    return as_objects(decode_column(schema, column.name, parts.ppf(half)[0, :, 0]))


def mean_values(column: Column, numbers: Tensor) -> Any:
    """Give means as floats, which need not be values of the column, and of times as times."""
    if family(column.dtype) != "number":
        return restored(column, numbers.numpy())
    # As a float: a reference may be an integer that torch does not hold.
    return (numbers + float(column.reference if isinstance(column.kind, Integer) else 0)).numpy()
