"""Filling the missing cells of a table."""

from collections.abc import Iterator
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import (
    Categorical,
    Column,
    Discrete,
    Integer,
    Schema,
    decode,
    decode_column,
    encode,
)
from marginals.columns.decoding import restored
from marginals.columns.dtypes import family
from marginals.columns.table_axis import TableAxis
from marginals.columns.table_coercion import as_frame
from marginals.densities import Density, Univariates
from marginals.queries.central_ends import central_ends
from marginals.queries.modes import modes
from marginals.queries.moments import check_finite, moments
from marginals.queries.named_rows import NamedModel, seed_of
from marginals.queries.positions import seeded
from marginals.queries.requests import as_objects, like
from marginals.runtime.threads import answering

Method = Literal["mean", "median", "mode"]


class Imputations(NamedModel):
    """Missing cells filled from their conditional distributions, by column names."""

    def impute(
        self,
        x: Any,
        method: str = "mean",
        draws: int = 1,
        random_state: Any = None,
        *,
        columns: Any = None,
    ) -> Any:
        """Fill the missing cells of a table; observed cells do not change.

        Integer columns are filled with integers: the mean is rounded to a value of the column
        (`mean` returns the exact one). A column that was fitted as integers, and became floats to
        hold gaps, is converted back to integers. With `handle_unknown="missing"`, categories not
        seen in training do not change.

        Args:
            x: a table with some of the model's columns.
            method: conditional "mean", "median" or "mode", or a joint "draw". Categories take
                their most likely value unless drawn.
            draws: for method "draw", the number of completed tables.
            random_state: seed for the draws.
            columns: the columns to fill, by default those of `x`. Columns absent from `x` are
                added.

        Returns:
            A completed table of the same type as `x`, or a list of tables if `draws` > 1.
        """
        if method not in ("mean", "median", "mode", "draw"):
            raise ValueError(
                f"Expected `method` to be 'mean', 'median', 'mode' or 'draw'; got {method!r}."
            )
        if draws < 1 or (draws > 1 and method != "draw"):
            raise ValueError(
                f"Expected `draws` to be 1, or more for method 'draw'; got {draws} for {method!r}."
            )
        density, schema = self._parts()
        filled = Imputation(density, schema, x, columns)
        if method == "draw":
            tables = filled.drawn(draws, seeded(density, seed_of(random_state)))
            return tables if draws > 1 else tables[0]
        return filled.summarised(method)  # type: ignore[arg-type]

    def impute_interval(self, x: Any, level: float = 0.9) -> pd.DataFrame:
        """Return the central interval of each missing cell: a line with row, column and ends.

        Unordered categories have no interval. If a smooth column is rounded to values, the ends are
        the values whose tails are nearest to those of the level.

        Args:
            x: a table with some of the model's columns.
            level: the probability that a missing cell lies between its ends.
        """
        check_level(level)
        return Imputation(*self._parts(), x).intervals(level)


