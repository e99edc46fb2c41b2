"""Conditions mean the same values to the query and to the table."""

import contextlib
import functools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginals.columns import Continuous, Schema, encode_known, infer
from marginals.language import QueryError, parse, parse_conditions, to_evidence
from marginals.language.conditions import has_mass

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


BEFORE = math.nextafter(2.5, 0)
CASES: dict[str, dict[Any, Any]] = {
    "": {},
    "age = 40": {"age": 40},
    "age > 20": {"age": (20, None)},
    "age >= 20": {"age": (19, None)},
    "age < 30": {"age": (None, 29)},
    "20 <= age < 30": {"age": (19, 29)},
    "20.5 <= age <= 29.5": {"age": (20, 29)},
    "20.5 < age < 29.5": {"age": (20, 29)},
    "20 <= age <= 20": {"age": (19, 20)},
    "1.5 <= income <= 1.5": {"income": 1.5},
    "age in {22, 21, 20}": {"age": (19, 22)},
    "age in {22}": {"age": 22},
    "age >= 10_000_000_000_000_000_001": {"age": (10**19, None)},
    "income > 50000": {"income": (50000, None)},
    "income >= 50000": {"income": (50000, None)},
    "1 < income < 2, income >= 1.5": {"income": (1.5, 2)},
    "income in (-inf, inf)": {"income": (None, None)},
    "rain > 0": {"rain": (0, None)},
    "rain >= 0": {"rain": (math.nextafter(0, -1), None)},
    "rain = 0": {"rain": 0},
    "rain < 2.5": {"rain": (None, BEFORE)},
    "rain <= 2.5": {"rain": (None, 2.5)},
    "1 < rain < 2": {"rain": (1, 2)},
    "price > 9.99": {"price": (9.99, None)},
    "price < 9.995": {"price": (None, 9.995)},
    "city = Oslo": {"city": "Oslo"},
    "city in {Oslo, 'New York'}": {"city": {"Oslo", "New York"}},
    "city in {Oslo, 'New York'}, city in {Oslo, Bergen}": {"city": {"Oslo"}},
    "city in {Oslo, 'New York'}, city = Oslo": {"city": "Oslo"},
    "grade >= mid": {"grade": {"mid", "high"}},
    "low < grade < high": {"grade": {"mid"}},
    "cylinders > 4": {"cylinders": {6, 8}},
    "cylinders = 6.0": {"cylinders": 6},
    "cylinders in {4, '8'}": {"cylinders": {4, 8}},
    "smoker = true": {"smoker": True},
    "smoker = 'False'": {"smoker": False},
    "smoker = 1": {"smoker": True},
    "code = 007": {"code": "007"},
    "code in {12, true}": {"code": {"12", "true"}},
    "day > 2024-01-31": {"day": (time("2024-01-31"), None)},
    "day = '2024-01-31 12:00'": {"day": time("2024-01-31 12:00")},
    "day > 2024-01-31, day < '2024-02-01 12:00'": {
        "day": (time("2024-01-31"), time("2024-02-01 12:00"))
    },
    "utc > 2024-01-31": {"utc": (time("2024-01-31", "UTC"), None)},
    "utc > 2024-01-31T12:00+02:00": {"utc": (time("2024-01-31 10:00", "UTC"), None)},
    "date <= 2024-01-31": {"date": (None, time("2024-01-31"))},
    "date < 2024-01-31": {"date": (None, time("2024-01-30"))},
    "date < 2024-01-31T12:00": {"date": (None, time("2024-01-31 12:00"))},
    "took > '2 hours'": {"took": (pd.Timedelta(hours=2), None)},
    "`home town` = 0.1": {"home town": 0.1},
    "`7` = 0.1": {7: 0.1},
}


@pytest.mark.parametrize("text", CASES)
def test_conditions_become_evidence(schema: Schema, text: str) -> None:
    evidence = to_evidence(parse_conditions(text), schema, text)
    assert evidence == CASES[text]
    assert {name: type(known) for name, known in evidence.items()} == {
        name: type(known) for name, known in CASES[text].items()
    }
    if evidence:
        encode_known(schema, evidence)


ERRORS = [
    ("agee = 3", "Did you mean 'age'?"),
    ("salary = 3", "Known: 'age', 'income'"),
    ("Age = 3", "Did you mean 'age'?"),
    ("age = 20.5", "a whole number"),
    ("age = young", "a number for column 'age'"),
    ("age = true", "a number for column 'age'"),
    ("age = '40'", "without quotes"),
    ("age > 20, age < 21", "contradiction"),
    ("age in {20, 25}", "without gaps"),
    ("income in {1, 2}", "without gaps"),
    ("city = Olso", "Did you mean 'Oslo'?"),
    ("city > Bergen", "no order"),
    ("city = Oslo, city = Bergen", "contradiction"),
    ("grade > higher", "Did you mean 'high'?"),
    ("grade > high", "contradiction"),
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


def test_what_has_mass(schema: Schema) -> None:
    for name, known, mass in (
        ("age", 40, True),
        ("city", "Oslo", True),
        ("income", (1, 2), True),
        ("income", 1, False),
        ("price", 1.0, True),
        ("rain", 0, True),
        ("rain", 1, False),
    ):
        assert has_mass(schema, name, known) is mass


# The law: a value satisfies the condition exactly if its cell is inside of the evidence. ----------

LATTICES = {
    "age": [float(k) for k in range(-3, 8)],
    "price": [k / 100 for k in range(8)],
    "rain": [0.0, 2.5],
}


@functools.cache
def cells() -> tuple[Schema, dict[tuple[str, float], Any]]:
    schema = infer(
        FRAME[["age", "price", "rain"]], {name: KINDS[name] for name in ("price", "rain")}
    )
    exact = {
        (name, point): encode_known(schema, {name: point}).evidence
        for name, points in LATTICES.items()
        for point in points
    }
    return schema, exact


@settings(max_examples=400)
@given(st.data())
def test_intervals_hold_the_values_that_they_should(data: st.DataObject) -> None:
    schema, exact = cells()
    column = data.draw(st.sampled_from(list(LATTICES)))
    points = LATTICES[column]
    ends = st.none() | st.sampled_from([*points, *(np.array(points) + 0.0025).tolist()])
    low, high = data.draw(ends), data.draw(ends)
    less = data.draw(st.sampled_from(["<", "<="])), data.draw(st.sampled_from(["<", "<="]))
    left = "-inf" if low is None else repr(low)
    right = "inf" if high is None else repr(high)
    text = f"{left} {less[0]} {column} {less[1]} {right}"
    inside = None
    with contextlib.suppress(QueryError):  # for contradictions
        inside = encode_known(schema, to_evidence(parse_conditions(text), schema, text))
    for point in points:
        cell = exact[column, point]
        within = inside is not None and not bool(inside.empty) and _within(cell, inside)
        assert within == _holds(point, low, high, less), (text, point)


def _holds(x: float, low: float | None, high: float | None, less: tuple[str, str]) -> bool:
    above = low is None or low < x or (less[0] == "<=" and low == x)
    return above and (high is None or x < high or (less[1] == "<=" and x == high))


def _within(cell: Any, whole: Any) -> bool:
    low, high = whole.evidence.lower, whole.evidence.upper
    if bool(low.isnan()):
        return True
    if bool(low == high):
        return bool(cell.upper == high)
    if bool(cell.lower == cell.upper):
        return bool((low < cell.lower) & (cell.upper <= high))
    return bool((low <= cell.lower) & (cell.upper <= high))
