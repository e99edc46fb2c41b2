"""Where a column is drawn: bars of values, or bins of a curve."""

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from marginals.columns import Categorical, Column, Integer, Schema, decode_column
from marginals.columns.axis import quiet
from marginals.columns.cell_reading import numbers
from marginals.columns.decoding import restored
from marginals.columns.dtypes import family, zone
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.plain_values import plain
from marginals.columns.smooth_axis import SmoothAxis
from marginals.columns.table_axis import TableAxis
from marginals.densities import Density

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Family = Literal["category", "number", "time", "span"]

# Bins of a curve: about two pixels each.
BINS = 100
# A lattice with more values between its extreme quantiles is drawn as a curve.
MOST_BARS = 40
# Levels of the ends of the axis, and of points beyond them that bracket quantiles.
_TAIL = 0.002
_OUTER = (1e-6, 1e-4, 1e-3)
# Room beyond the outer quantiles, relative to the range.
_ROOM = 0.04


@final
@dataclass(frozen=True)
class MonitorAxis:
    """The axis of one column's monitor.

    Args:
        position: of the column in the model.
        id: the column's name as text, unique in the table.
        column: its description.
        kind: "bars" for few values, each with a mass; "curve" for bins with densities.
        places: bars: the values as numbers, for categories 0, 1, ...; curve: the ends of the bins.
        labels: of the bars.
        values: of the bars, as users write them.
        points: in rising order, where the CDF is evaluated, on the model's scale.
        ends: places among `points` of the ends of bars or bins, one more than there are of them.
        atoms: values of a curve with masses of their own, as numbers.
        atom_ends: places among `points` just below and at each atom, (A, 2).
    """

    position: int
    id: str
    column: Column
    kind: Literal["bars", "curve"]
    places: Floats
    labels: tuple[str, ...]
    values: tuple[Any, ...]
    points: Floats
    ends: Whole
    atoms: Floats
    atom_ends: Whole

    @property
    def family(self) -> Family:
        """The family of the values."""
        return family_of(self.column)

    @property
    def ordered(self) -> bool:
        """Whether the column has quantiles."""
        return not isinstance(self.column.kind, Categorical) or self.column.ordered

    @property
    def step(self) -> float | None:
        """The distance between values of a lattice, in the numbers of the page; else None."""
        line = self.column.axis
        if not isinstance(line, LatticeAxis):
            return None
        with quiet():
            pair = np.array([0.0, line.step]) + line.snapped(np.array([line.offset]))[0]
        low, high = to_page(self.column, restored(self.column, pair))
        return float(high - low)

    def describe(self) -> dict[str, Any]:
        """Return what the page needs to draw the axis."""
        bounds = getattr(self.column.kind, "lower", None), getattr(self.column.kind, "upper", None)
        ends = [None if b is None else float(to_page(self.column, [b])[0]) for b in bounds]
        return {
            "id": self.id,
            "kind": self.kind,
            "family": self.family,
            "ordered": self.ordered,
            "listed": self.column.listed is not None,
            "places": self.places.tolist(),
            "labels": list(self.labels),
            "atoms": self.atoms.tolist(),
            "step": self.step,
            "bounds": ends,
            "what": type(self.column.kind).__name__.lower(),
            "notes": list(self.column.notes),
        }


def family_of(column: Column) -> Family:
    """Return the family of a column's values."""
    return "category" if isinstance(column.kind, Categorical) else family(column.dtype)


def to_page(column: Column, values: Any) -> Floats:
    """Return values as the page's numbers: times in ms since 1970 (UTC), durations in seconds."""
    kind = family_of(column)
    if kind == "number" and isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        return values.astype(np.float64)
    series = pd.Series(list(values))
    if kind == "time":
        series = pd.to_datetime(series)
        if series.dt.tz is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return ((series - pd.Timestamp(0)) / pd.Timedelta(milliseconds=1)).to_numpy(np.float64)
    if kind == "span":
        return (pd.to_timedelta(series) / pd.Timedelta(seconds=1)).to_numpy(np.float64)
    return pd.to_numeric(series).to_numpy(dtype=np.float64, na_value=np.nan)


