"""The points at which a column is drawn, and the model's densities there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.columns import Categorical, Column, Continuous, Discrete, Schema
from marginals.plotting.axis_scale import Scale, scale_of

Floats = npt.NDArray[np.float64]

MOST_CATEGORIES = 12  # shown, the most probable
MOST_BARS = 60  # for a lattice; a curve shows more as well
MOST_STRIPS = 8  # for a lattice in a pair
_TAIL = 0.005  # left out at each end


@final
@dataclass(frozen=True)
class Grid:
    """Hold points of one column, evenly spaced.

    Args:
        scale: the axis.
        numbers: points along the axis (n,); for categories, their places 0, 1, ...
        values: the points as values for a query.
        step: step of a lattice in units of the axis; 0 for categories and without a lattice.
        left_out: number of categories that are not shown.
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
        """Return the column's name."""
        return self.scale.column.name

    @property
    def category(self) -> bool:
        """Return whether the points are categories."""
        return self.scale.family == "category"

    @property
    def atoms(self) -> Floats:
        """Return the values with a probability of their own, along the axis; none among bars."""
        found = list(self.atom_values)
        return self.scale.numbers(found) if found else np.empty(0)

    @property
    def atom_values(self) -> tuple[Any, ...]:
        """Return the values with a probability of their own; none among bars."""
        return () if self.bars else getattr(self.scale.column.kind, "atoms", ())

    @property
    def spacing(self) -> float:
        """Return the distance between neighbouring points."""
        if len(self) < 2:
            return self.step or 1.0
        return float((self.numbers[-1] - self.numbers[0]) / (len(self) - 1))

    @property
    def full(self) -> bool:
        """Return whether the grid holds every value between its ends, so masses can be summed."""
        return self.category or (self.step > 0 and self.spacing < 1.5 * self.step)

    @property
    def bars(self) -> bool:
        """Return whether the marginal is drawn as bars of probability."""
        return self.full and len(self) <= MOST_BARS

    @property
    def strips(self) -> bool:
        """Return whether each value has a strip of its own in a pair."""
        return self.full and len(self) <= (MOST_CATEGORIES if self.category else MOST_STRIPS)

    @property
    def edges(self) -> tuple[float, float]:
        """Return the ends of the drawn range, half a spacing beyond the outer points."""
        half = self.spacing / 2
        return float(self.numbers[0] - half), float(self.numbers[-1] + half)

    @property
    def limits(self) -> tuple[float, float]:
        """Return the ends of the axis, with room for the mark of an atom at either end."""
        low, high = self.edges
        room = 0.03 * (high - low) if len(self.atoms) else 0.0
        return low - room, high + room

    def places(self, values: Any) -> Floats:
        """Return the places of values along this axis, NaN if not shown."""
        numbers = self.scale.numbers(values)
        if not self.category:
            return numbers
        place = {code: float(i) for i, code in enumerate(self.scale.numbers(self.values))}
        return np.array([place.get(code, np.nan) for code in numbers], dtype=np.float64)


class Subject(NamedTuple):
    """Hold what is drawn: a distribution, perhaps conditioned, its columns, and data or None."""

    view: Any
    schema: Schema
    data: pd.DataFrame | None

    def cells(self, name: Any) -> Any:
        """Return the data's cells in a column."""
        assert self.data is not None
        if name not in self.data.columns:
            raise ValueError(
                f"Expected `data` to have the column {name!r}; got the columns "
                f"{list(self.data.columns)[:8]}. Add it, or draw other columns."
            )
        return self.data[name]


def subject(model: Any, given: Any, data: Any) -> Subject:
    """Check a plot's model, evidence and data, and condition the model on the evidence."""
    schema = getattr(model, "schema_", None)
    if not isinstance(schema, Schema):
        raise TypeError(
            "Expected `model` to be a fitted MDMA or a view of one; got "
            f"{type(model).__name__} without a schema. Call `fit` first."
        )
    if not isinstance(given, Mapping | None):
        raise TypeError(
            f"Expected `given` to be a dict of evidence; got {type(given).__name__}. A plot shows "
            "one piece of evidence: give one row as a dict."
        )
    view = model if given is None else model.condition(given)
    if data is not None and not isinstance(data, pd.DataFrame):
        array = np.asarray(data)
        if array.ndim != 2 or array.shape[1] != len(schema):
            raise ValueError(
                f"Expected `data` to be a DataFrame or to have {len(schema)} columns; got shape "
                f"{array.shape}. Name its columns in a DataFrame."
            )
        data = pd.DataFrame(array, columns=pd.Index(schema.names))
    return Subject(view, view.schema_, data)


