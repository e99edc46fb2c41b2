"""What each form of the language means."""

import pytest

from marginals.language import (
    Column,
    Condition,
    Exact,
    Interval,
    OneOf,
    Query,
    parse,
    parse_conditions,
)


def closed(column: str, low: object, high: object) -> Interval:
    return Interval(column, low, high, low is not None, high is not None)  # type: ignore[arg-type]


QUERIES = {
    "P(income > 50000, 20 <= age < 30 | city in {Oslo, Bergen})": Query(
        "P",
        (Interval("income", 50000), Interval("age", 20, 30, low_closed=True)),
        (OneOf("city", ("Oslo", "Bergen")),),
    ),
    "p(x = 1.5 | y = 2)": Query("p", (Exact("x", 1.5),), (Exact("y", 2),)),
    "p(x = 1.5, y == 2)": Query("p", (Exact("x", 1.5), Exact("y", 2))),
    "E[income | age = 40]": Query("E", (Column("income"),), (Exact("age", 40),)),
    "SD[income]": Query("SD", (Column("income"),)),
    "Q[0.05, 0.5, 0.95](income | age = 40)": Query(
        "Q", (Column("income"),), (Exact("age", 40),), (0.05, 0.5, 0.95)
    ),
    "Q[1](income)": Query("Q", (Column("income"),), (), (1.0,)),
    " P (\n a=1\t) ": Query("P", (Exact("a", 1),)),
}


@pytest.mark.parametrize("text", QUERIES)
def test_queries(text: str) -> None:
    query = parse(text)
    assert query == QUERIES[text]
    assert query.text == text


CONDITIONS: dict[str, Condition] = {
    "age = 40": Exact("age", 40),
    "age == 40.0": Exact("age", 40.0),
    "40 = age": Exact("age", 40),
    "age > 20": Interval("age", 20),
    "age >= 20": closed("age", 20, None),
    "50000 < income": Interval("income", 50000),
    "50000 >= income": closed("income", None, 50000),
    "30 > age >= 20": Interval("age", 20, 30, low_closed=True),
    "20 ≤ age ≤ 30": closed("age", 20, 30),
    "x in (0, 1]": Interval("x", 0, 1, high_closed=True),
    "x in [0, 1]": closed("x", 0, 1),
    "x in [0, inf]": closed("x", 0, None),
    "x in (-inf, 3)": Interval("x", None, 3),
    "x in (-inf, inf)": Interval("x"),
    "x < inf": Interval("x"),
    "city ∈ {Oslo}": OneOf("city", ("Oslo",)),
    "n in {1, 2, 1, true}": OneOf("n", (1, 2, True)),
    "x = -1_000.5e-3": Exact("x", -1.0005),
    "x=-5": Exact("x", -5),
    "x = .5": Exact("x", 0.5),
    "x = 12345678901234567890": Exact("x", 12345678901234567890),
    "code = 0150": Exact("code", "0150"),
    "version = 1.2.3": Exact("version", "1.2.3"),
    "rank = 3rd": Exact("rank", "3rd"),
    "smoker = true": Exact("smoker", True),
    "smoker = False": Exact("smoker", False),
    "smoker = 'true'": Exact("smoker", "true"),
    "day >= 2024-01-31": closed("day", "2024-01-31", None),
    "2024-01-31 <= day": closed("day", "2024-01-31", None),
    "day < 2024-01-31T12:30:05.5+01:00": Interval("day", None, "2024-01-31T12:30:05.5+01:00"),
    "day < '2024-01-31 12:00'": Interval("day", None, "2024-01-31 12:00"),
    "'2024-01-31 12:00' < day": Interval("day", "2024-01-31 12:00"),
    "2023-01-01 <= day < 2024-01-01": Interval("day", "2023-01-01", "2024-01-01", low_closed=True),
    '"home town" = "New York"': Exact("home town", "New York"),
    "`home town` = 'New York'": Exact("home town", "New York"),
    "Oslo = `city`": Exact("city", "Oslo"),
    r"`a\`b` = 'c\'d\\'": Exact("a`b", "c'd\\"),
    "`0` = 1": Exact("0", 1),
    "`in` in {a}": OneOf("in", ("a",)),
    "größe.cm_2 = 1": Exact("größe.cm_2", 1),
    "आय > 5": Interval("आय", 5),
    "收入 > 5": Interval("收入", 5),
    "a < grade < c": Interval("grade", "a", "c"),
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions(text: str) -> None:
    assert parse_conditions(text) == (CONDITIONS[text],)


COMBINED: dict[str, tuple[Condition, ...]] = {
    "": (),
    "age > 20, age <= 30": (Interval("age", 20, 30, high_closed=True),),
    "age > 20, b = 1, age >= 20": (Interval("age", 20), Exact("b", 1)),
    "age >= 20, age < 40, age < 30": (Interval("age", 20, 30, low_closed=True),),
    "age > 20, age = 25": (Exact("age", 25),),
    "n in {1, 2, 3}, n > 1": (OneOf("n", (2, 3)),),
    "n in {1, 2, 3}, n in {2, 3, 4}": (OneOf("n", (2, 3)),),
    "20 <= age, age <= 20": (closed("age", 20, 20),),
    # Whether text is a date or a category is for the column to say.
    "day > '2024-01-01', day > '2024-1-2'": (
        Interval("day", "2024-01-01"),
        Interval("day", "2024-1-2"),
    ),
}


@pytest.mark.parametrize("text", COMBINED)
def test_conditions_on_one_column_are_intersected(text: str) -> None:
    assert parse_conditions(text) == COMBINED[text]


def test_places_are_kept() -> None:
    query = parse("E[income | age = 40, `b c` > 1]")
    assert [part.at for part in (*query.of, *query.given)] == [2, 11, 21]


def test_only_text_is_parsed() -> None:
    with pytest.raises(TypeError, match="string"):
        parse(3)  # type: ignore[arg-type]