def from_page(column: Column, number: float) -> Any:
    """Return a number of the page as a value of the column."""
    kind = family_of(column)
    if kind == "time":
        time, own = pd.Timestamp(number * 1e6, unit="ns"), zone(column.dtype)
        return time if own is None else time.tz_localize("UTC").tz_convert(own)
    if kind == "span":
        return pd.Timedelta(seconds=number)
    return (
        int(number)
        if float(number).is_integer() and isinstance(column.kind, Integer)
        else float(number)
    )


def ids_of(schema: Schema) -> list[str]:
    """Return a unique text for each column: its name, with the position if names coincide."""
    texts = [str(name) if str(name).strip() else "(no name)" for name in schema.names]
    return [t if texts.count(t) == 1 else f"{t} ({i})" for i, t in enumerate(texts)]


def axes_of(density: Density, schema: Schema) -> list[MonitorAxis]:
    """Return the axes of all columns, by the quantiles of their margins, in one pass."""
    levels = torch.tensor([*_OUTER, _TAIL, 0.5], dtype=torch.float64)
    levels = torch.cat([levels, 1 - levels.flip(0)[1:]])
    with torch.no_grad():
        margins = density.univariates(None, range(len(schema)))
        grid = levels[:, None, None].expand(-1, 1, len(schema))
        outer = margins.ppf(grid)[:, 0].double().cpu().numpy()  # (L, n)
    return [
        _axis(schema, i, name, outer[:, i], margins.log_evidence.dtype)
        for i, name in enumerate(ids_of(schema))
    ]


def _axis(
    schema: Schema, position: int, name: str, outer: Floats, dtype: torch.dtype
) -> MonitorAxis:
    column = schema.columns[position]
    if column.listed is not None:
        return _listed(column, position, name)
    low, middle, high = outer[len(_OUTER)], outer[len(_OUTER) + 1], outer[-len(_OUTER) - 1]
    line = column.axis
    with quiet():
        ends = np.asarray(line.numbers(np.array([low, middle, high])), dtype=np.float64)
    if isinstance(line, LatticeAxis):
        count = round((ends[2] - ends[0]) / line.step) + 1
        if count <= MOST_BARS:
            return _lattice_bars(column, position, name, ends[0] + line.step * np.arange(count))
    return _curve(column, position, name, (ends[0], ends[2]), outer, dtype)


def _listed(column: Column, position: int, name: str) -> MonitorAxis:
    values = column.listed or ()
    places = np.arange(len(values), dtype=np.float64)
    if isinstance(column.axis, TableAxis):
        places = to_page(column, values)
    return MonitorAxis(
        position=position,
        id=name,
        column=column,
        kind="bars",
        places=places,
        labels=_distinct([_text(value) for value in values]),
        values=values,
        points=np.append(-np.inf, np.arange(len(values), dtype=np.float64)),
        ends=np.arange(len(values) + 1),
        atoms=np.empty(0),
        atom_ends=np.empty((0, 2), dtype=np.int64),
    )


def _lattice_bars(column: Column, position: int, name: str, steps: Floats) -> MonitorAxis:
    line = column.axis
    with quiet():
        steps = line.snapped(steps)
        below = np.full(len(steps), -np.inf)
        first = line.between(below[:1], steps[:1], high_closed=False)[1]
        upper = line.between(below, steps)[1]
    values = tuple(plain(value, f"column {name!r}") for value in restored(column, steps))
    first = np.where(upper[:1] <= first, -np.inf, first)  # nothing lies below the first value
    return MonitorAxis(
        position=position,
        id=name,
        column=column,
        kind="bars",
        places=to_page(column, values),
        labels=_distinct([_text(value) for value in values]),
        values=values,
        points=np.append(first, upper),
        ends=np.arange(len(steps) + 1),
        atoms=np.empty(0),
        atom_ends=np.empty((0, 2), dtype=np.int64),
    )


