"""Missing cells filled: exactly the missing ones, from their conditionals, in the table's types."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.queries.imputation import Imputation


@pytest.fixture(scope="module")
def holes(frame: pd.DataFrame) -> pd.DataFrame:
    out = frame.copy()
    rng = np.random.default_rng(1)
    for column in out.columns:
        out.loc[rng.random(len(out)) < 0.3, column] = None
    return out


@pytest.mark.parametrize("method", ["mean", "median", "mode", "draw"])
def test_fills_what_is_missing_and_nothing_else(
    model: MDMA, holes: pd.DataFrame, method: str
) -> None:
    done = model.impute(holes, method, random_state=0)
    assert not done.isna().any().any()
    assert list(done.columns) == list(holes.columns)
    assert done.index.equals(holes.index)
    for column in holes.columns:
        kept = holes[column].notna()
        assert (done.loc[kept, column] == holes.loc[kept, column]).all()
    for column in ("city", "grade", "day", "x"):
        assert done[column].dtype == holes[column].dtype


def test_fills_with_the_conditional(model: MDMA, holes: pd.DataFrame) -> None:
    row = holes.index[holes["x"].isna() & holes["city"].notna()][0]
    one = holes.loc[[row]]
    known = {name: value for name, value in one.iloc[0].items() if pd.notna(value)}
    assert model.impute(one)["x"].iloc[0] == pytest.approx(model.mean("x", given=known), rel=1e-4)
    assert model.impute(one, "median")["x"].iloc[0] == pytest.approx(
        model.ppf(0.5, "x", given=known), rel=1e-4
    )
    lines = model.impute_interval(one, 0.8)
    low, high = model.interval("x", 0.8, given=known)
    line = lines[lines["column"] == "x"].iloc[0]
    assert (line["row"], float(line["lower"])) == (row, pytest.approx(low, rel=1e-4))
    assert float(line["upper"]) == pytest.approx(high, rel=1e-4)


def test_draws_are_joint_and_many(model: MDMA, holes: pd.DataFrame) -> None:
    tables = model.impute(holes, "draw", draws=3, random_state=0)
    assert len(tables) == 3
    assert not tables[0].equals(tables[1])


def test_batches_make_no_difference(
    model: MDMA, holes: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model.impute(holes)
    lines = model.impute_interval(holes)
    monkeypatch.setattr(type(model.module_), "rows_at_once", lambda self: 7)
    parted = model.impute(holes)
    numbers, day = parted.select_dtypes("number"), pd.Timedelta("1min")
    pd.testing.assert_frame_equal(numbers, whole[numbers.columns], rtol=1e-4)
    assert ((parted["day"] - whole["day"]).abs() < day).all()
    assert (parted["city"] == whole["city"]).all()
    assert len(model.impute_interval(holes)) == len(lines)


def test_a_complete_table_stays(model: MDMA, frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(model.impute(frame), frame)


def test_a_part_of_the_columns(model: MDMA, holes: pd.DataFrame) -> None:
    done = model.impute(holes[["city", "x"]])
    assert list(done.columns) == ["city", "x"]
    assert not done.isna().any().any()


def test_views_impute(model: MDMA, holes: pd.DataFrame) -> None:
    view = model.marginal(["x", "count"])
    done = view.impute(holes[["x", "count"]])
    assert not done.isna().any().any()


def test_a_column_without_any_value(model: MDMA, frame: pd.DataFrame) -> None:
    # pandas holds it as floats, whatever the column was when it was fitted.
    empty = frame.head(3).assign(city=np.nan, grade=np.nan, count=np.nan)
    done = model.impute(empty)
    assert set(done["city"]) <= set(frame["city"])
    assert not done.isna().any().any()


def test_bounds_are_the_intervals_as_tables(model: MDMA, holes: pd.DataFrame) -> None:
    lower, upper = Imputation(*model._parts(), holes).bounds(0.8)
    lines = model.impute_interval(holes, 0.8)
    for side, table in (("lower", lower), ("upper", upper)):
        assert list(table.columns) == list(holes.columns)
        for column, group in lines.groupby("column"):
            assert list(table.loc[group["row"], column]) == list(group[side])
            kept = holes[column].notna()
            assert (table.loc[kept, column] == holes.loc[kept, column]).all()
    assert (lower["x"] <= upper["x"]).all()
    assert lower["city"].isna().equals(holes["city"].isna())  # no order, no interval


def test_intervals_hold_the_share_of_draws(model: MDMA, holes: pd.DataFrame) -> None:
    lower, upper = Imputation(*model._parts(), holes).bounds(0.8)
    tables = model.impute(holes, "draw", draws=50, random_state=0)
    gaps = holes["x"].isna()
    inside = [((t["x"] >= lower["x"]) & (t["x"] <= upper["x"]))[gaps].mean() for t in tables]
    cells = int(gaps.sum()) * len(tables)
    assert np.mean(inside) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / cells))


def test_many_draws_are_as_many_passes_over_the_rows_as_one(
    model: MDMA, holes: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    density = type(model.module_)
    sample_rows = density.sample_rows

    def counted(self: Any, given: Any, draws: int, generator: Any = None) -> Any:
        asked.append((len(given), draws))
        return sample_rows(self, given, draws, generator)

    monkeypatch.setattr(density, "sample_rows", counted)
    model.impute(holes, "draw", draws=4, random_state=0)
    assert asked == [(len(holes), 4)]


def test_the_number_of_passes_does_not_depend_on_the_patterns(
    model: MDMA, holes: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(holes.isna().drop_duplicates()) > 50
    calls = []
    density = type(model.module_)
    univariates = density.univariates

    def counted(self: Any, *parts: Any) -> Any:
        calls.append(parts)
        return univariates(self, *parts)

    monkeypatch.setattr(density, "univariates", counted)
    model.impute(holes)
    model.impute_interval(holes)
    assert len(calls) == 2


def test_numbers_of_small_spread() -> None:
    x = 1e-3 * np.random.default_rng(0).normal(size=(40, 2))
    x[::3, 1] = np.nan
    done = MDMA(width=2, max_steps=5, random_state=0).fit(x).impute(x)
    assert np.abs(done).max() < 0.1
