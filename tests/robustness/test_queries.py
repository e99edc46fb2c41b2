"""Any text asked of a model is answered by a number, or refused in our own words."""

import math
from collections import Counter
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginals import MDMA, Continuous, Integer
from tests.examples import examples
from tests.language.strategies import NUMBERS, ODD, SIGNS, nearly
from tests.queries.conftest import KINDS, make_frame
from tests.robustness.questions import Refused, answer

# Evidence is drawn far beyond the data on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::marginals.OutsideDataWarning")

# Values that fit the columns, some beyond their bounds.
FITTING = {
    "x": ["100", "80.5", "-2.5e3", "1e-300", "1e300"],
    "share": ["0.5", "0", "1", "0.999", "2"],
    "wait": ["0", "10", "-1", "30.5"],
    "count": ["0", "3", "4", "2.5", "100000"],
    "price": ["0", "0.5", "1.2", "0.55"],
    "city": ["Oslo", "Bergen", "'Vardø'", "oslo"],
    "grade": ["a", "b", "c"],
    "day": ["2020-03-01", "2020-12-31", "'2020-06-01 12:00'", "1900-01-01"],
}
COLUMNS = list(FITTING)
FORMS = [
    *("{c} = {v}", "{c} > {v}", "{c} <= {v}", "{c} != {v}", "{c}"),
    *("{v} < {c} <= {o}", "{c} in ({v}, {o}]", "{c} in {{{v}, {o}}}"),
]


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(columns=KINDS, width=4, max_steps=3, random_state=0).fit(make_frame())


@st.composite
def conditions(draw: st.DrawFn, column: str | None = None) -> str:
    """A condition on a column that may make no sense."""
    column = draw(st.sampled_from(COLUMNS)) if column is None else column
    values = st.sampled_from([*FITTING[column] * 3, *NUMBERS, "true"])
    form = draw(st.sampled_from(FORMS))
    return form.format(c=column, v=draw(values), o=draw(values))


@st.composite
def likely_conditions(draw: st.DrawFn, column: str) -> str:
    """A condition on a column that can be met."""
    value = draw(st.sampled_from(FITTING[column][:2]))
    forms = ["{c} = {v}", "{c} in {{{v}}}"] if column in ("city", "grade") else FORMS[1:3]
    return draw(st.sampled_from(forms)).format(c=column, v=value)


@st.composite
def questions(draw: st.DrawFn, likely: bool = False) -> str:
    """Text that is mostly a query about the columns of the model; if `likely`, a good one."""
    columns: list[Any] = draw(st.permutations(COLUMNS)) if likely else [None] * 5
    make = likely_conditions if likely else conditions
    known = [draw(make(column)) for column in columns[: draw(st.integers(0, 2))]]
    tail = f" | {', '.join(known)}" if known else ""
    levels = ["Q[0.1, 0.9]"] if likely else ["p", "Q[0]", "Q[2]"]
    function = draw(st.sampled_from(["P", "P", "E", "SD", *levels]))
    if function in ("P", "p"):
        events = [draw(make(column)) for column in columns[2 : draw(st.integers(3, 5))]]
        return f"{function}({', '.join(events)}{tail})"
    opening, closing = "[]" if function in ("E", "SD") else "()"
    of = columns[2] or draw(st.sampled_from(COLUMNS))
    return f"{function}{opening}{of}{tail}{closing}"


def is_sound(value: Any, text: str) -> bool:
    values = value if isinstance(value, list) else [value]
    if any(pd.isna(one) for one in values):
        return False
    return not text.startswith("P") or all(0 <= one <= 1 + 1e-5 for one in values)


@examples(600)
@given(text=st.one_of(questions(), questions(likely=True), nearly, st.text(max_size=20)))
def test_any_text_is_answered_or_refused(model: MDMA, text: str) -> None:
    try:
        value = answer(model.query, text).value
    except Refused:
        return
    assert is_sound(value, text), (text, value)


def test_many_of_the_questions_are_answered(model: MDMA) -> None:
    outcomes: Counter[bool] = Counter()

    @examples(120)
    @given(text=questions(likely=True))
    def ask(text: str) -> None:
        try:
            answer(model.query, text)
            outcomes[True] += 1
        except Refused:
            outcomes[False] += 1

    ask()
    assert outcomes[True] > 0.5 * sum(outcomes.values())


kinds = st.one_of(
    st.builds(Integer, st.none() | st.integers(-3, 0), st.none() | st.integers(9, 12)),
    st.builds(
        Continuous,
        st.none() | st.floats(-9, -1),
        st.none() | st.floats(10, 99),
        st.sampled_from([None, 0.5, 1.0]),
    ),
)
evidence = st.one_of(
    st.none(),
    st.integers(-20, 20),
    st.floats(-20, 20),
    st.tuples(st.none() | st.floats(-20, 20), st.none() | st.floats(-20, 20)),
    st.tuples(st.none() | st.integers(-20, 20), st.none() | st.integers(-20, 20)),
    st.sampled_from([math.nan, math.inf, -math.inf, 10**30, "x", {1}, [], (1,), object(), 1j]),
)


@examples(30)
@given(kind=kinds, asked=st.lists(st.tuples(evidence, evidence), min_size=4, max_size=8))
def test_any_schema_and_any_evidence(kind: Any, asked: list[tuple[Any, Any]]) -> None:
    frame = pd.DataFrame({"a": [float(i % 10) for i in range(20)], "b": list("pq") * 10})
    model = MDMA(columns={"a": kind}, width=2, max_steps=1, random_state=0).fit(frame)
    for event, given_ in asked:
        for question in ({"a": event}, {"b": event}):
            for known in ({"b": given_}, {"a": given_}, None):
                try:
                    value = answer(model.prob, question, given=known)
                except Refused:
                    continue
                assert 0 <= value <= 1 + 1e-5, (question, known, value)


def test_signs_of_the_language_are_all_tried() -> None:
    assert {"|", "in", "{"} <= set(SIGNS)
    assert any(len(odd) > 1000 for odd in ODD)