@final
class Imputation:
    """The missing cells of a table and their conditional distributions.

    Args:
        density: the density on the model's scale.
        schema: the schema of its columns.
        x: a table with some of the columns.
        columns: the columns to fill, by default those of `x`. Columns that `x` lacks are added.
        only: the cells (B, n) to fill, if not all that are missing.
    """

    def __init__(
        self,
        density: Density,
        schema: Schema,
        x: Any,
        columns: Any = None,
        only: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        chosen = None if columns is None else schema.positions(columns)
        x = x if chosen is None else _with_columns(x, [schema.names[i] for i in chosen])
        self.density, self.schema, self.x = density, schema, x
        self.evidence = density.checked(encode(schema, x).evidence)
        self.missing: npt.NDArray[np.bool_] = self.evidence.lower.isnan().cpu().numpy()  # (B, n)
        frame = as_frame(x, [schema.names[c] for c in self.evidence.columns])
        for place, position in enumerate(self.evidence.columns):
            if isinstance(schema.columns[position].kind, Categorical):
                # A category not seen in training is not observed, and stays as it is.
                self.missing[:, place] &= frame.iloc[:, place].isna().to_numpy(dtype=bool)
        if chosen is not None:
            self.missing[:, [c not in chosen for c in self.evidence.columns]] = False
        if only is not None:
            self.missing &= only
        self.places: list[int] = np.flatnonzero(self.missing.any(0)).tolist()

    def summarised(self, method: Method) -> Any:
        """Fill each missing cell with a summary of its conditional given the row's other cells."""
        found: dict[int, list[tuple[Any, Any]]] = {i: [] for i in self.places}
        for place, column, rows, parts in self.conditionals():
            found[place].append((rows, _summary(parts, self.schema, column, method)))
        return self._completed({i: _in_order(parts) for i, parts in found.items()})

    def drawn(self, draws: int, generator: torch.Generator) -> list[Any]:
        """Fill all missing cells of a row by joint draws: a table for each draw."""
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

    def intervals(self, level: float) -> pd.DataFrame:
        """Return row, column and central interval of each missing cell, one per line."""
        index = as_frame(self.x, self.schema.names).index
        parts = [
            pd.DataFrame(
                {"row": index[rows], "column": name, "lower": low, "upper": high},
                index=pd.MultiIndex.from_product([[place], rows]),
            )
            for place, name, rows, low, high in self._ends(level)
        ]
        blank = pd.DataFrame(columns=["row", "column", "lower", "upper"])
        return pd.concat(parts).sort_index().reset_index(drop=True) if parts else blank

    def bounds(self, level: float) -> tuple[Any, Any]:
        """Return two tables, of lower and of upper ends; an observed cell is its own interval.

        Categories without an order have no interval: their cells stay missing.
        """
        lower: dict[int, list[tuple[Any, Any]]] = {}
        upper: dict[int, list[tuple[Any, Any]]] = {}
        for place, _, rows, low, high in self._ends(level):
            lower.setdefault(place, []).append((rows, low))
            upper.setdefault(place, []).append((rows, high))
        sides = [
            self._completed({place: _in_order(ends) for place, ends in side.items()})
            for side in (lower, upper)
        ]
        return sides[0], sides[1]

    def _ends(self, level: float) -> Iterator[tuple[int, Any, Any, Any, Any]]:
        """Give place and name of a column, rows, lower and upper ends, batch by batch."""
        for place, column, rows, parts in self.conditionals():
            if isinstance(column.kind, Categorical) and not column.ordered:
                continue
            low, high = (as_objects(end) for end in central_ends(parts, self.schema, column, level))
            yield place, column.name, rows, low, high

    def conditionals(self) -> Iterator[tuple[int, Column, Any, Univariates]]:
        """Give place, column, rows and conditionals of missing cells, batch by batch."""
        for group in _alike(self.density, self.evidence):
            size = self.density.rows_at_once(self.evidence.rows(group))
            for index in group.split(size):
                yield from self._conditionals_of(index)

    def _conditionals_of(self, index: Tensor) -> Iterator[tuple[int, Column, Any, Univariates]]:
        """Give place, column, rows and conditionals of the missing cells of one batch of rows."""
        number = index.cpu().numpy()
        gaps = self.missing[number]
        held = [i for i in self.places if gaps[:, i].any()]
        if not held:
            return
        asked = [self.evidence.columns[i] for i in held]
        with torch.no_grad(), answering():
            every = self.density.univariates(self.evidence.rows(index), asked)
            for at, place in enumerate(held):
                rows = np.flatnonzero(gaps[:, place])
                own = every.take(at, torch.from_numpy(rows).to(index.device))
                yield place, self.schema.columns[asked[at]], number[rows], own

    def _completed(self, fills: dict[int, Any]) -> Any:
        """Return the table with the missing cells of some columns filled."""
        names = [self.schema.names[c] for c in self.evidence.columns]
        frame = as_frame(self.x, names).copy()
        for place, values in fills.items():
            name, column = frame.columns[place], self.schema.columns[self.evidence.columns[place]]
            frame[name] = _filled(frame[name], self.missing[:, place], values, column)
        return like(self.x, frame)


def _alike(density: Density, evidence: Evidence) -> list[Tensor]:
    """Return the rows in groups of similar cost: one group, unless one-sided cells cost more.

    The first or last value of a bounded lattice is such a cell. In coupled columns it stands for
    many points, and two of them for all their pairs; the row with the most points sets the cost of
    its whole batch.
    """
    sided = (evidence.lower.isinf() ^ evidence.upper.isinf()).sum(1).clamp_max(2)
    groups = [(sided == count).nonzero()[:, 0] for count in range(3)]
    groups = [group for group in groups if len(group)]
    cost = density.row_cost(evidence)
    if all(density.row_cost(evidence.rows(group)) == cost for group in groups):
        return [torch.arange(len(evidence), device=evidence.lower.device)]
    return groups


def _in_order(parts: list[tuple[Any, Any]]) -> Any:
    """Return the values of all parts, each with the numbers of its rows, by rising row."""
    rows = np.concatenate([rows for rows, _ in parts])
    return np.concatenate([values for _, values in parts])[rows.argsort()]


def check_level(level: float) -> None:
    """Refuse the level of an interval that is not between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(
            f"Expected `level` to lie between 0 and 1; got {level}. Give 0.9 for 90 %."
        )


def _with_columns(x: Any, names: list[Any]) -> Any:
    """Return a table with the columns that it lacks added at the end, missing."""
    absent = [name for name in names if isinstance(x, pd.DataFrame) and name not in x.columns]
    blank = pd.DataFrame(None, index=getattr(x, "index", None), columns=absent, dtype=object)
    return pd.concat([x, blank], axis=1) if absent else x


def _filled(
    series: pd.Series, missing: npt.NDArray[np.bool_], values: Any, column: Column
) -> pd.Series:
    """Put values into a column, which keeps its dtype if they fit it, and becomes float if not.

    A column without any value, and integers held as floats because of gaps, get the dtype fitted.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):  # which may lack categories of the model
        known = set(series.cat.categories)
        series = series.cat.add_categories([v for v in dict.fromkeys(values) if v not in known])
    filled = series.astype(object)
    filled.iloc[np.flatnonzero(missing)] = list(values)
    dtype = series.dtype
    fitted = decode(Schema((column,)), torch.empty(0, 1)).iloc[:, 0].dtype
    whole = _is_whole(column) and dtype.kind == "f" and fitted.kind in "iu"
    if whole or bool(series.isna().all()):
        dtype = fitted
    if isinstance(dtype, np.dtype) and dtype.kind in "iu" and not _all_whole(values):
        dtype = np.dtype(np.float64)  # means of whole numbers that are modelled as smooth
    try:
        with np.errstate(invalid="raise"):  # a mean may lie beyond the integers of the dtype
            return filled.astype(dtype)
    except (TypeError, ValueError, ArithmeticError):
        numbers = pd.api.types.infer_dtype(list(values)) in ("floating", "integer")
        if numbers and pd.api.types.is_numeric_dtype(series.dtype):
            return filled.astype("Float64" if hasattr(series.dtype, "na_value") else float)
        return filled