def _curve(
    column: Column,
    position: int,
    name: str,
    span: tuple[float, float],
    outer: Floats,
    dtype: torch.dtype,
) -> MonitorAxis:
    line = column.axis
    low, high = span
    # Bins are wider than the rounding of their ends.
    least = 2 * BINS * float(np.spacing(max(abs(low), abs(high))))
    room = max(_ROOM * (high - low) if high > low else 0.5, least)
    bottom, top = line.bounds
    low, high = max(low - room, bottom), min(high + room, top)
    bins = BINS
    edges: Floats
    if isinstance(line, LatticeAxis):  # whole steps per bin, else some hold more values
        stride = max(1, round((high - low) / line.step / BINS)) * line.step
        with quiet():
            low = float(line.numbers(line.point(np.array([low])))[0])
        bins = max(1, int(np.ceil((high - low) / stride)))
        edges = low - line.step / 2 + stride * np.arange(bins + 1, dtype=np.float64)
    else:
        edges = np.linspace(low, high, bins + 1, dtype=np.float64)
    own = [] if isinstance(line, LatticeAxis) else list(getattr(column.kind, "atoms", ()))
    atoms = numbers(column, pd.Series(own)) if own else np.empty(0)
    with quiet():
        floor = np.full(len(edges), -np.inf)
        at_edges = line.between(floor, edges)[1]
        below, at = (
            line.between(np.full(len(atoms), -np.inf), atoms, high_closed=closed)[1]
            for closed in (False, True)
        )
        # Nothing lies below an atom at the lower bound: the cell is empty.
        below = np.where(below >= at, -np.inf, below)
        at_edges[edges <= bottom] = -np.inf
        if isinstance(line, SmoothAxis):
            outer = np.append(outer, line.point(_towards(edges, bottom, top)))
    below = _just_below(below, at, dtype)
    points, places = np.unique(np.concatenate([at_edges, below, at, outer]), return_inverse=True)
    count = len(edges)
    if family_of(column) == "number":  # the ends of bins need not be values of the column
        page = edges + float(column.reference if isinstance(column.kind, Integer) else 0)
    else:
        page = to_page(column, restored(column, edges))
    return MonitorAxis(
        position=position,
        id=name,
        column=column,
        kind="curve",
        places=page,
        labels=(),
        values=(),
        points=points,
        ends=places[:count],
        atoms=to_page(column, own) if own else np.empty(0),
        atom_ends=places[count : count + 2 * len(atoms)].reshape(2, -1).T,
    )


def _towards(edges: Floats, bottom: float, top: float) -> Floats:
    """Return points between the outer bins and the bounds, which are infinitely far."""
    shares = 0.5 ** np.arange(1, 25)
    low = bottom + (edges[1] - bottom) * shares if edges[0] <= bottom else np.empty(0)
    high = top - (top - edges[-2]) * shares if edges[-1] >= top else np.empty(0)
    return np.append(low, high)


def _just_below(below: Floats, at: Floats, dtype: torch.dtype) -> Floats:
    """Return points below atoms that differ from them in the model's dtype, too."""
    if dtype != torch.float32:
        return below
    under = np.nextafter(at.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    return np.minimum(below, under)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value).removesuffix(" 00:00:00")


def _distinct(texts: list[str]) -> tuple[str, ...]:
    """Return texts that differ from each other, such as those of 1 and '1'."""
    return tuple(t if texts.count(t) == 1 else f"{t} ({i})" for i, t in enumerate(texts))


def decoded(schema: Schema, axis: MonitorAxis, points: Floats) -> Floats:
    """Return points of the model's scale as the page's numbers, as `ppf` would."""
    values = decode_column(schema, axis.column.name, torch.from_numpy(points))
    return to_page(axis.column, values)
