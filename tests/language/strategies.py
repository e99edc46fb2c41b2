"""Random queries."""

from hypothesis import strategies as st

from marginals.language import Column, Condition, Exact, Interval, OneOf, Query
from marginals.language.algebra import is_empty
from marginals.language.query_tree import Value

names = st.one_of(
    st.sampled_from(
        ["age", "home town", "in", "true", "inf", "0", "2024-01-31", "x-y", "", "größe"]
    ),
    st.text(max_size=6),
)
numbers = st.one_of(
    st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.one_of(
    st.sampled_from(
        ["Oslo", "New York", "2024-01-31", "true", "inf", "in", "12", "007", "it's", "\\"]
    ),
    st.text(max_size=6),
)
values: st.SearchStrategy[Value] = st.one_of(numbers, texts, st.booleans())


def _intervals(column: str) -> st.SearchStrategy[Condition]:
    def build(low: Value | None, high: Value | None, closed: tuple[bool, bool]) -> Interval:
        return Interval(
            column, low, high, low is not None and closed[0], high is not None and closed[1]
        )

    flags = st.tuples(st.booleans(), st.booleans())
    of_numbers = st.builds(build, st.none() | numbers, st.none() | numbers, flags)
    of_texts = st.builds(build, st.none() | texts, st.none() | texts, flags)
    return st.one_of(of_numbers.filter(lambda interval: not is_empty(interval)), of_texts)


def _distinct(chosen: list[Value]) -> tuple[Value, ...]:
    return tuple({(isinstance(value, bool), value): value for value in chosen}.values())


def conditions_on(column: str) -> st.SearchStrategy[Condition]:
    exact = st.builds(Exact, st.just(column), values)
    sets = st.lists(values, min_size=1, max_size=4).map(lambda v: OneOf(column, _distinct(v)))
    return st.one_of(exact, _intervals(column), sets)


@st.composite
def condition_lists(draw: st.DrawFn, least: int = 0) -> tuple[Condition, ...]:
    """Conditions on distinct columns, as `parse` leaves them."""
    columns = draw(st.lists(names, unique=True, min_size=least, max_size=3))
    return tuple(draw(conditions_on(column)) for column in columns)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    function = draw(st.sampled_from(["P", "p", "E", "SD", "Q"]))
    given = draw(condition_lists())
    if function == "P":
        return Query("P", draw(condition_lists(1)), given)
    if function == "p":
        columns = draw(st.lists(names, unique=True, min_size=1, max_size=3))
        return Query("p", tuple(Exact(column, draw(values)) for column in columns), given)
    levels = draw(st.lists(st.floats(0, 1), min_size=1, max_size=3)) if function == "Q" else []
    return Query(function, (Column(draw(names)),), given, tuple(levels))


# Text that is nearly a query: pieces of the language in any order.
SIGNS = [*"()[]{},|<>=-.∈\\", "<=", ">=", "==", "!=", "in"]
WORDS = ["P", "p", "E", "SD", "Q", "age", "`a b`", '"c"', "'d", "'e'", "2024-01-31", "true"]
NUMBERS = ["1", "-2.5e3", "0.5", "1e999", "inf", "-inf"]
ODD = [" ", "\n", "9" * 5000, "\ud800", "\x00", "\u0301"]
pieces = st.sampled_from([*SIGNS, *WORDS, *NUMBERS, *ODD])
nearly = st.lists(pieces, max_size=12).map(lambda parts: " ".join(parts))
spoiled = st.builds(
    lambda text, at, piece: text[: at % (len(text) + 1)] + piece + text[at % (len(text) + 1) + 1 :],
    st.sampled_from(
        [
            "P(income > 50000, 20 <= age < 30 | city in {Oslo, Bergen})",
            "Q[0.05, 0.5, 0.95](income | age = 40, day > 2024-01-31)",
            "p(x = 1.5, `y z` = 'a\\'b' | u in (0, 1])",
        ]
    ),
    st.integers(0, 100),
    pieces,
)
