"""Values of the language into values of a column."""

from dataclasses import replace
from typing import Any

from marginals.columns.dtypes import base, family, parse
from marginals.columns.kinds import Integer
from marginals.language.errors import QueryError, did_you_mean
from marginals.language.query_tree import Condition, Exact, OneOf, Value

_TIME = "Write a time such as 2024-01-31 or '2024-01-31 12:00'."
_SPAN = "Write a duration such as '3 days' or '2 hours 30 minutes'."


def native(column: Any, condition: Condition, text: str) -> Condition:
    """Return the condition with the numbers, times or durations that its column holds."""

    def convert(value: Any) -> Any:
        return None if value is None else _convert(column, value, condition, text)

    if isinstance(condition, Exact):
        value = convert(condition.value)
        if isinstance(column.kind, Integer) and value != int(value):
            raise _unfit(column, "a whole number", condition.value, "Round it.", condition, text)
        return replace(condition, value=value)
    if isinstance(condition, OneOf):
        return replace(condition, values=tuple(map(convert, condition.values)))
    return replace(condition, low=convert(condition.low), high=convert(condition.high))


def category(column: Any, value: Value, condition: Condition, text: str) -> int:
    """Return the code of the category that a value names: as it is, as text, or as a number."""
    categories = column.kind.categories
    for same in (_same, _same_text, _same_number):
        for code, known in enumerate(categories):
            if same(value, known):
                return code
    remedy = did_you_mean(str(value), map(str, categories))
    raise _unfit(column, "a category", value, remedy, condition, text)


def _same(value: Value, known: Any) -> bool:
    return isinstance(value, bool) == isinstance(known, bool) and bool(value == known)


def _same_text(value: Value, known: Any) -> bool:
    texts = {str(known)}
    if hasattr(known, "isoformat"):
        texts |= {known.isoformat(), known.isoformat().removesuffix("T00:00:00")}
    written = str(value)
    return written in texts or (isinstance(value, bool) and written.lower() in texts)


def _same_number(value: Value, known: Any) -> bool:
    return not isinstance(value, str) and not isinstance(known, str) and bool(value == known)


def _convert(column: Any, value: Value, condition: Condition, text: str) -> Any:
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
    """Read a time; without a time zone it is in the column's own."""
    import pandas as pd

    time = pd.to_datetime(value, format="ISO8601")
    zone = getattr(parse(base(column.dtype)), "tz", None)
    if time is pd.NaT or (zone is None and time.tz is not None):
        raise ValueError(value)
    if zone is None:
        return time
    return time.tz_localize(zone) if time.tz is None else time.tz_convert(zone)


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
