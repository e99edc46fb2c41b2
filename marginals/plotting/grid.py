"""The points at which a column is drawn, and the model's answers there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.columns import Categorical, Column, Continuous, Schema
from marginals.plotting.axis_scale import Scale, scale_of

__all__ = ["Grid", "Subject", "cells", "drawn", "grid_of", "joint", "masses", "subject"]

Floats = npt.NDArray[np.float64]

MOST_CATEGORIES = 12  # shown, the likeliest
MOST_BARS = 60  # of a lattice; more are as good as a curve
MOST_STRIPS = 8  # of a lattice in a pair, each with a strip of its own
_TAIL = 0.005  # left out at each end


@final
@dataclass(frozen=True)
class Grid:
    """Points of one column, evenly spaced but for categories.

    Args:
        scale: the axis.
        numbers: (n,), along the axis; of categories, their places 0, 1, ...
        values: what the model is asked about.
        step: of a lattice its own in units of the axis, 0 for categories and without a lattice.
        left_out: how many categories are not shown.
    """

    scale: Scale
    numbers: Floats
    values: Any
    step: float = 0.0
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def name(self) -> Any:
        """The column's name."""
        return self.scale.column.name

    @property
    def category(self) -> bool:
        """Whether the points are categories."""
        return self.scale.family == "category"

    @property
    def full(self) -> bool:
        """Whether no value between the ends is left out: sums over it are probabilities."""
        return self.category or (self.step > 0 and self.spacing < 1.5 * self.step)

    @property
    def spacing(self) -> float:
        """The distance of neighbouring points."""
        if len(self) < 2:
            return self.step or 1.0
        return float((self.numbers[-1] - self.numbers[0]) / (len(self) - 1))

    @property
    def bars(self) -> bool:
        """Whether the marginal is drawn as bars of probability."""
        return self.full and len(self) <= MOST_BARS

    @property
    def strips(self) -> bool:
        """Whether each value has a strip of its own in a pair."""
        return self.full and len(self) <= (MOST_CATEGORIES if self.category else MOST_STRIPS)

    @property
    def edges(self) -> tuple[float, float]:
        """The ends of what is drawn, half a spacing beyond the outer points."""
        half = self.spacing / 2
        return float(self.numbers[0] - half), float(self.numbers[-1] + half)

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis, with room for the mark of an atom at either end."""
        low, high = self.edges
        kind = self.scale.column.kind
        room = 0.03 * (high - low) if isinstance(kind, Continuous) and kind.atoms else 0.0
        return low - room, high + room

    @property
    def per_unit(self) -> float:
        """What makes the model's answer a density along the axis, where bars are none."""
        return 1 / self.step if self.step else self.scale.seconds

    def places(self, values: Any) -> Floats:
        """Return where values lie along this axis, NaN where they are not shown."""
        numbers = self.scale.numbers(values)
        if not self.category:
            return numbers
        codes = self.scale.numbers(self.values)
        place = {code: float(i) for i, code in enumerate(codes)}
        return np.array([place.get(code, np.nan) for code in numbers], dtype=np.float64)


class Subject(NamedTuple):
    """What is drawn: a distribution, perhaps conditioned, its columns, and data beside it."""

    view: Any
    schema: Schema
    data: pd.DataFrame | None


def subject(model: Any, given: Any, data: Any) -> Subject:
    """Check the arguments that most pictures share."""
    schema = getattr(model, "schema_", None)
    if not isinstance(schema, Schema):
        raise TypeError(
            "Expected `model` to be a fitted MDMA or a view of one; got "
            f"{type(model).__name__} without a schema. Call `fit` first."
        )
    if given is None:
        return Subject(model, schema, _as_frame(data, schema))
    if not isinstance(given, Mapping):
        raise TypeError(
            f"Expected `given` to be a dict of evidence; got {type(given).__name__}. A picture "
            "shows one piece of evidence: give one row as a dict."
        )
    view = model.condition(given)
    return Subject(view, view.schema_, _as_frame(data, schema))


def drawn(schema: Schema, columns: Any, given: Mapping[Any, Any] | None) -> list[Any]:
    """Return the names of columns to draw; by default all about which nothing is given."""
    known = () if given is None else schema.positions(given)
    if columns is None:
        return [name for i, name in enumerate(schema.names) if i not in known]
    positions = schema.positions(columns)
    for i in set(positions) & set(known):
        raise ValueError(
            f"Expected `given` to be about columns that are not drawn; got {schema.names[i]!r}. "
            "Leave it out of one of them."
        )
    return [schema.names[i] for i in positions]


def grid_of(asked: Subject, name: Any, count: int) -> Grid:
    """Return the points at which to draw a column, about `count` of them along a line."""
    column = asked.schema[name]
    if isinstance(column.kind, Categorical):
        return _categories(asked, column)
    ends = asked.view.ppf([_TAIL, 1 - _TAIL], column.name)
    scale = scale_of(column, ends[1] - ends[0])
    low, high = scale.numbers(ends)
    if (seen := cells(asked, column)) is not None:
        numbers = scale.numbers(seen)
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers):
            inner = np.quantile(numbers, [_TAIL, 1 - _TAIL], method="nearest")
            low, high = min(low, inner[0]), max(high, inner[1])
    if _resolution(column) is None:
        return _line(scale, low, high, count)
    return _lattice(scale, ends[0], low, high, count)


