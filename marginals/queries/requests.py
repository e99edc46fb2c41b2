"""What callers pass to a query and get back: events, evidence and rows; numbers, arrays, tables."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.cells.cell import MISSING, Exact, as_cell, intersect
from marginals.columns import (
    Categorical,
    Column,
    Continuous,
    Encoded,
    Schema,
    encode,
    encode_bounds,
    encode_cells,
)
from marginals.columns.dtypes import base, family
from marginals.columns.encoding import (
    NoProbabilityError,
    encode_boxes,
    has_mass,
    read_cells,
)
from marginals.columns.table_coercion import as_series, matched
from marginals.densities import Density
from marginals.densities.union import GivenUnion
from marginals.queries.outside_data import warn_outside

__all__ = [
    "Event",
    "answer",
    "as_objects",
    "box",
    "check_apart",
    "check_rows",
    "conditioned",
    "event",
    "given_columns",
    "is_single",
    "like",
    "values",
    "with_given",
]


# Disjoint boxes of one piece of evidence, which are contracted together.
_MOST_ALTERNATIVES = 1000
# Disjoint boxes of an event, which are contracted in batches.
_MOST_BOXES = 100_000


class Event(NamedTuple):
    """An event with its evidence.

    Args:
        density: the density, given a union of boxes if the evidence is one.
        boxes: the event as disjoint boxes, a row for each.
        given: one row of evidence, or one for each answer; if `joint`, disjoint boxes as well.
        joint: whether the boxes of the event include the evidence. Else their columns differ.
    """

    density: Density
    boxes: Encoded
    given: Encoded
    joint: bool


# Requests ---------------------------------------------------------------------------------------


def values(schema: Schema, x: Any) -> Encoded:
    """Encode exact values, at which a density is requested."""
    if not isinstance(x, Mapping):
        return encode(schema, x, strict="declared")
    for name, value in x.items():
        cell = as_cell(value, f"column {name!r}")
        if not isinstance(cell, Exact) and cell != MISSING:
            raise ValueError(
                f"Expected an exact value of column {name!r} for a density; got {value!r}. Ask for "
                "`prob` of intervals and sets."
            )
    return encode_cells(schema, x, strict="declared")


def conditioned(
    density: Density, schema: Schema, given: Any, requested: Collection[int] = ()
) -> tuple[Density, Evidence]:
    """Return a density and rows of evidence to query it with: one for None or a dict, else many.

    A dict whose sets or unions have gaps is several boxes. The density returned is then given
    their union, and one row of no evidence.

    Args:
        density: the density on the model's scale.
        schema: the schema of its columns.
        given: evidence, as users write it.
        requested: columns that must not be given.
    """
    encoded = _encoded(schema, given)
    check_apart(schema, requested, encoded.evidence)
    warn_outside(density, schema, encoded.evidence, is_single(given))
    if not is_single(given) or len(encoded.evidence) == 1:
        return density, encoded.evidence
    return GivenUnion(density, encoded.evidence, encoded.log_jacobian), _nothing().evidence


def given_columns(schema: Schema, given: Any) -> tuple[int, ...]:
    """Return the positions of the columns that evidence is about."""
    if given is None:
        return ()
    return schema.positions(given) if isinstance(given, Mapping) else matched(schema, given)[1]


def is_single(given: Any) -> bool:
    """Say whether evidence is one piece, with one answer."""
    return given is None or isinstance(given, Mapping)


def _encoded(schema: Schema, given: Any) -> Encoded:
    if given is None:
        return _nothing()
    if not isinstance(given, Mapping):
        return _possible(encode(schema, given, strict="none"), given)
    cells = read_cells(schema, given)
    return _possible(encode_boxes(schema, cells, most=_MOST_ALTERNATIVES), given)


def _nothing() -> Encoded:
    free = Evidence.nothing(like=torch.empty(0, dtype=torch.float64))
    return Encoded(free, torch.zeros(1), torch.zeros(1, dtype=torch.bool))


def event(density: Density, schema: Schema, of: Mapping[Any, Any], given: Any) -> Event:
    """Encode an event and its evidence, which may share columns if both are dicts."""
    if not isinstance(of, Mapping):
        raise TypeError(
            "Expected an event as a dict of columns, such as {'age': (30, 40)}; got "
            f"{type(of).__name__}. For rows of values ask for `pdf` or `cdf`."
        )
    cells = read_cells(schema.reading("error"), of)
    known = read_cells(schema, given or {}) if is_single(given) else {}
    # An exact value that is given has a density. All other exact values need a probability.
    masses = [i for i in cells if not isinstance(known.get(i), Exact)]
    for i in masses:
        if not has_mass(schema.columns[i], cells[i]):
            raise NoProbabilityError(schema.names[i])
    shared = {i: intersect(cells[i], known[i]) for i in cells if i in known}
    if not shared:
        density, rows = conditioned(density, schema, given, cells)
        boxes = encode_boxes(schema, cells, masses, _MOST_BOXES)
        return Event(density, boxes, replace(_nothing(), evidence=rows), joint=False)
    every = encode_boxes(schema, {**known, **cells, **shared}, masses, _MOST_BOXES)
    encoded = _encoded(schema, given)
    warn_outside(density, schema, encoded.evidence, alternatives=True)
    return Event(density, every, encoded, joint=True)


def box(schema: Schema, x: Any, below: bool) -> tuple[Evidence, Tensor]:
    """Encode the boxes X <= x, or X > x, of rows; also say which are empty, (B,)."""
    schema = schema.reading("error")
    if isinstance(x, Mapping):
        frame = pd.DataFrame({schema.names[schema.index(c)]: as_series(v) for c, v in x.items()})
        frame, positions = matched(schema, frame)
    else:
        frame, positions = matched(schema, x)
    bounds = []
    for place, position in enumerate(positions):
        column = schema.columns[position]
        if isinstance(column.kind, Categorical) and not column.ordered:
            raise TypeError(
                f"Expected columns with an order for a CDF; got categorical column {column.name!r}."
                " Leave it out, or ask for `prob` of a set of its categories."
            )
        ends, free = frame.iloc[:, place], [None] * len(frame)
        pair = (free, ends) if below else (ends, free)
        bounds.append(encode_bounds(schema, column.name, *pair))
    lower, upper = (torch.stack(side, 1) for side in zip(*bounds, strict=True))  # (B, n)
    empty = lower == torch.inf
    lower = torch.where(empty, -torch.inf, lower)
    return Evidence.interval(lower, upper, positions), empty.any(1)


def check_apart(schema: Schema, columns: Any, given: Evidence) -> None:
    """Refuse a column that is both requested and given."""
    both = [c for c in columns if c in given.columns]
    if both:
        raise ValueError(
            "Expected the requested columns and `given` to differ; got column "
            f"{schema.names[both[0]]!r} in both. Leave it out of one."
        )


def check_rows(of: int, given: int) -> None:
    """Refuse rows that cannot be paired."""
    if of != given and 1 not in (of, given):
        raise ValueError(
            f"Expected as many rows of `given` as are requested, or one; got {given} and {of}. "
            "Give evidence for the same rows."
        )


def _possible(encoded: Encoded, given: Any) -> Encoded:
    if bool(encoded.empty.any()):
        row = int(encoded.empty.nonzero()[0])
        shown = repr(dict(given)) if isinstance(given, Mapping) else f"row {row}"
        raise ValueError(
            f"Expected `given` to have positive probability; got {shown}, which cannot happen. "
            "Condition on an event that can."
        )
    return encoded


# Answers ----------------------------------------------------------------------------------------


def answer(value: Tensor, *requests: Any) -> Any:
    """Return a value for each row as the caller expects it.

    Dicts have one answer, a float. Rows have an array of answers, and rows of a tensor a tensor;
    the first of the requests with rows decides.
    """
    rows = [x for x in requests if x is not None and not isinstance(x, Mapping)]
    if not rows:
        return value[0].item() if len(value) == 1 else value.numpy()
    # A copy: a tensor made for inference would be of no use with gradients.
    return value.clone() if isinstance(rows[0], Tensor) else value.numpy()


def like(x: Any, frame: pd.DataFrame) -> Any:
    """Return a completed table in the form of `x`: frame, array or tensor."""
    if isinstance(x, pd.DataFrame):
        return frame
    array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(x, Tensor):
        return torch.tensor(array).to(x.dtype if x.is_floating_point() else torch.float64)
    keeps = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    return array.astype(x.dtype) if keeps else array


def as_objects(values: Any) -> Any:
    """Return values as an array of objects, so that any kinds fit into one column."""
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def with_given(drawn: pd.DataFrame, schema: Schema, given: Any) -> pd.DataFrame:
    """Put values of evidence back into draws, where the way to the model's scale rounded them."""
    if given is None:
        return drawn
    if isinstance(given, Mapping):
        cells = {name: as_cell(value, f"column {name!r}") for name, value in given.items()}
        exact = {schema.index(n): [c.value] for n, c in cells.items() if isinstance(c, Exact)}
        known = {place: pd.Series(value) for place, value in exact.items()}
    else:
        frame, places = matched(schema, given)
        known = {place: frame.iloc[:, i] for i, place in enumerate(places)}
    for place, series in known.items():
        if not _is_smooth(schema.columns[place]) or not pd.api.types.is_numeric_dtype(series):
            continue
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        values = np.repeat(values, len(drawn) // max(1, len(values)))
        old = drawn.iloc[:, place]
        new = old.where(np.isnan(values), pd.Series(values, old.index).astype(old.dtype))
        drawn.isetitem(place, new)
    return drawn


def _is_smooth(column: Column) -> bool:
    """Say whether a column holds numbers that are not rounded."""
    smooth = isinstance(column.kind, Continuous) and column.kind.resolution is None
    return smooth and family(column.dtype) == "number" and base(column.dtype) == column.dtype
