"""Answers, on a model whose every answer is known: a fair die, a uniform number, a coin."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.columns import Continuous, infer
from marginals.language import Query, QueryError, answer, format, parse

FRAME = pd.DataFrame(
    {
        "die": [1, 2, 3, 4, 5, 6],
        "x": np.linspace(0.01, 0.99, 6),
        "coin": ["heads", "tails"] * 3,
        "day": pd.date_range("2024-01-01", periods=6),
    }
)


class Independent:
    """Columns without dependence, and a record of what was asked."""

    schema_ = infer(FRAME, {"x": Continuous(lower=0, upper=1)})

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def prob(self, event: dict[str, Any], given: Any = None) -> np.ndarray[Any, Any]:
        self.asked.append((event, given))
        assert not set(event) & set(given or {})
        return np.array([np.prod([self._mass(*item) for item in event.items()])])

    def _mass(self, name: str, known: Any) -> float:
        if name == "coin":
            return len(known) / 2 if isinstance(known, set) else 0.5
        low, high = known if isinstance(known, tuple) else (known - 1, known)
        floor, top = (0, 6) if name == "die" else (0, 1)
        low, high = max(low or floor, floor), min(top if high is None else high, top)
        return max(0.0, (high - low) / (top - floor))

    def pdf(self, X: dict[str, Any], given: Any = None) -> float:  # noqa: N803
        self.asked.append((X, given))
        return 1.0 if "die" not in X else 1 / 6

    def mean(self, column: str, given: Any = None) -> Any:
        self.asked.append((column, given))
        return pd.Timestamp("2024-01-03") if column == "day" else np.float64(0.5)

    def std(self, column: str, given: Any = None) -> Any:
        return np.array([0.25])

    def ppf(self, q: list[float], column: str, given: Any = None) -> Any:
        return np.array(q)


@pytest.fixture
def model() -> Independent:
    return Independent()


VALUES = {
    "P(die > 4)": 1 / 3,
    "P(die >= 4)": 1 / 2,
    "P(die = 4)": 1 / 6,
    "P(die < 3, x > 0.75 | coin = heads)": 1 / 12,
    "P(coin in {heads, tails})": 1.0,
    "P(die > 4 | die > 2)": 1 / 2,
    "P(die > 2 | die > 4)": 1.0,
    "P(die < 2 | die > 4)": 0.0,
    "P(die = 5 | die > 4)": 1 / 2,
    "P(die > 4 | die = 5)": 1.0,
    "P(die > 4 | die = 3)": 0.0,
    "P(die > 4, coin = heads | die > 2, x = 0.5)": 1 / 4,
    "P(x > 0.5 | x > 0.25)": 2 / 3,
    "P(x > 0.5 | x = 0.7)": 1.0,
    "P(x > 0.5 | x = 0.3)": 0.0,
    "P(x > 0.5, die = 1 | x = 0.7)": 1 / 6,
    "P(coin = heads | coin in {heads, tails})": 1 / 2,
    "p(x = 0.5 | die = 1)": 1.0,
    "p(x = 0.5, die = 1)": 1 / 6,
    "E[x | die = 1]": 0.5,
    "SD[x]": 0.25,
    "Q[0.9](x)": 0.9,
    "Q[0.05, 0.95](x | die > 2)": [0.05, 0.95],
}


@pytest.mark.parametrize("text", VALUES)
def test_answers(model: Independent, text: str) -> None:
    for query in (text, parse(text)):
        found = answer(model, query)
        assert found.value == pytest.approx(VALUES[text])
        assert isinstance(found.value, list if isinstance(VALUES[text], list) else float)
        assert found.text == text
        assert str(found).startswith(f"{text} = ")


def test_queries_made_by_hand_have_text(model: Independent) -> None:
    made = Query("P", parse("P(die > 4)").of)
    assert answer(model, made).text == format(made) == "P(die > 4)"


def test_evidence_is_the_contracts(model: Independent) -> None:
    answer(model, "P(die >= 4 | coin in {heads}, 0 < x < 0.5)")
    assert model.asked == [({"die": (3, None)}, {"coin": {"heads"}, "x": (0, 0.5)})]
    answer(model, "E[x]")
    assert model.asked[-1] == ("x", None)


def test_times_stay_times(model: Independent) -> None:
    found = answer(model, "E[day]")
    assert found.value == pd.Timestamp("2024-01-03")
    assert str(found) == "E[day] = 2024-01-03 00:00:00"


@pytest.mark.parametrize(
    ("text", "words", "at"),
    [
        ("P(x = 0.5)", "small p", 2),
        ("P(x = 0.5 | x > 0.2)", "small p", 2),
        ("P(dice > 4)", "Did you mean 'die'", 2),
        ("E[y]", "Known: 'die', 'x', 'coin', 'day'", 2),
        ("E[x | y = 1]", "Known", 6),
        ("E[x | x > 0.5]", "only P takes a column twice", 6),
        ("p(x = 0.5 | x > 0.2)", "only P takes a column twice", 12),
        ("E[coin]", "categorical", 2),
        ("Q[0.5](coin)", "quantiles", 7),
        ("P(die > 4 | die > 6)", "probability 0", 12),
    ],
)
def test_errors(model: Independent, text: str, words: str, at: int) -> None:
    with pytest.raises(QueryError) as caught:
        answer(model, text)
    assert words in caught.value.message
    assert caught.value.position == at
