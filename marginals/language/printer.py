"""Queries as text, which `parse` reads back."""

from marginals.cells.cell import AnyOf, Exact, Interval, OneOf
from marginals.language.query_tree import Column, Condition, Query, Value
from marginals.language.tokens import is_plain


def format(query: Query) -> str:
    """Write a query in its standard form.

    Args:
        query: a parsed query.

    >>> from marginals.language.parser import parse
    >>> format(parse('P( 30>age>=20 , "home town"=Oslo )'))
    'P(20 <= age < 30, `home town` = Oslo)'
    """
    of = ", ".join(
        format_name(part.column) if isinstance(part, Column) else format_condition(part)
        for part in query.of
    )
    given = format_conditions(query.given)
    inside = f"{of} | {given}" if given else of
    if query.function in ("E", "SD"):
        return f"{query.function}[{inside}]"
    levels = f"[{', '.join(map(repr, query.levels))}]" if query.levels else ""
    return f"{query.function}{levels}({inside})"


def format_conditions(conditions: tuple[Condition, ...]) -> str:
    """Write conditions as `parse_conditions` reads them."""
    return ", ".join(map(format_condition, conditions))


def format_condition(condition: Condition) -> str:
    """Write a condition.

    >>> format_condition(Condition("age", Interval(low=20)))
    'age > 20'
    """
    name, cell = format_name(condition.column), condition.cell
    if isinstance(cell, Exact):
        return f"{name} = {format_value(cell.value)}"
    if isinstance(cell, OneOf):
        return f"{name} in {{{', '.join(map(format_value, cell.values))}}}"
    if isinstance(cell, AnyOf):
        parts = (Condition(condition.column, part) for part in cell.parts)
        return " or ".join(map(format_condition, parts))
    return _interval(name, cell)


def format_name(name: str) -> str:
    """Write the name of a column, in backticks if it has to be.

    >>> format_name("income"), format_name("home town")
    ('income', '`home town`')
    """
    return name if is_plain(name) and "-" not in name else _quote(name, "`")


def format_value(value: Value) -> str:
    """Write a value, a string in quotes if it has to be.

    >>> format_value("Oslo"), format_value("New York"), format_value(True)
    ('Oslo', "'New York'", 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if is_plain(value) else _quote(value, "'")
    return repr(value)


def _interval(name: str, interval: Interval) -> str:
    low, high = interval.low, interval.high
    less = "<=" if interval.high_closed else "<"
    if low is None:
        return f"{name} in (-inf, inf)" if high is None else f"{name} {less} {format_value(high)}"
    if high is None:
        return f"{name} {'>=' if interval.low_closed else '>'} {format_value(low)}"
    more = "<=" if interval.low_closed else "<"
    return f"{format_value(low)} {more} {name} {less} {format_value(high)}"


def _quote(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return f"{quote}{escaped}{quote}"
