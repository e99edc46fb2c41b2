"""Counts of rows: those of `prob`, monotone and additive, many at once."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA
from marginals.queries import TableView


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 400)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.exp(5 + 0.02 * age + 0.3 * rng.normal(size=400)),
            "city": rng.choice(["Oslo", "Bergen", "Rome"], 400),
            "grade": rng.choice([1.5, 2.5, 4.0], 400),
            "rain": np.where(rng.random(400) < 0.4, 0.0, rng.exponential(3, 400)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 400), "D"),
        }
    )


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> MDMA:
    return MDMA(tensor="ht", width=6, max_steps=30, random_state=0).fit(frame)


EVENTS: list[Any] = [
    {"age": (30, 40)},
    {"age": 33, "city": "Oslo"},
    {"income": (None, 300), "grade": {1.5, 4.0}},
    {"city": {"Oslo", "Rome"}, "rain": 0.0},
    {"rain": (0, None), "day": (pd.Timestamp("2024-02-01"), None)},
    {"age": [(None, 30), (60, None)], "income": (100, 500)},
    {"age": {20, 21, 50}},
    {"grade": (2, 3)},
    {"age": pd.Interval(30, 30, closed="right")},
    {"age": 30.5},
    {},
]


def test_counts_are_those_of_prob(model: MDMA, frame: pd.DataFrame) -> None:
    found = model.count(EVENTS)
    wanted = [model.prob(event) if event else 1.0 for event in EVENTS]
    np.testing.assert_allclose(found.value, len(frame) * np.array(wanted), rtol=2e-6, atol=1e-9)
    assert (found.stderr == 0).all()
    one = model.count({"age": (30, 40)}, rows=1000)
    assert float(one) == pytest.approx(1000 * wanted[0])
    assert str(one).endswith("rows")
    assert len(model.count([])) == 0


def test_counts_of_text(model: MDMA) -> None:
    texts = ["30 < age <= 40", "age = 33, city = Oslo", "P(city in {Oslo, Rome}, rain = 0)"]
    events = [EVENTS[0], EVENTS[1], EVENTS[3]]
    np.testing.assert_array_equal(model.count(texts).value, model.count(events).value)
    with pytest.raises(ValueError, match="bar"):
        model.count("P(age > 30 | city = Oslo)")
    with pytest.raises(ValueError, match="incme"):
        model.count(["incme > 3"])
    with pytest.raises(ValueError, match="Expected an interval"):
        model.count({"income": 300.0})
    with pytest.raises(TypeError, match="dict"):
        model.count([3])


def test_larger_boxes_count_more_and_halves_add_up(model: MDMA, frame: pd.DataFrame) -> None:
    """In float64, on 1,000 random boxes: the box, a larger one, and its halves."""
    rng = np.random.default_rng(1)
    whole, larger, left, right = [], [], [], []
    for _ in range(1000):
        names = rng.choice(["age", "income", "rain"], rng.integers(1, 4), replace=False)
        ends = {n: np.sort(rng.choice(frame[n].unique(), 2, replace=False)) for n in names}
        box = {n: (float(low), float(high)) for n, (low, high) in ends.items()}
        low, high = box[names[0]]
        middle = (low + high) / 2
        whole.append(box)
        larger.append({**box, names[0]: (low - 1, high + 2)})
        left.append({**box, names[0]: (low, middle)})
        right.append({**box, names[0]: (middle, high)})
    found = [model.count(boxes).value for boxes in (whole, larger, left, right)]
    rounding = 1e-12 * found[1]
    assert (found[0] <= found[1] + rounding).all()
    assert (np.abs(found[0] - found[2] - found[3]) <= rounding).all()


def test_copula_components_state_their_error(frame: pd.DataFrame) -> None:
    columns = frame[["age", "income", "rain"]]
    model = MDMA(tensor="copula", width=3, max_steps=10, random_state=0).fit(columns)
    two = {"age": (30, 40), "income": (100, 300)}
    found = model.count([two, {**two, "rain": (1, 2)}])
    assert found.stderr[0] == 0
    assert 0 < found.stderr[1] < 1e-3 * found.value[1]


def test_rows_of_views(model: MDMA, tmp_path: Any) -> None:
    event = {"age": (30, 40)}
    assert model.marginal(["age", "city"]).count(event).value == pytest.approx(
        model.count(event).value
    )
    with pytest.raises(ValueError, match="views do not know"):
        model.condition({"city": "Oslo"}).count(event)
    model.save(tmp_path / "m.mdma")
    from marginals.queries.table_files import load_view

    loaded = load_view(tmp_path / "m.mdma")
    assert isinstance(loaded, TableView)
    assert loaded.count(event).value == model.count(event).value


def test_counts_follow_the_parameters(frame: pd.DataFrame) -> None:
    """No change, not even one that version counters miss, leaves a stale count."""
    model = MDMA(tensor="ht", width=3, max_steps=2, random_state=0).fit(frame)
    event = {"age": (30, 40), "city": "Oslo"}
    before = model.count(event).value
    for part in model.module_.parameters():
        part.data.add_(torch.linspace(0, 1, part.numel()).reshape(part.shape))
    after = model.count(event).value
    assert after != before
    assert after == pytest.approx(len(frame) * model.prob(event), rel=1e-5)


def test_single_counts_equal_those_of_a_batch(model: MDMA) -> None:
    together = model.count(EVENTS).value
    alone = [model.count(event).value for event in EVENTS]
    np.testing.assert_allclose(alone, together, rtol=1e-12)


def test_rows_of_a_table_are_boxes(model: MDMA) -> None:
    """Ranges, single values and free cells, as in a list of dicts."""
    ages = pd.arrays.IntervalArray.from_tuples([(30, 40), (20, 70), np.nan], closed="both")
    boxes = pd.DataFrame({"age": ages, "city": ["Oslo", None, "Rome"], "grade": [np.nan, 1.5, 1.0]})
    events: list[dict[str, Any]] = [
        {"age": pd.Interval(30, 40, closed="both"), "city": "Oslo"},
        {"age": pd.Interval(20, 70, closed="both"), "grade": 1.5},
    ]
    found = model.count(boxes).value
    np.testing.assert_array_equal(found, [*model.count(events).value, 0.0])
    with pytest.raises(ValueError, match="Expected an interval for continuous column 'income'"):
        model.count(pd.DataFrame({"income": [300.0]}))
