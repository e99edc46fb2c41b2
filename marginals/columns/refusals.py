"""Cells that a column cannot hold, and the errors that say so."""

from typing import Any, Literal, NoReturn

import numpy as np

from marginals.columns.axis import Axis, Flags, Floats
from marginals.columns.schema import Column

__all__ = [
    "Strict",
    "refuse_ends",
    "refuse_infinite",
    "refuse_order",
    "refuse_value",
    "refused",
]

Strict = Literal["all", "declared", "none"]
"""Which values that a column cannot take raise an error; see `encoding.encode`."""


def refused(axis: Axis, numbers: Floats, strict: Strict) -> Flags:
    """Say which values raise an error."""
    if strict == "none":
        return np.zeros(len(numbers), dtype=bool)
    wrong = axis.wrong(numbers)
    if strict == "all" or axis.column.declared or axis.column.margin is not None:
        return wrong
    return wrong & ~axis.beyond(numbers)


def refuse_value(axis: Axis, number: float, value: Any, place: str = "") -> NoReturn:
    """Raise for a value that cannot occur."""
    expected, remedy = axis.fault(number)
    raise ValueError(
        f"Expected column {axis.column.name!r} {expected}; got {value}{place}. {remedy}"
    )


def refuse_ends(
    column: Column, expected: str, low: Any, high: Any, remedy: str, place: str = ""
) -> NoReturn:
    """Raise for the ends of an interval."""
    raise ValueError(
        f"Expected column {column.name!r} to have {expected}; got {low} and {high}{place}. {remedy}"
    )


def refuse_order(column: Column, low: Any, high: Any, place: str = "") -> NoReturn:
    """Raise for an interval of categories without an order."""
    raise TypeError(
        f"Expected a category or a set of them for column {column.name!r}, whose categories have "
        f"no order; got an interval from {low!r} to {high!r}{place}. Use a set, or an ordered "
        "category dtype when fitting."
    )


def refuse_infinite(column: Column, number: float, place: str = "") -> NoReturn:
    """Raise for an exact value that is infinite."""
    raise ValueError(
        f"Expected column {column.name!r} to hold finite numbers; got {number}{place}. For an open "
        "end use an interval: two frames, the second as `upper=`, or a pair with None."
    )
