"""Any text is a query or a QueryError; any query is text that reads back."""

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from marginals.language import Condition, Query, QueryError, format, parse, parse_conditions
from marginals.language.printer import format_conditions
from tests.examples import examples
from tests.language.strategies import conditions, nearly, queries, spoiled


def attempt(text: str) -> Query | QueryError:
    try:
        return parse(text)
    except QueryError as error:
        return error


@examples(1000)
@given(st.one_of(st.text(), nearly, spoiled))
@example("P(" * 10_000)
@example("P(x = " + "9" * 10_000 + ")")
def test_any_text_parses_or_raises_our_error(text: str) -> None:
    outcome = attempt(text)
    if isinstance(outcome, Query):
        assert parse(format(outcome)) == outcome
    else:
        assert outcome.text == text
        assert outcome.position is not None
        assert 0 <= outcome.position <= len(text)
        assert str(outcome).startswith("Expected")
    with contextlib.suppress(QueryError):
        parse_conditions(text)


@examples(300)
@given(queries())
def test_queries_read_back(query: Query) -> None:
    text = format(query)
    again = parse(text)
    assert again == query
    assert repr(again) == repr(query)  # also tells 1 from 1.0 and true
    assert format(again) == text


@examples(150)
@given(st.lists(conditions, max_size=3))
def test_conditions_read_back(written: list[Condition]) -> None:
    assert parse_conditions(format_conditions(tuple(written))) == tuple(written)
