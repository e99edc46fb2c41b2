"""Conditions as cells of a table's columns: names resolved, and values as the columns hold them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from marginals.cells.cell import (
    MISSING,
    NOTHING,
    AnyOf,
    Cell,
    Exact,
    Interval,
    OneOf,
    contains,
    intersect,
    is_empty,
    union,
)
from marginals.columns.dtypes import CLOCK_CHANGES, family, zone
from marginals.columns.kinds import Categorical
from marginals.columns.plain_values import did_you_mean
from marginals.language.errors import QueryError
from marginals.language.query_tree import Column, Condition, Value

__all__ = ["name_in", "to_cells", "to_evidence"]

_TIME = "Write a time such as 2024-01-31 or '2024-01-31 12:00'."
_SPAN = "Write a duration such as '3 days' or '2 hours 30 minutes'."


def to_evidence(conditions: Iterable[Condition], schema: Any, text: str = "") -> dict[Any, Cell]:
    """Convert conditions to evidence, a dict of cells by column; reject contradictions.

    Args:
        conditions: the conditions of a query; several may be on one column.
        schema: the table's schema, `model.schema_`.
        text: the query's text, so that errors can point at the place.

    >>> from marginals.language.parser import parse_conditions
    >>> from marginals.columns import Column, Integer, Schema
    >>> schema = Schema((Column("age", Integer(), "int64", "given"),))
    >>> to_evidence(parse_conditions("age > 20, age <= 30"), schema)
    {'age': Interval(low=20, high=30, low_closed=False, high_closed=True)}
    """
    conditions = list(conditions)
    cells = to_cells(conditions, schema, text)
    for condition in reversed(conditions):
        if is_empty(cells[name_in(schema, condition, text)]):
            raise QueryError(
                f"Expected the conditions on {condition.column!r} to leave a value that it can "
                "take; got a contradiction. Drop or widen one of them.",
                text,
                condition.at,
            )
    return cells


def to_cells(conditions: Iterable[Condition], schema: Any, text: str = "") -> dict[Any, Cell]:
    """Return the cell that conditions leave for each column: `NOTHING` for a contradiction."""
    cells: dict[Any, Cell] = {}
    for condition in conditions:
        name = name_in(schema, condition, text)
        cell = _native(schema[name], condition, text)
        cells[name] = intersect(cells.get(name, MISSING), cell)
    return cells


def name_in(schema: Any, part: Column | Condition, text: str = "") -> Any:
    """Return the table's own name for a column of a query; it may be a number."""
    for name in schema.names:
        if name == part.column or str(name) == part.column:
            return name
    known = [str(name) for name in schema.names]
    raise QueryError(
        f"Expected a column of the table; got {part.column!r}. {did_you_mean(part.column, known)}",
        text,
        part.at,
    )


def _native(column: Any, condition: Condition, text: str) -> Cell:
    """Return a condition's cell with the values that the column holds."""
    cell = condition.cell
    categorical = isinstance(column.kind, Categorical)

    def convert(value: Any) -> Any:
        read = _category if categorical else _number_or_time
        return None if value is None else read(column, value, condition, text)

    if isinstance(cell, AnyOf):
        parts = [_native(column, replace(condition, cell=part), text) for part in cell.parts]
        return _any_category(column, parts) if categorical else union(parts)
    if isinstance(cell, Exact):
        return Exact(convert(cell.value))
    if isinstance(cell, OneOf):
        return OneOf(tuple(map(convert, cell.values)))
    if not categorical:
        native = replace(cell, low=convert(cell.low), high=convert(cell.high))
        return NOTHING if is_empty(native) else native
    return _categories_between(column, cell, condition, text)


# Categories -----------------------------------------------------------------------------------


def _categories_between(column: Any, cell: Interval, condition: Condition, text: str) -> Cell:
    categories = column.kind.categories
    ends = [end for end in (cell.low, cell.high) if end is not None]
    if column.ordered:
        low, high = (
            None if end is None else column.codes[_category(column, end, condition, text)]
            for end in (cell.low, cell.high)
        )
        coded = replace(cell, low=low, high=high)
        return OneOf(tuple(value for value, c in column.codes.items() if contains(coded, c)))
    if ends and not all(map(_is_number, (*categories, *ends))):
        raise QueryError(
            f"Expected a category or a set for {column.name!r}, whose categories have no order; "
            f"got an interval. Write: {column.name} in {{...}}.",
            text,
            condition.at,
        )
    return OneOf(tuple(value for value in categories if contains(cell, value)))


def _any_category(column: Any, parts: list[Cell]) -> Cell:
    categories = column.kind.categories
    return OneOf(tuple(value for value in categories if any(contains(p, value) for p in parts)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _category(column: Any, value: Value, condition: Condition, text: str) -> Any:
    """Return the category that a value names: as it is, as text, or as a number."""
    categories = column.kind.categories
    for same in (_same, _same_text, _same_number):
        for category in categories:
            if same(value, category):
                return category
    remedy = did_you_mean(str(value), map(str, categories))
    raise _unfit(column, "a category", value, remedy, condition, text)


def _same(value: Value, category: Any) -> bool:
    return isinstance(value, bool) == isinstance(category, bool) and bool(value == category)


def _same_text(value: Value, category: Any) -> bool:
    texts = {str(category)}
    if hasattr(category, "isoformat"):
        texts |= {category.isoformat(), category.isoformat().removesuffix("T00:00:00")}
    written = str(value)
    return written in texts or (isinstance(value, bool) and written.lower() in texts)


def _same_number(value: Value, category: Any) -> bool:
    texts = isinstance(value, str) or isinstance(category, str)
    return not texts and bool(value == category)


# Numbers and times ----------------------------------------------------------------------------


def _number_or_time(column: Any, value: Value, condition: Condition, text: str) -> Any:
    held = family(column.dtype)
    if held == "number":
        if isinstance(value, bool | str):
            remedy = "Write it without quotes, leading zeros or units."
            raise _unfit(column, "a number", value, remedy, condition, text)
        return value
    expected, remedy = ("a time", _TIME) if held == "time" else ("a duration", _SPAN)
    if not isinstance(value, str):
        raise _unfit(column, expected, value, remedy, condition, text)
    try:
        return _time(column, value) if held == "time" else _span(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise _unfit(column, expected, value, remedy, condition, text) from error


def _time(column: Any, value: str) -> Any:
    """Read a time; without a time zone it is in the column's own, as in evidence."""
    import pandas as pd

    time, own = pd.to_datetime(value, format="ISO8601"), zone(column.dtype)
    if time is pd.NaT or (own is None and time.tz is not None):
        raise ValueError(value)
    if own is None:
        return time
    return time.tz_localize(own, **CLOCK_CHANGES) if time.tz is None else time.tz_convert(own)


def _span(value: str) -> Any:
    import pandas as pd

    span = pd.Timedelta(value)
    if span is pd.NaT or value.strip().isdigit():  # a number without a unit
        raise ValueError(value)
    return span


def _unfit(
    column: Any, expected: str, value: Value, remedy: str, condition: Condition, text: str
) -> QueryError:
    message = f"Expected {expected} for column {column.name!r}; got {value!r}. {remedy}"
    return QueryError(message, text, condition.at)
