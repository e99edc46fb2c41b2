"""What each form of the language means, and where errors point."""

from typing import Any

import pytest

from marginals.cells.cell import MISSING, Cell, Exact, Interval, OneOf
from marginals.language import Column, Condition, Query, QueryError, parse, parse_conditions


def closed(low: Any, high: Any) -> Interval:
    return Interval(low, high, True, True)


def on(column: str, cell: Cell) -> Condition:
    return Condition(column, cell)


QUERIES = {
    "P(income > 50000, 20 <= age < 30 | city in {Oslo, Bergen})": Query(
        "P",
        (on("income", Interval(50000)), on("age", Interval(20, 30, low_closed=True))),
        (on("city", OneOf(("Oslo", "Bergen"))),),
    ),
    "p(x = 1.5 | y = 2)": Query("p", (on("x", Exact(1.5)),), (on("y", Exact(2)),)),
    "p(x = 1.5, y == 2)": Query("p", (on("x", Exact(1.5)), on("y", Exact(2)))),
    "E[income | age = 40]": Query("E", (Column("income"),), (on("age", Exact(40)),)),
    "SD[income]": Query("SD", (Column("income"),)),
    "Q[0.05, 0.5, 0.95](income | age = 40)": Query(
        "Q", (Column("income"),), (on("age", Exact(40)),), (0.05, 0.5, 0.95)
    ),
    "Q[1e-3](income)": Query("Q", (Column("income"),), (), (0.001,)),
    " P (\n a=1\t) ": Query("P", (on("a", Exact(1)),)),
}


@pytest.mark.parametrize("text", QUERIES)
def test_queries(text: str) -> None:
    query = parse(text)
    assert query == QUERIES[text]
    assert query.text == text


CONDITIONS: dict[str, tuple[str, Cell]] = {
    "age = 40": ("age", Exact(40)),
    "age == 40.0": ("age", Exact(40.0)),
    "40 = age": ("age", Exact(40)),
    "age > 20": ("age", Interval(20)),
    "age >= 20": ("age", closed(20, None)),
    "50000 < income": ("income", Interval(50000)),
    "50000 >= income": ("income", closed(None, 50000)),
    "30 > age >= 20": ("age", Interval(20, 30, low_closed=True)),
    "20 ≤ age ≤ 30": ("age", closed(20, 30)),
    "x in (0, 1]": ("x", Interval(0, 1, high_closed=True)),
    "x in [0, 1]": ("x", closed(0, 1)),
    "x in [0, inf]": ("x", closed(0, None)),
    "x in (-inf, 3)": ("x", Interval(None, 3)),
    "x in (-inf, inf)": ("x", MISSING),
    "x < inf": ("x", MISSING),
    "city ∈ {Oslo}": ("city", OneOf(("Oslo",))),
    "n in {1, 2, 1, true}": ("n", OneOf((1, 2, True))),
    "x = -1_000.5e-3": ("x", Exact(-1.0005)),
    "x=-5": ("x", Exact(-5)),
    "x = .5": ("x", Exact(0.5)),
    "x = 12345678901234567890": ("x", Exact(12345678901234567890)),
    "code = 0150": ("code", Exact("0150")),
    "version = 1.2.3": ("version", Exact("1.2.3")),
    "rank = 3rd": ("rank", Exact("3rd")),
    "smoker = true": ("smoker", Exact(True)),
    "smoker = False": ("smoker", Exact(False)),
    "smoker = 'true'": ("smoker", Exact("true")),
    "day >= 2024-01-31": ("day", closed("2024-01-31", None)),
    "2024-01-31 <= day": ("day", closed("2024-01-31", None)),
    "day < 2024-01-31T12:30:05.5+01:00": ("day", Interval(None, "2024-01-31T12:30:05.5+01:00")),
    "day < '2024-01-31 12:00'": ("day", Interval(None, "2024-01-31 12:00")),
    "'2024-01-31 12:00' < day": ("day", Interval("2024-01-31 12:00")),
    "2023-01-01 <= day < 2024-01-01": (
        "day",
        Interval("2023-01-01", "2024-01-01", low_closed=True),
    ),
    '"home town" = "New York"': ("home town", Exact("New York")),
    "`home town` = 'New York'": ("home town", Exact("New York")),
    "Oslo = `city`": ("city", Exact("Oslo")),
    r"`a\`b` = 'c\'d\\'": ("a`b", Exact("c'd\\")),
    "`0` = 1": ("0", Exact(1)),
    "`in` in {a}": ("in", OneOf(("a",))),
    "größe.cm_2 = 1": ("größe.cm_2", Exact(1)),
    "आय > 5": ("आय", Interval(5)),
    "收入 > 5": ("收入", Interval(5)),
    "a < grade < c": ("grade", Interval("a", "c")),
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions(text: str) -> None:
    assert parse_conditions(text) == (Condition(*CONDITIONS[text]),)


def test_conditions_are_kept_as_written() -> None:
    assert parse_conditions("") == ()
    # Whether text is a date or a category, and which values there are, is for the column to say.
    assert parse_conditions("age > 30, b = 1, age < 20") == (
        on("age", Interval(30)),
        on("b", Exact(1)),
        on("age", Interval(None, 20)),
    )


def test_places_are_kept() -> None:
    query = parse("E[income | age = 40, `b c` > 1]")
    assert [part.at for part in (*query.of, *query.given)] == [2, 11, 21]


def test_only_text_is_parsed() -> None:
    with pytest.raises(TypeError, match="string"):
        parse(3)  # type: ignore[arg-type]


# Errors ---------------------------------------------------------------------------------------

# The text, a caret below the place, and words of the message.
PLACES = [
    ("P", " ^", "Expected '('"),
    ("mean(x)", "^", "P, p, E, SD, Q or mode"),
    ("P()", "  ^", "a column or a value"),
    ("P(x)", "   ^", "'<', '<=', '>', '>=', '=' or 'in'"),
    ("P(x > )", "      ^", "a column or a value"),
    ("P(x > 3", "       ^", "Expected ')'; got the end"),
    ("P(x > 3]", "       ^", "Expected ')'; got ']'"),
    ("P(x = 3) + 1", "         ^", "one query at a time"),
    ("E(x)", " ^", "Write for example: E[income | age = 40]"),
    ("E[3]", "  ^", "backticks"),
    ("E[x > 3]", "    ^", "Expected ']'"),
    ("Q(x)", " ^", "Q[0.05, 0.95](income | age = 40)"),
    ("Q[0.5, 2](x)", "       ^", "strictly between 0 and 1"),
    ("Q[0](a)", "  ^", "strictly between 0 and 1"),
    ("Q[1](a)", "  ^", "strictly between 0 and 1"),
    ("Q[](x)", "  ^", "between 0 and 1"),
    ("p(x > 3)", "    ^", "p takes exact values"),
    ("p(x in {3})", "    ^", "p takes exact values"),
    ("P(x > 3 and y < 2)", "        ^", "commas"),
    ("P(x > 3 & y < 2)", "        ^", "commas"),
    ("P(x = 3 or y = 4)", "           ^", "'x' alone on both sides"),
    ("P(x = 3 or)", "          ^", "a column or a value"),
    ("p(x = 3 or x = 4)", "        ^", "in {Oslo, Bergen}"),
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