def cells(asked: Subject, column: Column) -> Any:
    """Return the data's cells of a column, None without data."""
    if asked.data is None:
        return None
    if column.name not in asked.data.columns:
        raise ValueError(
            f"Expected `data` to have the column {column.name!r}; got the columns "
            f"{list(asked.data.columns)[:8]}. Add it, or draw other columns."
        )
    return asked.data[column.name]


def masses(asked: Subject, grid: Grid) -> Floats:
    """Return the probability of each value if the grid shows bars, else the density (n,)."""
    answer = np.asarray(asked.view.pdf(_table({grid.name: grid.values})))
    return answer if grid.bars else answer * grid.per_unit


def joint(asked: Subject, x: Grid, y: Grid) -> Floats:
    """Return the density or mass at each pair of points (y, x)."""
    across = np.tile(np.arange(len(x)), len(y))
    up = np.repeat(np.arange(len(y)), len(x))
    table = _table({x.name: _taken(x.values, across), y.name: _taken(y.values, up)})
    return np.asarray(asked.view.pdf(table)).reshape(len(y), len(x))


# Parts ----------------------------------------------------------------------------------------


def _as_frame(data: Any, schema: Schema) -> pd.DataFrame | None:
    """Return data as a DataFrame with the columns' names."""
    if data is None or isinstance(data, pd.DataFrame):
        return data
    array = np.asarray(data)
    if array.ndim != 2 or array.shape[1] != len(schema):
        raise ValueError(
            f"Expected `data` to be a DataFrame or to have {len(schema)} columns; got shape "
            f"{array.shape}. Name its columns in a DataFrame."
        )
    return pd.DataFrame(array, columns=pd.Index(schema.names))


def _table(columns: dict[Any, Any]) -> pd.DataFrame:
    # Made column by column: as keyword dicts, names that are numbers would be sorted.
    frame = pd.concat([pd.Series(values) for values in columns.values()], axis=1)
    frame.columns = pd.Index(list(columns))
    return frame


def _taken(values: Any, index: npt.NDArray[np.int64]) -> Any:
    return pd.Series(values).iloc[index].reset_index(drop=True)


def _categories(asked: Subject, column: Column) -> Grid:
    assert isinstance(column.kind, Categorical)
    values = pd.Series(list(column.kind.categories or ()), dtype=object)
    left_out = max(0, len(values) - MOST_CATEGORIES)
    if left_out:
        mass = np.asarray(asked.view.pdf(_table({column.name: values})))
        kept = np.sort(np.argsort(-mass, kind="stable")[:MOST_CATEGORIES])
        values = values.iloc[kept].reset_index(drop=True)
    return Grid(scale_of(column), np.arange(len(values), dtype=np.float64), values, 0.0, left_out)


def _line(scale: Scale, low: float, high: float, count: int) -> Grid:
    """Return the middles of equal cells: none lies on a bound, where there is no density."""
    kind = scale.column.kind
    assert isinstance(kind, Continuous)
    pad = 0.04 * (high - low) if high > low else 0.5
    low, high = low - pad, high + pad
    low = low if kind.lower is None else max(low, scale.numbers([kind.lower])[0])
    high = high if kind.upper is None else min(high, scale.numbers([kind.upper])[0])
    step = (high - low) / count
    numbers = low + (np.arange(count) + 0.5) * step
    atoms = scale.numbers(list(kind.atoms)) if kind.atoms else np.empty(0)
    # An atom's answer is a mass, which is no point of the curve.
    numbers = np.where(np.isin(numbers, atoms), numbers + step / 16, numbers)
    return Grid(scale, numbers, scale.values(numbers))


def _lattice(scale: Scale, first: Any, low: float, high: float, count: int) -> Grid:
    """Return every value of a lattice, or if there are too many every so manieth."""
    resolution = _resolution(scale.column)
    (start,) = scale.numbers([first])
    step = resolution / pd.Timedelta(seconds=scale.seconds) if scale.unit else float(resolution)
    before, after = round((start - low) / step), round((high - start) / step)
    stride = 1 if before + after < MOST_BARS else max(1, (before + after) // count)
    steps = np.arange(-(before // stride) * stride, after + 1, stride)
    # Python's own numbers: the column's may be too narrow for the sums.
    origin = first if scale.unit else (float if isinstance(resolution, float) else int)(first)
    values = pd.Series([origin + int(k) * resolution for k in steps])
    return Grid(scale, scale.numbers(values), values, step)


def _resolution(column: Column) -> Any:
    """Return the step of a column whose values are on a lattice, else None."""
    kind = column.kind
    if not isinstance(kind, Continuous):
        return 1
    plain = kind.resolution is None or isinstance(kind.resolution, pd.Timedelta)
    return kind.resolution if plain else float(kind.resolution)
