"""Errors point at the place and say what to do."""

import pytest

from marginals.language import QueryError, parse, parse_conditions

# The text, a caret below the place, and words of the message.
PLACES = [
    ("P", " ^", "Expected '('"),
    ("mean(x)", "^", "P, p, E, SD or Q"),
    ("P()", "  ^", "a column or a value"),
    ("P(x)", "   ^", "'<', '<=', '>', '>=', '=' or 'in'"),
    ("P(x > )", "      ^", "a column or a value"),
    ("P(x > 3", "       ^", "Expected ')'; got the end"),
    ("P(x > 3]", "       ^", "Expected ')'; got ']'"),
    ("P(x = 3) + 1", "         ^", "one question at a time"),
    ("E(x)", " ^", "Write for example: E[income | age = 40]"),
    ("E[3]", "  ^", "backticks"),
    ("E[x > 3]", "    ^", "Expected ']'"),
    ("Q(x)", " ^", "Q[0.05, 0.95](income | age = 40)"),
    ("Q[0.5, 2](x)", "       ^", "between 0 and 1"),
    ("Q[](x)", "  ^", "between 0 and 1"),
    ("p(x > 3)", "    ^", "p takes exact values"),
    ("p(x in {3})", "    ^", "p takes exact values"),
    ("P(x > 3 and y < 2)", "        ^", "commas"),
    ("P(x > 3 & y < 2)", "        ^", "commas"),
    ("P(x = 3 or x = 4)", "        ^", "in {Oslo, Bergen}"),
    ("P(x != 3)", "    ^", "1 - P"),
    ("P(x not in {3})", "    ^", "1 - P"),
    ("P(New-York = 3)", "     ^", "backticks"),
    ("P(city = New York)", "             ^", "Expected ','"),
    ("P(x in Oslo)", "       ^", "braces"),
    ("P(x in {})", "        ^", "a column or a value"),
    ("P(x in {a, b)", "            ^", "Expected '}'"),
    ("P(x in (1, 2, 3))", "       ^", "braces"),
    ("P(x in (1, 2})", "            ^", "')' or ']'"),
    ("P(x > 1,000)", "           ^", "1_000"),
    ("P(3 < 4)", "  ^", "the name of a column"),
    ("P(a < b < `c`)", "          ^", "not to each other"),
    ("P(`a` = `b`)", "        ^", "not to each other"),
    ("P(20 < x > 10)", "         ^", "point the same way"),
    ("P(20 < x = 30)", "         ^", "point the same way"),
    ("P(x = 'a)", "      ^", "closing '"),
    ("P(x = 'a\\", "      ^", "closing '"),
    ("P(x = 1e999)", "      ^", "1.8e308"),
    ("P(x = inf)", "  ^", "finite"),
    ("P(x > inf)", "  ^", "infinite end"),
    ("P(x > 30, x < 20)", "          ^", "contradiction"),
    ("P(x in (3, 3])", "  ^", "contradiction"),
    ("P(x = 3, x = 4)", "         ^", "contradiction"),
    ("P(x in {1, 2}, x > 2)", "               ^", "contradiction"),
    ("P(日本 = 3 ! 4)", "           ^", "1 - P"),
]


@pytest.mark.parametrize(("text", "caret", "words"), PLACES, ids=[p[0] for p in PLACES])
def test_errors_point_at_the_place(text: str, caret: str, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    message, shown, below = str(caught.value).split("\n")
    assert words in message
    assert shown == "  " + text
    assert below == "  " + caret
    assert isinstance(caught.value, ValueError)


def test_an_empty_query_has_no_place_to_show() -> None:
    with pytest.raises(QueryError) as caught:
        parse("")
    assert "\n" not in str(caught.value)
    assert caught.value.position == 0


def test_the_line_with_the_place_is_shown() -> None:
    with pytest.raises(QueryError) as caught:
        parse("P(\n\tx > 3,\n\ty ? 4\n)")
    assert str(caught.value).split("\n")[1:] == ["   y ? 4", "     ^"]


def test_a_long_line_is_cut_around_the_place() -> None:
    text = ", ".join(f"column_{i} > {i}" for i in range(100))
    with pytest.raises(QueryError) as caught:
        parse_conditions(text.replace("column_50 >", "column_50 ?"))
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 90
    assert shown[caret.index("^")] == "?"
    assert shown.startswith("  ...")
    assert shown.endswith("...")
