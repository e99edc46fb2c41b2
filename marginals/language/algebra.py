"""Several conditions on one column become one."""

from collections.abc import Iterable
from typing import Any

from marginals.language.errors import QueryError
from marginals.language.query_tree import Condition, Exact, Interval, OneOf, values_of


def combine(conditions: Iterable[Condition], text: str = "") -> tuple[Condition, ...]:
    """Intersect the conditions on each column; an error if nothing is left of one.

    Their values must be comparable.

    >>> combine([Interval("age", low=20), Interval("age", high=30)])
    (Interval(column='age', low=20, high=30, low_closed=False, high_closed=False),)
    """
    merged: dict[str, Condition] = {}
    for condition in conditions:
        column = condition.column
        both = intersect(merged[column], condition) if column in merged else condition
        if both is None or is_empty(both):
            raise QueryError(
                f"Expected the conditions on {column!r} to leave a value; got a contradiction. "
                "Drop or widen one of them.",
                text,
                condition.at,
            )
        merged[column] = both
    return tuple(merged.values())


def combine_numbers(conditions: Iterable[Condition], text: str) -> tuple[Condition, ...]:
    """Intersect what can be without knowing the columns: conditions that name numbers only."""
    conditions = list(conditions)
    waiting = {c.column for c in conditions if not all(map(_is_number, values_of(c)))}
    done: dict[int, Condition] = {}
    for column in dict.fromkeys(c.column for c in conditions if c.column not in waiting):
        places = [i for i, c in enumerate(conditions) if c.column == column]
        (done[places[0]],) = combine((conditions[i] for i in places), text)
    later = {i: c for i, c in enumerate(conditions) if c.column in waiting}
    return tuple(condition for _, condition in sorted({**done, **later}.items(), key=_place))


def intersect(first: Condition, second: Condition) -> Condition | None:
    """Return what satisfies both conditions on a column, None for nothing.

    >>> intersect(OneOf("n", (1, 2, 3)), Interval("n", low=1))
    OneOf(column='n', values=(2, 3))
    """
    if isinstance(first, Interval) and isinstance(second, Interval):
        return _narrow(first, second)
    if isinstance(first, Interval):
        first, second = second, first
    left = tuple(value for value in values_of(first) if contains(second, value))
    if not left:
        return None
    if isinstance(first, Exact) or isinstance(second, Exact):
        return Exact(first.column, left[0], first.at)
    return OneOf(first.column, left, first.at)


def contains(condition: Condition, value: Any) -> bool:
    """Say whether a value satisfies a condition.

    >>> contains(Interval("age", 20, 30, low_closed=True), 30)
    False
    """
    if not isinstance(condition, Interval):
        return any(value == other for other in values_of(condition))
    low: Any = condition.low
    high: Any = condition.high
    above = low is None or low < value or (condition.low_closed and low == value)
    below = high is None or value < high or (condition.high_closed and high == value)
    return bool(above and below)


def is_empty(condition: Condition) -> bool:
    """Say whether no value satisfies the condition.

    >>> is_empty(Interval("age", 30, 20))
    True
    """
    if not isinstance(condition, Interval) or condition.low is None or condition.high is None:
        return False
    low: Any = condition.low
    high: Any = condition.high
    return bool(
        low > high or (low == high and not (condition.low_closed and condition.high_closed))
    )


def _narrow(first: Interval, second: Interval) -> Interval:
    low, low_closed = max(
        ((c.low, c.low_closed) for c in (first, second) if c.low is not None),
        key=lambda end: (end[0], not end[1]),
        default=(None, False),
    )
    high, high_closed = min(
        ((c.high, c.high_closed) for c in (first, second) if c.high is not None),
        key=lambda end: (end[0], end[1]),
        default=(None, False),
    )
    return Interval(first.column, low, high, low_closed, high_closed, first.at)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(item: tuple[int, Condition]) -> int:
    return item[0]
