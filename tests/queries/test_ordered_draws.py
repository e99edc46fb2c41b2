"""Draws keep the order of columns that the fitted table keeps."""

import json

import numpy as np
import pandas as pd
import pytest

import marginals
from marginals import MDMA
from marginals.columns import Schema, infer
from marginals.columns.row_orders import find_orders, out_of_order

ROWS = 400


def trips() -> pd.DataFrame:
    random = np.random.default_rng(0)
    start = pd.Timestamp("2024-03-01") + pd.to_timedelta(random.integers(0, 10**5, ROWS), "s")
    fare = random.gamma(3, 5, ROWS).round(2)
    return pd.DataFrame(
        {
            "start": start,
            "end": start + pd.to_timedelta(random.integers(60, 4000, ROWS), "s"),
            "fare": fare,
            "total": (fare + random.exponential(2, ROWS)).round(2),
            "people": random.integers(1, 5, ROWS),
        }
    )


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(effort="quick", random_state=0).fit(trips())


def test_orders_are_found_and_kept_in_files(model: MDMA) -> None:
    assert sorted(model.schema_.orders) == [("fare", "total"), ("start", "end")]
    stored = json.loads(json.dumps(model.schema_.to_dict()))
    assert Schema.from_dict(stored).orders == model.schema_.orders
    assert infer(trips(), guess=False).orders == []
    assert model.marginal(["end", "people"]).schema_.orders == []


def test_draws_obey(model: MDMA) -> None:
    drawn = model.sample(500, random_state=0)
    assert len(drawn) == 500
    assert not out_of_order(drawn, model.schema_.orders).any()
    crossing = model.module_.sample(500)
    assert crossing.shape[-1] == 5  # the density itself knows of no order
    pd.testing.assert_frame_equal(drawn, model.sample(500, random_state=0))


def test_draws_given_evidence_obey(model: MDMA) -> None:
    table = trips()
    given = table[["fare"]].head(20)
    drawn = model.sample(3, given=given, random_state=1)
    assert (drawn["fare"].to_numpy() == given["fare"].repeat(3).to_numpy()).all()
    assert (drawn["fare"] <= drawn["total"]).all()
    one = model.sample(50, given={"total": (None, 8)}, random_state=1)
    assert (one["fare"] <= one["total"]).all()
    # Evidence that breaks the order comes back as it was given.
    odd = model.sample(2, given={"fare": 30.0, "total": 20.0}, random_state=0)
    assert odd["fare"].tolist() == [30.0, 30.0]


def test_files_without_orders_load(model: MDMA, tmp_path: object) -> None:
    model.save(f"{tmp_path}/m.mdma")
    assert marginals.load(f"{tmp_path}/m.mdma").schema_.orders == model.schema_.orders
    stored = model.schema_.to_dict()
    for column in stored["columns"]:
        del column["above"]
    assert Schema.from_dict(stored).orders == []


def test_orders_by_chance_or_by_range_do_not_count() -> None:
    random = np.random.default_rng(0)
    low, high = random.random(1000), 2 + random.random(1000)
    assert find_orders([low, high], ["n", "n"]) == []  # ordered by their ranges
    assert find_orders([low, low + 0.1], ["n", "n"]) == [(0, 1)]
    assert find_orders([low, low + 0.1], ["n", "t"]) == []
    assert find_orders([low, low.copy()], ["n", "n"]) == []  # equal
    assert find_orders([low[:10], low[:10] + 0.1], ["n", "n"], least=20) == []
    gaps = np.where(np.arange(1000) % 2, np.nan, low + 0.1)
    assert find_orders([low, gaps], ["n", "n"]) == [(0, 1)]
    assert find_orders([], []) == []


def test_missing_cells_break_no_order() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": pd.array([2, 2, 2], "Int64")})
    assert out_of_order(frame, [("a", "b")]).tolist() == [False, False, True]


def test_orders_that_the_model_has_not_learned_are_not_kept() -> None:
    table = trips()
    model = MDMA(tensor="cp", width=1, max_steps=1, random_state=0).fit(table)
    assert ("start", "end") in infer(table).orders
    assert ("start", "end") not in model.schema_.orders
