"""Evidence as the page writes it, as cells of the columns and as rows that a density takes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.cells.cell import Cell, Exact, Interval, OneOf
from marginals.columns import Encoded, Schema
from marginals.columns.encoding import encode_boxes, has_mass, read_cells
from marginals.densities import Density
from marginals.densities.union import GivenUnion
from marginals.explorer.monitor_axis import MonitorAxis, from_page

# Disjoint boxes of sets with gaps, and combinations of categories with soft evidence.
_MOST_BOXES = 200
_MOST_SOFT = 256
# Rounds of fitting the weights of several columns with soft evidence.
_ROUNDS = 1000


class RequestError(ValueError):
    """A request that the page should not have sent, or that cannot be answered."""


class ImpossibleError(RequestError):
    """Evidence of probability zero."""


@final
@dataclass(frozen=True)
class Given:
    """Evidence on some columns.

    Args:
        hard: cells by position, with values as users write them.
        soft: weights of all categories by position, which sum to one.
    """

    hard: Mapping[int, Cell] = field(default_factory=dict)
    soft: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @property
    def positions(self) -> tuple[int, ...]:
        """The columns with evidence."""
        return (*self.hard, *self.soft)

    def without(self, position: int) -> "Given":
        """Return the evidence on the other columns."""
        return self.only([i for i in self.positions if i != position])

    def only(self, positions: Sequence[int]) -> "Given":
        """Return the evidence on some columns."""
        return Given(
            {i: cell for i, cell in self.hard.items() if i in positions},
            {i: weights for i, weights in self.soft.items() if i in positions},
        )


@final
@dataclass(frozen=True)
class Conditioned:
    """A density with rows of evidence.

    Args:
        density: given a union of boxes if the evidence is one.
        rows: one row, or one for each combination of categories with soft evidence.
        targets: of soft evidence, the weights of each column's categories.
        encoded: the hard evidence.
    """

    density: Density
    rows: Evidence
    targets: tuple[tuple[float, ...], ...]
    encoded: Encoded

    def weights(self, log_rows: Tensor) -> Tensor:
        """Return the weight of each row (B,) from the log values of the rows' evidence.

        One column has Jeffrey's rule: the requested weights. Several have the nearest distribution
        (in relative entropy) with all the requested weights, by iterative proportional fitting.
        """
        if not self.targets:
            return torch.ones(1, dtype=torch.float64)
        joint = log_rows.double().softmax(0).reshape([len(t) for t in self.targets])
        goals = [torch.tensor(t, dtype=torch.float64) for t in self.targets]
        for _ in range(_ROUNDS if len(goals) > 1 else 1):
            change = 0.0
            for axis, goal in enumerate(goals):
                others = [i for i in range(joint.ndim) if i != axis]
                now = joint.sum(others) if others else joint
                if bool(((now == 0) & (goal > 0)).any()):
                    raise ImpossibleError(
                        "Expected soft evidence on categories that can occur; got weight on one "
                        "that the other evidence rules out. Set its weight to 0."
                    )
                factor = torch.where(goal > 0, goal / now, 0.0)
                shape = [-1 if i == axis else 1 for i in range(joint.ndim)]
                joint = joint * factor.reshape(shape)
                change = max(change, float((now - goal).abs().max()))
            if change < 1e-12:
                break
        return joint.flatten() / joint.sum()


def given_of(evidence: Any, axes: Sequence[MonitorAxis]) -> Given:
    """Read evidence of the page, a dict of cells by the ids of columns.

    A cell is {"is": "value", "value": v}, {"is": "range", "low": a, "high": b} with null for an
    open end, {"is": "set", "values": [...]} or {"is": "soft", "weights": [...]}. Values of listed
    columns are labels of their bars, others numbers of the page.
    """
    if not isinstance(evidence, Mapping) or len(evidence) > len(axes):
        raise RequestError("Expected `evidence` to be an object with a cell for each column.")
    by_id = {axis.id: axis for axis in axes}
    hard: dict[int, Cell] = {}
    soft: dict[int, tuple[float, ...]] = {}
    for name, cell in evidence.items():
        axis = by_id.get(name)
        if axis is None:
            raise RequestError(f"Expected a column of the model; got {str(name)[:60]!r}.")
        if not isinstance(cell, Mapping):
            raise RequestError(f"Expected a cell for {name!r}; got {type(cell).__name__}.")
        if cell.get("is") == "soft":
            soft[axis.position] = _weights(axis, cell.get("weights"))
        else:
            hard[axis.position] = _cell(axis, cell)
    if math.prod(len(w) for w in soft.values()) > _MOST_SOFT:
        raise RequestError(
            f"Expected soft evidence on at most {_MOST_SOFT} combinations of categories. Take it "
            "back from one column."
        )
    return Given(hard, soft)


def _cell(axis: MonitorAxis, cell: Mapping[str, Any]) -> Cell:
    kind = cell.get("is")
    if kind == "value":
        return Exact(_value(axis, cell.get("value")))
    if kind == "range" and axis.family != "category":
        low, high = (
            None if cell.get(side) is None else from_page(axis.column, _number(axis, cell[side]))
            for side in ("low", "high")
        )
        if low is None and high is None:
            raise RequestError(f"Expected a range of {axis.id!r} to have an end; got none.")
        if low is not None and high is not None and low > high:
            raise RequestError(
                f"Expected a range of {axis.id!r} with low <= high; got {low}, {high}."
            )
        return Exact(low) if low is not None and low == high else Interval(low, high, True, True)
    values = cell.get("values")
    if kind == "set" and isinstance(values, list) and 0 < len(values) <= 1000:
        return OneOf(tuple(dict.fromkeys(_value(axis, value) for value in values)))
    raise RequestError(
        f"Expected a value, a range, a set or soft weights for {axis.id!r}; got {str(cell)[:80]}."
    )


def _value(axis: MonitorAxis, value: Any) -> Any:
    if axis.kind == "bars" and isinstance(value, str):
        if value not in axis.labels:
            raise RequestError(f"Expected a value of {axis.id!r}; got {value[:60]!r}.")
        return axis.values[axis.labels.index(value)]
    if axis.family == "category":
        raise RequestError(f"Expected a category of {axis.id!r}; got {str(value)[:60]}.")
    return from_page(axis.column, _number(axis, value))


def _number(axis: MonitorAxis, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise RequestError(f"Expected a finite number for {axis.id!r}; got {str(value)[:60]}.")
    if axis.family in ("time", "span") and abs(value) > 9e15:
        raise RequestError(f"Expected a time of {axis.id!r} within the calendar; got {value}.")
    return value


def _weights(axis: MonitorAxis, weights: Any) -> tuple[float, ...]:
    if axis.column.listed is None:
        raise RequestError(f"Expected soft evidence on a column of categories; got {axis.id!r}.")
    count = len(axis.labels)
    if not isinstance(weights, list) or len(weights) != count:
        raise RequestError(f"Expected {count} weights for {axis.id!r}, one for each category.")
    numbers = [_number(axis, weight) for weight in weights]
    total = sum(numbers)
    if min(numbers) < 0 or not 0 < total < 1e300:
        raise RequestError(f"Expected weights of {axis.id!r} that are not negative and not all 0.")
    return tuple(number / total for number in numbers)


# Rows of evidence -------------------------------------------------------------------------------


def conditioned(density: Density, schema: Schema, given: Given) -> Conditioned:
    """Encode evidence; refuse what cannot happen."""
    named = {schema.names[i]: cell for i, cell in given.hard.items()}
    try:
        encoded = encode_boxes(schema, read_cells(schema, named), most=_MOST_BOXES)
    except (ValueError, TypeError) as error:
        raise RequestError(str(error)) from error
    if bool(encoded.empty.any()):
        raise ImpossibleError(
            f"Expected evidence that can happen; got {_words(named)}, which cannot. It was not "
            "applied."
        )
    rows = density.checked(encoded.evidence)
    if len(rows) > 1:
        try:
            density = GivenUnion(density, rows, encoded.log_jacobian)
        except ValueError as error:
            raise ImpossibleError(str(error)) from error
        free = Evidence.nothing(like=torch.empty(0, dtype=torch.float64))
        rows = density.checked(free)
    if given.soft:
        codes = np.indices([len(w) for w in given.soft.values()]).reshape(len(given.soft), -1).T
        cells = torch.from_numpy(codes.astype(np.float64))
        soft = density.checked(Evidence.exact(cells, tuple(given.soft)))
        rows = (
            soft.join(rows.rows(torch.zeros(len(codes), dtype=torch.long)))
            if (rows.columns)
            else soft
        )
    return Conditioned(density, rows, tuple(given.soft.values()), encoded)


def is_density(schema: Schema, given: Given) -> bool:
    """Say whether evidence has a density: an exact value of a continuous column."""
    named = {schema.names[i]: cell for i, cell in given.hard.items()}
    cells = read_cells(schema, named)
    return not all(has_mass(schema.columns[i], cell) for i, cell in cells.items())


def _words(named: Mapping[Any, Cell]) -> str:
    from marginals.language.printer import format_condition
    from marginals.language.query_tree import Condition

    return ", ".join(format_condition(Condition(str(name), cell)) for name, cell in named.items())[
        :300
    ]
