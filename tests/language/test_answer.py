"""Answers to queries are those of the model's methods, or our errors."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginals.columns import Continuous
from marginals.estimators.mdma import MDMA
from marginals.language import Query, QueryError, answer, format, parse
from tests.examples import examples


@pytest.fixture(scope="module")
def model() -> Any:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 200)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": np.exp(0.02 * age + 0.3 * rng.normal(size=200)),
            "price": rng.integers(0, 500, 200) / 100,
            "rain": np.where(rng.random(200) < 0.4, 0.0, rng.exponential(3, 200)),
            "city": rng.choice(["Oslo", "Bergen", "New York"], 200),
            "grade": pd.Categorical(rng.choice(["a", "b", "c"], 200), ordered=True),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), "D"),
        }
    )
    kinds = {
        "price": Continuous(lower=0, resolution=0.01),
        "rain": Continuous(lower=0, atoms=(0,)),
    }
    return MDMA(width=4, max_steps=20, columns=kinds, random_state=0).fit(frame)


OSLO = {"city": {"Oslo", "Bergen"}}
VALUES: dict[str, Any] = {
    "P(age > 40)": lambda m: m.prob({"age": (40, None)}),
    "P(age >= 40)": lambda m: m.prob({"age": (39, None)}),
    "P(age = 40)": lambda m: m.prob({"age": 40}),
    "P(age = 40.5)": lambda m: 0.0,
    "P(age in {30, 31})": lambda m: m.prob({"age": (29, 31)}),
    "P(age > 30, age < 20)": lambda m: 0.0,
    "P(age < 30, income > 2 | city = Oslo)": lambda m: m.prob(
        {"age": (None, 29), "income": (2, None)}, given={"city": "Oslo"}
    ),
    "P(20 <= age < 60 | city in {Oslo, Bergen}, 0 < income < 3)": lambda m: m.prob(
        {"age": (19, 59)}, given={**OSLO, "income": (0, 3)}
    ),
    "P(grade > a | city in {Oslo, Bergen})": lambda m: m.prob({"grade": {"b", "c"}}, given=OSLO),
    "P(rain < 0)": lambda m: 0.0,
    "P(day >= 2024-05-01)": lambda m: m.prob({"day": (pd.Timestamp("2024-04-30"), None)}),
    "p(income = 2 | age = 40)": lambda m: m.pdf({"income": 2}, given={"age": 40}),
    "p(income = 2, age = 40)": lambda m: m.pdf({"income": 2, "age": 40}),
    "E[income | age = 40]": lambda m: m.mean("income", given={"age": 40}),
    "SD[income]": lambda m: m.std("income"),
    "Q[0.9](income)": lambda m: m.ppf(0.9, "income"),
    "mode(income | age = 40)": lambda m: m.mode("income", given={"age": 40}),
    "E[income | age in {30, 40}]": lambda m: m.mean("income", given={"age": {30, 40}}),
    "E[income | age < 30 or 40 <= age < 50]": lambda m: m.mean(
        "income", given={"age": [(None, 29), (39, 49)]}
    ),
    "Q[0.05, 0.95](income | age > 30)": lambda m: list(
        m.ppf([0.05, 0.95], "income", given={"age": (30, None)})
    ),
}


@pytest.mark.parametrize("text", VALUES)
def test_answers(model: Any, text: str) -> None:
    wanted = VALUES[text](model)
    for query in (text, parse(text)):
        found = answer(model, query)
        assert found.value == pytest.approx(wanted, rel=1e-12)
        assert isinstance(found.value, list if isinstance(wanted, list) else float)
        assert found.text == text
        assert str(found).startswith(f"{text} = ")


def test_queries_made_by_hand_have_text(model: Any) -> None:
    made = Query("P", parse("P(age > 40)").of)
    assert answer(model, made).text == format(made) == "P(age > 40)"


def test_answers_print_themselves_and_are_numbers(model: Any) -> None:
    found = answer(model, "P(age > 40 | city = Oslo)")
    assert repr(found) == str(found) == f"P(age > 40 | city = Oslo) = {found.value:.6g}"
    assert found._repr_html_().startswith("<code>P(age &gt; 40 | city = Oslo)</code> = <b>0.")
    assert float(found) == found.value == float(np.asarray(found))
    levels = answer(model, "Q[0.1, 0.9](income)")
    assert np.asarray(levels).tolist() == levels.value
    assert answer(model, "mode(city)").value in ("Oslo", "Bergen", "New York")
    assert str(answer(model, "mode(grade | age < 30 or age > 60)")).endswith(("= a", "= b", "= c"))


def test_times_stay_times(model: Any) -> None:
    found = answer(model, "E[day]")
    assert isinstance(found.value, pd.Timestamp)
    assert str(found) == f"E[day] = {found.value}"


def test_quantiles_undo_probabilities(model: Any) -> None:
    level = answer(model, "Q[0.3](income | age = 40)").value
    assert answer(model, f"P(income <= {level!r} | age = 40)").value == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "words", "at"),
    [
        ("P(income = 0.5)", "small p", 2),
        ("P(income = 0.5 | income > 0.2)", "small p", 2),
        ("P(age > 3, rain in {0, 1})", "small p", 11),
        ("P(aged > 4)", "Did you mean 'age'", 2),
        ("E[y]", "Known: 'age', 'income', 'price'", 2),
        ("E[income | y = 1]", "Known", 11),
        ("E[income | income > 0.5]", "only P takes a column twice", 11),
        ("p(income = 0.5 | income > 0.2)", "only P takes a column twice", 17),
        ("E[city]", "categorical", 2),
        ("Q[0.5](city)", "quantiles", 7),
        ("P(age > 40 | income > 3, income < 2)", "contradiction", 25),
    ],
)
def test_errors(model: Any, text: str, words: str, at: int) -> None:
    with pytest.raises(QueryError) as caught:
        answer(model, text)
    assert words in caught.value.message
    assert caught.value.position == at


CONDITIONS = st.sampled_from(
    [
        *("age > 30", "20 <= age < 60", "age = 40", "age = 40.5", "age in {30, 31}", "age = x"),
        *("age in {30, 35}", "income in {1, 2}", "price in {1, 1.25}", "age > 50, age < 20"),
        *("income > 2", "income = 2", "1 < income <= 1.5", "income < -5", "income in {1}"),
        *("price = 1.25", "price < 0", "price >= 4.99", "1.251 < price < 1.259", "price > 1e300"),
        *("rain = 0", "rain < 0", "rain > 0", "rain >= 1e-300", "rain in [0, 0]"),
        *("city = Oslo", "city in {Oslo, Bergen}", "city = Paris", "city > Oslo"),
        *("grade > a", "grade < a", "grade = b", "grade in {a, c}", "day > 2024-05-01"),
        *("age < 30 or age > 60", "income < 1 or income = 2", "city = Oslo or city = Bergen"),
        *("day = 2024-05-01", "day > 9999-01-01", "day > 5", "nothing = 1"),
        "income in (-inf, inf)",
    ]
)
HEADS = st.sampled_from(["E[age{}]", "SD[income{}]", "Q[0.1, 0.9](price{})", "p(income = 2{})"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    bar = ", ".join(draw(st.lists(CONDITIONS, max_size=2)))
    given = f" | {bar}" if bar else ""
    if draw(st.booleans()):
        return draw(HEADS).format(given)
    return f"P({', '.join(draw(st.lists(CONDITIONS, min_size=1, max_size=3)))}{given})"


@pytest.mark.filterwarnings("ignore::marginals.OutsideDataWarning")
@examples(250)
@given(text=texts())
def test_any_query_is_answered_or_refused(model: Any, text: str) -> None:
    try:
        value = answer(model, text).value
    except (ValueError, TypeError) as error:
        refused = str(error)
        if not refused.startswith("Expected"):
            raise
        return
    if text.startswith("P("):
        assert 0 <= value <= 1 + 1e-5, text
    else:
        assert not np.isnan(np.asarray(value, dtype=float)).any(), text