def drawn(schema: Schema, columns: Any, given: Mapping[Any, Any] | None) -> list[Any]:
    """Return the names of the columns to draw; by default all without evidence."""
    known = () if given is None else schema.positions(given)
    if columns is None:
        return [name for i, name in enumerate(schema.names) if i not in known]
    positions = schema.positions(columns)
    for i in set(positions) & set(known):
        raise ValueError(
            f"Expected `given` to hold columns that are not drawn; got {schema.names[i]!r}. "
            "Leave it out of one of them."
        )
    return [schema.names[i] for i in positions]


def grid_of(source: Subject, name: Any, count: int) -> Grid:
    """Return the points at which to draw a column, about `count` if it is continuous."""
    column = source.schema[name]
    if isinstance(column.kind, Categorical):
        return _categories(source, column)
    if isinstance(column.kind, Discrete):
        return _few_values(column)
    ends = source.view.ppf([_TAIL, 1 - _TAIL], column.name)
    scale = scale_of(column, ends[1] - ends[0])
    low, high = scale.numbers(ends)
    if source.data is not None:
        numbers = scale.numbers(source.cells(column.name))
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers):
            inner = np.quantile(numbers, [_TAIL, 1 - _TAIL], method="nearest")
            low, high = min(low, inner[0]), max(high, inner[1])
    resolution = column.kind.resolution if isinstance(column.kind, Continuous) else 1
    if resolution is None:
        return _line(scale, low, high, count)
    return _lattice(scale, resolution, ends[0], low, high, count)


def masses(source: Subject, grid: Grid) -> Floats:
    """Return the probability of each value if the grid shows bars, else the density (n,)."""
    found = np.asarray(source.view.pdf(_table({grid.name: grid.values})))
    if grid.bars:
        return found
    return found * (1 / grid.step if grid.step else grid.scale.seconds)


def joint(source: Subject, x: Grid, y: Grid) -> Floats:
    """Return the density or mass at each pair of points (y, x)."""
    up, across = np.indices((len(y), len(x))).reshape(2, -1)
    columns = {
        grid.name: pd.Series(grid.values).iloc[index].reset_index(drop=True)
        for grid, index in ((x, across), (y, up))
    }
    return np.asarray(source.view.pdf(_table(columns))).reshape(len(y), len(x))


def _table(columns: dict[Any, Any]) -> pd.DataFrame:
    # Built by column: a dict would sort names that are numbers.
    frame = pd.concat([pd.Series(values) for values in columns.values()], axis=1)
    frame.columns = pd.Index(list(columns))
    return frame


def _categories(source: Subject, column: Column) -> Grid:
    assert isinstance(column.kind, Categorical)
    values = pd.Series(list(column.kind.categories or ()), dtype=object)
    left_out = max(0, len(values) - MOST_CATEGORIES)
    if left_out:
        mass = np.asarray(source.view.pdf(_table({column.name: values})))
        kept = np.sort(np.argsort(-mass, kind="stable")[:MOST_CATEGORIES])
        values = values.iloc[kept].reset_index(drop=True)
    return Grid(scale_of(column), np.arange(len(values), dtype=np.float64), values, 0.0, left_out)


def _few_values(column: Column) -> Grid:
    """Return all values of a discrete column."""
    listed = pd.Series(list(column.listed or ()))
    scale = scale_of(column, listed.iloc[-1] - listed.iloc[0])
    numbers = scale.numbers(listed)
    step = (numbers[-1] - numbers[0]) / max(1, len(numbers) - 1)
    return Grid(scale, numbers, listed, float(step) or 1.0)


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
    atoms = Grid(scale, numbers, None).atoms
    # An atom has a mass, which is not a point on the curve: draw beside it.
    numbers = np.where(np.isin(numbers, atoms), numbers + step / 16, numbers)
    return Grid(scale, numbers, scale.values(numbers))


def _lattice(
    scale: Scale, resolution: Any, first: Any, low: float, high: float, count: int
) -> Grid:
    """Return every value of a lattice, or about `count` of them if there are too many."""
    if isinstance(scale.column.kind, Continuous) and not scale.unit:
        resolution = float(resolution)
    (start,) = scale.numbers([first])
    step = resolution / pd.Timedelta(seconds=scale.seconds) if scale.unit else float(resolution)
    before, after = round((start - low) / step), round((high - start) / step)
    stride = 1 if before + after < MOST_BARS else max(1, (before + after) // count)
    steps = np.arange(-(before // stride) * stride, after + 1, stride)
    # Python's own numbers: the column's dtype may be too narrow for the sums.
    origin = first if scale.unit else (float if isinstance(resolution, float) else int)(first)
    values = pd.Series([origin + int(k) * resolution for k in steps])
    found = Grid(scale, scale.numbers(values), values, step)
    smooth = ~np.isin(np.rint(found.numbers / step), np.rint(found.atoms / step))
    if smooth.all():
        return found
    # An atom has a mass, which is not a point on the curve.
    return Grid(scale, found.numbers[smooth], values[smooth].reset_index(drop=True), step)
