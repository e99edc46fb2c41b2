"""Conditions become cells of a table's columns: names resolved, values as the columns hold them."""

from typing import Any

import pandas as pd
import pytest

from marginals.cells.cell import MISSING, NOTHING, Cell, Exact, Interval, OneOf
from marginals.columns import Continuous, Schema, encode_cells, infer
from marginals.language import QueryError, parse, parse_conditions, to_evidence
from marginals.language.conditions import to_cells

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 45],
        "income": [1.5, 2e5, 3e4],
        "price": [0.01, 9.99, 12.5],
        "rain": [0.0, 0.0, 3.5],
        "city": ["Oslo", "Bergen", "New York"],
        "grade": pd.Categorical(["low", "mid", "high"], ["low", "mid", "high"], ordered=True),
        "cylinders": pd.Categorical([4, 6, 8]),
        "smoker": [True, False, True],
        "code": ["007", "12", "true"],
        "day": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01"]),
        "utc": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01"]).tz_localize("UTC"),
        "date": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01"]),
        "took": pd.to_timedelta(["1 days", "2 hours", "3 min"]),
        "home town": [0.1, 0.2, 0.3],
        7: [0.1, 0.2, 0.3],
    }
)
KINDS = {
    "price": Continuous(lower=0, resolution=0.01),
    "rain": Continuous(lower=0, atoms=(0, 2.5)),
    "date": Continuous(resolution=pd.Timedelta(days=1)),
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return infer(FRAME, KINDS)


def time(text: str, zone: str | None = None) -> pd.Timestamp:
    return pd.Timestamp(text, tz=zone)


def closed(low: Any, high: Any) -> Interval:
    return Interval(low, high, True, True)


CASES: dict[str, dict[Any, Cell]] = {
    "": {},
    "age = 40": {"age": Exact(40)},
    "age >= 20": {"age": closed(20, None)},
    "20 <= age < 30": {"age": Interval(20, 30, low_closed=True)},
    "age in {22, 21, 20}": {"age": OneOf((22, 21, 20))},
    "age >= 10_000_000_000_000_000_001": {"age": closed(10**19 + 1, None)},
    "age > 20, age <= 30": {"age": Interval(20, 30, high_closed=True)},
    "age > 20, rain = 1, age >= 20": {"age": Interval(20), "rain": Exact(1)},
    "age >= 20, age < 40, age < 30": {"age": Interval(20, 30, low_closed=True)},
    "age > 20, age = 25": {"age": Exact(25)},
    "age in {1, 2, 3}, age > 1": {"age": OneOf((2, 3))},
    "age in {1, 2, 3}, age in {2, 3, 4}": {"age": OneOf((2, 3))},
    "20 <= age, age <= 20": {"age": closed(20, 20)},
    "1 < income < 2, income >= 1.5": {"income": Interval(1.5, 2, low_closed=True)},
    "income in (-inf, inf)": {"income": MISSING},
    "city = Oslo": {"city": Exact("Oslo")},
    "city in {Oslo, 'New York'}": {"city": OneOf(("Oslo", "New York"))},
    "city in {Oslo, 'New York'}, city in {Oslo, Bergen}": {"city": OneOf(("Oslo",))},
    "city in {Oslo, 'New York'}, city = Oslo": {"city": Exact("Oslo")},
    "grade >= mid": {"grade": OneOf(("mid", "high"))},
    "low < grade < high": {"grade": OneOf(("mid",))},
    "cylinders > 4": {"cylinders": OneOf((6, 8))},
    "cylinders = 6.0": {"cylinders": Exact(6)},
    "cylinders in {4, '8'}": {"cylinders": OneOf((4, 8))},
    "smoker = true": {"smoker": Exact(True)},
    "smoker = 'False'": {"smoker": Exact(False)},
    "smoker = 1": {"smoker": Exact(True)},
    "code = 007": {"code": Exact("007")},
    "code in {12, true}": {"code": OneOf(("12", "true"))},
    "day = '2024-01-31 12:00'": {"day": Exact(time("2024-01-31 12:00"))},
    "day > 2024-01-31, day < '2024-02-01 12:00'": {
        "day": Interval(time("2024-01-31"), time("2024-02-01 12:00"))
    },
    "utc > 2024-01-31": {"utc": Interval(time("2024-01-31", "UTC"))},
    "utc > 2024-01-31T12:00+02:00": {"utc": Interval(time("2024-01-31 10:00", "UTC"))},
    "took > '2 hours'": {"took": Interval(pd.Timedelta(hours=2))},
    "`home town` = 0.1": {"home town": Exact(0.1)},
    "`7` = 0.1": {7: Exact(0.1)},
}


@pytest.mark.parametrize("text", CASES)
def test_conditions_become_cells(schema: Schema, text: str) -> None:
    evidence = to_evidence(parse_conditions(text), schema, text)
    assert evidence == CASES[text]
    assert repr(evidence) == repr(CASES[text])  # also tells 1 from True
    encode_cells(schema, evidence)


def test_contradictions_leave_nothing(schema: Schema) -> None:
    for text in (
        "age > 30, age < 20",
        "age in (3, 3]",
        "city = Oslo, city = Bergen",
        "grade < low",
    ):
        assert list(to_cells(parse_conditions(text), schema).values()) == [NOTHING]


ERRORS = [
    ("agee = 3", "Did you mean 'age'?"),
    ("salary = 3", "Known: 'age', 'income'"),
    ("Age = 3", "Did you mean 'age'?"),
    ("age = young", "a number for column 'age'"),
    ("age = true", "a number for column 'age'"),
    ("age = '40'", "without quotes"),
    ("age > 30, age < 20", "contradiction"),
    ("age in (3, 3]", "contradiction"),
    ("age = 3, age = 4", "contradiction"),
    ("age in {1, 2}, age > 2", "contradiction"),
    ("city = Olso", "Did you mean 'Oslo'?"),
    ("city > Bergen", "no order"),
    ("city = Oslo, city = Bergen", "contradiction"),
    ("grade > higher", "Did you mean 'high'?"),
    ("grade > high", "contradiction"),
    ("mid > grade > mid", "contradiction"),
    ("cylinders > many", "no order"),
    ("day > 2024", "a time for column 'day'"),
    ("day > yesterday", "Write a time such as"),
    ("day > 2024-02-31", "Write a time such as"),
    ("day > 2024-01-31T12:00+02:00", "Write a time such as"),
    ("day > 2024-02-01, day < 2024-01-01", "contradiction"),
    ("took > 3", "a duration for column 'took'"),
    ("took > '3'", "a duration for column 'took'"),
    ("took > long", "Write a duration such as"),
]


@pytest.mark.parametrize(("text", "words"), ERRORS, ids=[text for text, _ in ERRORS])
def test_errors_point_at_the_column(schema: Schema, text: str, words: str) -> None:
    conditions = parse_conditions(text)
    with pytest.raises(QueryError) as caught:
        to_evidence(conditions, schema, text)
    assert words in caught.value.message
    assert caught.value.position in [condition.at for condition in conditions]
    assert str(caught.value).endswith("^")


def test_queries_without_text_have_errors_without_place(schema: Schema) -> None:
    with pytest.raises(QueryError) as caught:
        to_evidence(parse("P(agee = 3)").event, schema)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-03-31 02:30", "2024-03-31T01:00Z"),  # skipped: the clocks go from two to three
        ("2024-10-27 02:30", "2024-10-27T00:30Z"),  # repeated: the first of the two
        ("2024-10-27 02:30+01:00", "2024-10-27T01:30Z"),
        ("2024-10-27T02:30+02:00", "2024-10-27T00:30Z"),
        ("2024-03-31T01:00Z", "2024-03-31T01:00Z"),
    ],
)
def test_times_that_clocks_skip_or_repeat(text: str, instant: str) -> None:
    days = pd.date_range("2024-01-01", "2024-12-31", periods=9, tz="Europe/Oslo")
    schema = infer(pd.DataFrame({"at": days}))
    (cell,) = to_evidence(parse_conditions(f"at > '{text}'"), schema).values()
    assert isinstance(cell, Interval)
    assert cell.low == pd.Timestamp(instant)
    # Evidence in a dict is read by the same rule.
    bounds = [
        encode_cells(schema, {"at": Exact(value)}).evidence.lower.item()
        for value in (text, pd.Timestamp(instant))
    ]
    assert bounds[0] == bounds[1]
