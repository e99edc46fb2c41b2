"""Conditions into evidence, as the columns of a table understand them.

Evidence is a dict from column to an exact value, a pair (low, high] with None for an open end, or a
set of categories. A pair leaves out its low end and takes in its high end; where single values have
mass (integers, rounded numbers, atoms) an end that should be otherwise moves to the value before.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from marginals.columns.dtypes import family, unit
from marginals.columns.kinds import Categorical, Continuous, Integer
from marginals.language.algebra import combine, contains
from marginals.language.errors import QueryError, did_you_mean
from marginals.language.native_values import category, native
from marginals.language.query_tree import Column, Condition, Exact, Interval, OneOf

# A bound this close to a rounded value, in steps, is meant to be that value.
_NEAR = 1e-9


def to_evidence(conditions: Iterable[Condition], schema: Any, text: str = "") -> dict[Any, Any]:
    """Translate conditions, of which several may be on one column.

    Args:
        conditions: of a query.
        schema: the table's, `model.schema_`.
        text: of the query, for errors that point at the place.

    >>> from marginals.language.parser import parse_conditions
    >>> from marginals.columns import Column, Integer, Schema
    >>> schema = Schema((Column("age", Integer(), "int64", "given"),))
    >>> to_evidence(parse_conditions("20 <= age < 30"), schema)
    {'age': (19, 29)}
    """
    groups: dict[Any, list[Condition]] = {}
    for condition in conditions:
        groups.setdefault(name_in(schema, condition, text), []).append(condition)
    return {name: _known(schema[name], group, text) for name, group in groups.items()}


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


def has_mass(schema: Any, name: Any, known: Any) -> bool:
    """Say whether a piece of evidence has a probability and not only a density."""
    kind = schema[name].kind
    if isinstance(known, tuple | set) or not isinstance(kind, Continuous):
        return True
    return kind.resolution is not None or known in kind.atoms


def _known(column: Any, conditions: list[Condition], text: str) -> Any:
    if isinstance(column.kind, Categorical):
        return _categories(column, conditions, text)
    (condition,) = combine((native(column, condition, text) for condition in conditions), text)
    interval = _run(column, condition, text) if isinstance(condition, OneOf) else condition
    if isinstance(interval, Exact):
        return interval.value
    density = isinstance(column.kind, Continuous) and column.kind.resolution is None
    if density and interval.low is not None and interval.low == interval.high:
        return interval.low
    return _pair(column, interval, text)


# Categories -----------------------------------------------------------------------------------


def _categories(column: Any, conditions: list[Condition], text: str) -> Any:
    categories = column.kind.categories
    left = set(range(len(categories)))
    for condition in conditions:
        left &= _codes(column, condition, text)
        if not left:
            raise _contradiction(condition, text)
    if any(isinstance(condition, Exact) for condition in conditions):
        return categories[min(left)]
    return {categories[code] for code in left}


def _codes(column: Any, condition: Condition, text: str) -> set[int]:
    categories = column.kind.categories
    if isinstance(condition, Exact):
        return {category(column, condition.value, condition, text)}
    if isinstance(condition, OneOf):
        return {category(column, value, condition, text) for value in condition.values}
    if column.ordered:
        ends = [
            None if end is None else category(column, end, condition, text)
            for end in (condition.low, condition.high)
        ]
        coded = replace(condition, low=ends[0], high=ends[1])
        return {code for code in range(len(categories)) if contains(coded, code)}
    numbers = all(_is_number(value) for value in categories)
    if not numbers or not all(_is_number(e) for e in (condition.low or 0, condition.high or 0)):
        raise QueryError(
            f"Expected a category or a set for {column.name!r}, whose categories have no order; "
            f"got an interval. Write: {column.name} in {{...}}.",
            text,
            condition.at,
        )
    return {code for code, value in enumerate(categories) if contains(condition, value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Numbers and times ----------------------------------------------------------------------------


def _run(column: Any, condition: OneOf, text: str) -> Exact | Interval:
    """Write a set of numbers as an exact value or as an interval of integers without gaps."""
    values: list[Any] = sorted(set(condition.values))
    if len(values) == 1:
        return Exact(condition.column, values[0], condition.at)
    whole = isinstance(column.kind, Integer) and all(value == int(value) for value in values)
    if whole and values[-1] - values[0] == len(values) - 1:
        return Interval(condition.column, values[0], values[-1], True, True, condition.at)
    raise QueryError(
        f"Expected categories, or whole numbers without gaps, in a set; {column.name!r} is "
        f"{type(column.kind).__name__.lower()} and got {values}. Ask for each value, or for an "
        "interval.",
        text,
        condition.at,
    )


def _pair(column: Any, interval: Interval, text: str) -> tuple[Any, Any]:
    low = _end(column, interval.low, before=interval.low_closed)
    high = _end(column, interval.high, before=not interval.high_closed)
    if low is not None and high is not None and low >= high:
        raise _contradiction(interval, text)
    return low, high


def _end(column: Any, end: Any, before: bool) -> Any:
    """Return a whole number for integers, and with `before` an end that leaves a value above it."""
    kind = column.kind
    if end is None:
        return None
    if isinstance(kind, Integer):
        return math.ceil(end) - 1 if before else math.floor(end)
    if not before:
        return end
    if kind.resolution is not None:
        return end - kind.resolution if _on_lattice(column, end) else end
    return _just_before(column, end) if end in kind.atoms else end


def _just_before(column: Any, end: Any) -> Any:
    if family(column.dtype) == "number":
        return math.nextafter(end, -math.inf)
    import pandas as pd

    return end - pd.Timedelta(1, unit(column.dtype))


def _on_lattice(column: Any, end: Any) -> bool:
    """Say whether an end is one of the values of a rounded column."""
    if family(column.dtype) == "number":
        steps = (end - column.offset) / column.kind.resolution
    else:
        steps = (end - _reference(column, end)) / column.kind.resolution
    return abs(steps - round(steps)) <= _NEAR + 8 * 2.3e-16 * abs(steps)


def _reference(column: Any, like: Any) -> Any:
    """Return the time or duration from which the column counts its steps."""
    import pandas as pd

    name = unit(column.dtype)
    if family(column.dtype) == "span":
        return pd.Timedelta(column.reference, name)
    return pd.Timestamp(column.reference, unit=name, tz="UTC" if like.tz is not None else None)


def _contradiction(condition: Condition, text: str) -> QueryError:
    return QueryError(
        f"Expected the conditions on {condition.column!r} to leave a value that it can take; got "
        "a contradiction. Drop or widen one of them.",
        text,
        condition.at,
    )
