"""Categorical columns that are functions of others are found, left out and put back."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA
from marginals.cells.evidence import Evidence
from marginals.densities.mixture import Mixture
from marginals.densities.nested_columns import NestedColumns, Nesting
from marginals.selection.nesting import NestedTable, find_nestings

ZONES = 6
GROUPS = (0, 0, 0, 1, 1, 1)


def zones(rows: int = 240, seed: int = 0) -> torch.Tensor:
    return torch.randint(ZONES, (rows,), generator=torch.Generator().manual_seed(seed)).double()


def table(*columns: torch.Tensor) -> Evidence:
    return Evidence.exact(torch.stack(columns, 1))


def test_a_function_is_found_in_either_order_and_with_gaps() -> None:
    zone, x = zones(), torch.randn(240).double()
    group = zone // 3
    group[::7] = torch.nan
    gappy = zone.clone()
    gappy[3::11] = torch.nan
    found = find_nestings(table(x, group, gappy), {1: 2, 2: ZONES})
    assert found == [Nesting(1, 2, GROUPS)]
    assert find_nestings(table(gappy, x, group), {0: ZONES, 2: 2}) == [Nesting(2, 0, GROUPS)]


def test_one_row_that_breaks_it_is_enough() -> None:
    zone = zones(2000)
    group = zone // 3
    group[-1] = 1 - group[-1]
    assert find_nestings(table(zone, group), {0: ZONES, 1: 2}) == []


def test_a_rare_value_is_no_function_of_others_by_chance() -> None:
    """Three rows with a flag, each alone in its zone: any column of many values would do."""
    zone = torch.arange(300.0).double() % 50
    zone[:3] = torch.tensor([50.0, 51.0, 52.0])
    flag = torch.zeros(300).double()
    flag[:3] = 1.0
    assert find_nestings(table(zone, flag), {0: 53, 1: 2}) == []


def test_functions_of_functions_refer_to_the_first_source() -> None:
    zone = zones()
    renamed = (zone + 1) % ZONES
    every = table(zone // 3, renamed, zone, zone // 2)
    found = find_nestings(every, {0: 2, 1: ZONES, 2: ZONES, 3: 3})
    assert [(n.column, n.source) for n in found] == [(0, 1), (2, 1), (3, 1)]


def test_values_never_seen_have_the_most_frequent_code() -> None:
    zone = zones()
    found = find_nestings(table(zone, (zone >= 1).double()), {0: ZONES + 1, 1: 2})
    assert found == [Nesting(1, 0, (0, 1, 1, 1, 1, 1, 1))]


def test_columns_in_focus_stay() -> None:
    zone = zones()
    data = table(zone // 3, zone)
    assert NestedTable.of(data, {0: 2, 1: ZONES}, but=[0]).nestings == ()
    assert NestedTable.of(data, {0: 2, 1: ZONES}, but=[1]).nestings == ()


def test_options_by_column_and_lists_of_columns_follow() -> None:
    nested = NestedTable((Nesting(1, 2, (0, 1)),), (2,), 4)
    options = {"categories": {1: 2, 2: 2}, "atoms": {3: [0.0]}, "alone": (2,)}
    expected = {"categories": {1: 2}, "atoms": {2: [0.0]}, "alone": (1,)}
    assert nested.options(options) == expected


def loans(rows: int, seed: int = 0) -> pd.DataFrame:
    """Loans: sub-grades within grades, two terms, near-equal limits, many balances of zero."""
    random = np.random.default_rng(seed)
    risk = random.beta(2, 3, rows)
    sub = np.clip((35 * risk + random.normal(0, 1, rows)).astype(int), 0, 34)
    term = np.where(random.random(rows) < 0.15 + 0.5 * risk, 60, 36)
    limit = 100 * np.round(np.exp(random.normal(4, 0.5, rows))) + 500
    start = pd.Timestamp("2016-01-01") + pd.to_timedelta(random.integers(0, 1500, rows), unit="D")
    names = np.array([f"{grade}{i}" for grade in "ABCDEFG" for i in range(1, 6)])
    return pd.DataFrame(
        {
            "grade": np.array(list("ABCDEFG"))[sub // 5],
            "sub_grade": names[sub],
            "term": term,
            "limit": limit,
            "rating": np.round(limit / 15 + random.normal(0, 8, rows) + 50),
            "balance": np.where(random.random(rows) < 0.22, 0, limit * random.beta(2, 4, rows)),
            "start": start,
            "end": start + pd.to_timedelta(np.where(term == 36, 1096, 1826), unit="D"),
        }
    )


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(random_state=0, max_seconds=10, n_jobs=1).fit(loans(400))


def test_draws_and_answers_obey_the_function(model: MDMA) -> None:
    rows = model.sample(2000, random_state=0)
    assert (rows["sub_grade"].str[0] == rows["grade"]).mean() > 0.99  # some have independent cells
    assert set(rows["term"]) == {36, 60}
    exceptions = 2 / 402  # twice their share: they may find some evidence likelier
    found = model.prob({"grade": "B"}, given={"sub_grade": "B3"})
    assert found == pytest.approx(1, abs=exceptions)
    within = {f"B{i}" for i in range(1, 6)}
    assert model.prob({"sub_grade": within}, given={"grade": "B"}) == pytest.approx(1, abs=1e-2)
    assert model.prob({"grade": "B"}) == pytest.approx(model.prob({"sub_grade": within}), abs=1e-2)


def test_a_row_that_breaks_the_function_is_unlikely_and_possible(model: MDMA) -> None:
    rows = loans(400).iloc[:1]
    other = rows.assign(grade="G" if rows["grade"].iloc[0] != "G" else "A")
    score, broken = (float(model.score_samples(frame)[0]) for frame in (rows, other))
    assert np.isfinite(broken)
    assert broken < score - 5


def test_members_are_wrapped_one_by_one(model: MDMA) -> None:
    mixture = model.module_
    assert isinstance(mixture, Mixture)
    *members, rare = mixture.densities
    assert all(isinstance(member, NestedColumns) for member in members)
    assert not isinstance(rare, NestedColumns)
    assert mixture.log_weights().detach()[-1].exp().item() == pytest.approx(1 / 402, rel=1e-3)
    # Members that steps of training would blur are not tried.
    assert {member["init"] for member in model.members_} == {"location", "factors"}


def test_gaps_are_filled_within_the_group(model: MDMA) -> None:
    rows = loans(20, seed=1)
    gaps = rows.assign(sub_grade=None)
    filled = model.impute(gaps, method="mode")
    assert (filled["sub_grade"].str[0] == rows["grade"]).all()
    filled = model.impute(rows.assign(grade=None), method="mode")
    assert (filled["grade"] == rows["grade"]).all()


def test_updates_learn_rows_that_break_the_function(model: MDMA) -> None:
    new = loans(40, seed=2)
    new.loc[0, "grade"] = "G" if new["grade"][0] != "G" else "A"
    again = copy.deepcopy(model)
    found = again.update(new, max_steps=2)
    assert np.isfinite([found.before, found.after]).all()
    rows = again.sample(500, random_state=0)
    assert (rows["sub_grade"].str[0] == rows["grade"]).mean() > 0.97


def test_columns_that_are_never_observed_together_are_no_functions() -> None:
    zone = zones()
    gap = torch.arange(len(zone)) % 2 == 0
    group = torch.where(gap, torch.nan, zone // 3)
    assert find_nestings(table(torch.where(gap, zone, torch.nan), group), {0: ZONES, 1: 2}) == []