def _summary(parts: Univariates, schema: Schema, column: Column, method: Method) -> Any:
    """Return the fills of one column, as an array of objects."""
    unordered = isinstance(column.kind, Categorical) and not (method == "median" and column.ordered)
    if method == "mean" and not unordered:
        means = moments(parts, column)[0]
        if _is_whole(column):  # to the nearest value of the column
            line = column.axis
            means = _nearest(line.values, means) if isinstance(line, TableAxis) else means.round()
        return as_objects(mean_values(column, means))
    if method == "mode" or unordered:
        return as_objects(decode_column(schema, column.name, modes(parts, column)))
    half = torch.full((1, 1, 1), 0.5, dtype=torch.float64)
    return as_objects(decode_column(schema, column.name, parts.ppf(half)[0, :, 0]))


def _is_whole(column: Column) -> bool:
    """Say whether a column holds whole numbers only."""
    if isinstance(column.kind, Discrete):
        numbers = family(column.dtype) == "number"
        return numbers and all(float(value).is_integer() for value in column.listed or ())
    return isinstance(column.kind, Integer)


def _all_whole(values: Any) -> bool:
    return bool((np.rint(values.astype(np.float64)) == values).all())


def _nearest(values: npt.NDArray[np.float64], numbers: Tensor) -> Tensor:
    """Return the nearest of some values, (V,), to each number, (B,)."""
    every = torch.from_numpy(values)
    return every[(numbers[:, None] - every).abs().argmin(1)]


def mean_values(column: Column, numbers: Tensor) -> Any:
    """Return means as floats, which need not be values of the column; those of times as times."""
    check_finite(column, "mean", numbers)
    if family(column.dtype) != "number":
        return restored(column, numbers.numpy())
    if column.rounding is not None:
        return column.rounding.clipped(numbers.numpy())
    # As a float: a reference may be an integer that torch cannot hold.
    return (numbers + float(column.reference if isinstance(column.kind, Integer) else 0)).numpy()
