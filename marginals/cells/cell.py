"""One cell as a user or a query writes it: exact, an interval, a set, a union, or missing."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd
from torch import Tensor

__all__ = [
    "MISSING",
    "NOTHING",
    "AnyOf",
    "Cell",
    "Exact",
    "Interval",
    "OneOf",
    "as_cell",
    "contains",
    "intersect",
    "is_empty",
    "union",
]


@final
@dataclass(frozen=True)
class Exact:
    """A cell with this value.

    Args:
        value: the value.
    """

    value: Any


@final
@dataclass(frozen=True)
class Interval:
    """A cell between two ends. None leaves a side open; a cell open on both sides is missing.

    Args:
        low, high: the ends.
        low_closed, high_closed: whether the interval includes each end.

    >>> Interval(20, 30, low_closed=True)
    Interval(low=20, high=30, low_closed=True, high_closed=False)
    """

    low: Any = None
    high: Any = None
    low_closed: bool = False
    high_closed: bool = False

    def __post_init__(self) -> None:
        for side, infinity in (("low", -math.inf), ("high", math.inf)):
            end = getattr(self, side)
            if end is None or (isinstance(end, float | np.floating) and end == infinity):
                object.__setattr__(self, side, None)
                object.__setattr__(self, f"{side}_closed", False)


@final
@dataclass(frozen=True)
class OneOf:
    """A cell with one of these values; without values, the cell is impossible.

    Args:
        values: the values.
    """

    values: tuple[Any, ...]


@final
@dataclass(frozen=True)
class AnyOf:
    """A cell that lies in one of these intervals or has one of these values.

    Args:
        parts: values and intervals, which may overlap.
    """

    parts: tuple[Exact | Interval, ...]


Cell = Exact | Interval | OneOf | AnyOf
MISSING = Interval()
NOTHING = OneOf(())


def as_cell(value: Any, owner: str = "a cell") -> Cell:
    """Convert a value as users write it to a cell.

    A scalar is an exact value, and a pair (low, high) is the interval low < x <= high, or an exact
    value if its ends are equal. A set or list means one of its values or intervals. None, NaN, NA
    and NaT are missing.

    Args:
        value: a value from a dict of evidence.
        owner: what errors call the cell's owner, such as "column 'age'".

    >>> as_cell((20, None)), as_cell({3}), as_cell(float("nan")) == MISSING
    (Interval(low=20, high=None, low_closed=False, high_closed=False), OneOf(values=(3,)), True)
    """
    if isinstance(value, Cell):
        return value
    value = _scalar(value)
    if isinstance(value, set | frozenset | list):
        values = tuple(value)
        if not values or any(map(_is_missing, values)):
            raise ValueError(
                f"Expected the set for {owner} to hold values; got {list(values)!r}. Name at least "
                "one, and none that is missing."
            )
        if any(isinstance(part, tuple | pd.Interval | Exact | Interval) for part in values):
            return AnyOf(tuple(_part(part, owner) for part in values))
        return OneOf(values)
    if isinstance(value, pd.Interval):
        closed = (value.closed_left, value.closed_right)
        return _between(value.left, value.right, *closed)
    if isinstance(value, tuple):
        if len(value) != 2:
            raise TypeError(
                f"Expected a pair (low, high) for {owner}; got {value!r}. Use None for an open end."
            )
        low, high = map(_scalar, value)
        return _between(low, high, False, True)
    if _is_missing(value):
        return MISSING
    if not pd.api.types.is_hashable(value):
        raise TypeError(
            f"Expected a value, a pair (low, high) or a set for {owner}; got "
            f"{type(value).__name__}. For one piece of evidence per row, give a DataFrame."
        )
    return Exact(value)


def intersect(first: Cell, second: Cell) -> Cell:
    """Return the values in both cells, which must be comparable; `NOTHING` if there are none.

    >>> intersect(OneOf((1, 2, 3)), Interval(low=1))
    OneOf(values=(2, 3))
    """
    if isinstance(first, AnyOf) or isinstance(second, AnyOf):
        return union(intersect(a, b) for a in _parts(first) for b in _parts(second))
    if isinstance(first, Interval) and isinstance(second, Interval):
        both = _narrow(first, second)
        return NOTHING if is_empty(both) else both
    if isinstance(first, Interval):
        first, second = second, first
    values = (first.value,) if isinstance(first, Exact) else first.values  # type: ignore[union-attr]
    left = tuple(value for value in values if contains(second, value))
    if left and (isinstance(first, Exact) or isinstance(second, Exact)):
        return Exact(left[0])
    return OneOf(left)


def union(cells: Iterable[Cell]) -> Cell:
    """Return the values in any of the cells, which must be comparable, as disjoint parts in order.

    >>> union([Interval(1, 3), Interval(2, 4), Exact(4)])
    Interval(low=1, high=4, low_closed=False, high_closed=True)
    >>> union([Exact(5), OneOf((1, 2))])
    OneOf(values=(1, 2, 5))
    """
    ranges = [_as_interval(part) for cell in cells for part in _parts(cell)]
    ranges = sorted((part for part in ranges if not is_empty(part)), key=_start)
    merged: list[Interval] = []
    for part in ranges:
        if merged and _touch(merged[-1], part):
            merged[-1] = _hull(merged[-1], part)
        else:
            merged.append(part)
    parts = tuple(map(_as_exact, merged))
    if len(parts) == 1:
        return parts[0]
    values = tuple(part.value for part in parts if isinstance(part, Exact))
    return OneOf(values) if len(values) == len(parts) else AnyOf(parts)


def contains(cell: Cell, value: Any) -> bool:
    """Say whether a cell holds a value.

    >>> contains(Interval(20, 30, low_closed=True), 30)
    False
    """
    if isinstance(cell, Exact):
        return bool(value == cell.value)
    if isinstance(cell, OneOf):
        return value in cell.values
    if isinstance(cell, AnyOf):
        return any(contains(part, value) for part in cell.parts)
    above = cell.low is None or cell.low < value or (cell.low_closed and cell.low == value)
    below = cell.high is None or value < cell.high or (cell.high_closed and cell.high == value)
    return bool(above and below)


def is_empty(cell: Cell) -> bool:
    """Say whether no value is in the cell.

    >>> is_empty(Interval(30, 20)), is_empty(Interval(20, 20, True, True))
    (True, False)
    """
    if isinstance(cell, Exact):
        return False
    if isinstance(cell, OneOf):
        return not cell.values
    if isinstance(cell, AnyOf):
        return all(map(is_empty, cell.parts))
    if cell.low is None or cell.high is None:
        return False
    if cell.low == cell.high:
        return not (cell.low_closed and cell.high_closed)
    return bool(cell.low > cell.high)


def _between(low: Any, high: Any, low_closed: bool, high_closed: bool) -> Cell:
    low, high = None if _is_missing(low) else low, None if _is_missing(high) else high
    if low is not None and pd.api.types.is_scalar(low) and bool(np.all(low == high)):
        return Exact(low)
    return Interval(low, high, low_closed, high_closed)


def _part(value: Any, owner: str) -> Exact | Interval:
    """Return one part of a union."""
    cell = as_cell(value, owner)
    if not isinstance(cell, Exact | Interval):
        raise TypeError(
            f"Expected values and pairs (low, high) in the list for {owner}; got {value!r}. Write "
            "one flat list."
        )
    return cell


def _parts(cell: Cell) -> tuple[Cell, ...]:
    """Return the exact values and intervals that a cell consists of."""
    if isinstance(cell, OneOf):
        return tuple(map(Exact, cell.values))
    return cell.parts if isinstance(cell, AnyOf) else (cell,)


def _as_interval(cell: Cell) -> Interval:
    if isinstance(cell, Exact):
        return Interval(cell.value, cell.value, low_closed=True, high_closed=True)
    assert isinstance(cell, Interval)
    return cell


def _as_exact(part: Interval) -> Exact | Interval:
    return Exact(part.low) if part.low is not None and part.low == part.high else part


def _start(part: Interval) -> tuple[Any, ...]:
    """Return a key that sorts intervals by where they start."""
    return (False,) if part.low is None else (True, part.low, not part.low_closed)


def _touch(first: Interval, second: Interval) -> bool:
    """Say whether the second interval, which starts later, leaves no gap after the first."""
    if first.high is None or second.low is None:
        return True
    return bool(
        second.low < first.high
        or (second.low == first.high and (first.high_closed or second.low_closed))
    )


def _hull(first: Interval, second: Interval) -> Interval:
    """Return all values from the start of the first interval to the later of the two ends."""
    if first.high is None or second.high is None:
        return replace(first, high=None, high_closed=False)
    closed = [part.high_closed for part in (first, second)]
    if first.high == second.high:
        return replace(first, high_closed=any(closed))
    last = first if first.high > second.high else second
    return replace(first, high=last.high, high_closed=last.high_closed)


def _narrow(first: Interval, second: Interval) -> Interval:
    both = first
    if both.low is None or (
        second.low is not None
        and (second.low > both.low or (second.low == both.low and not second.low_closed))
    ):
        both = replace(both, low=second.low, low_closed=second.low_closed)
    if both.high is None or (
        second.high is not None
        and (second.high < both.high or (second.high == both.high and not second.high_closed))
    ):
        both = replace(both, high=second.high, high_closed=second.high_closed)
    return both


def _scalar(value: Any) -> Any:
    """Return the value inside of an array or tensor without dims."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
        return value.item() if isinstance(value, Tensor) else value[()]
    return value


def _is_missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))
