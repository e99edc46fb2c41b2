"""The report on synthetic rows, against known answers."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.synthesis import SynthesisReport, synthesis_report
from marginals.synthesis.comparable_cells import aligned
from marginals.synthesis.two_sample import two_sample


def mixed(rows: int, seed: int) -> pd.DataFrame:
    """Return columns of every kind; `size` and `city` depend on `weight`."""
    random = np.random.default_rng(seed)
    weight = random.normal(size=rows)
    frame = pd.DataFrame(
        {
            "weight": weight,
            "size": weight + 0.5 * random.normal(size=rows),
            "city": np.where(weight + random.normal(size=rows) > 0, "Oslo", "Bergen"),
            "count": random.poisson(3, size=rows),
            "day": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(random.integers(99, size=rows), "D"),
            "flag": random.random(rows) < 0.3,
        }
    )
    frame.loc[random.random(rows) < 0.2, "size"] = np.nan
    frame.loc[random.random(rows) < 0.1, "city"] = None
    return frame


def coins(share: float, seed: int, rows: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame({"side": np.where(random.random(rows) < share, "head", "tail")})


def as_json(report: SynthesisReport) -> Any:
    return json.loads(json.dumps(report.to_dict(), allow_nan=False))


@pytest.fixture(scope="module")
def good() -> SynthesisReport:
    return synthesis_report(mixed(600, 0), mixed(500, 1), mixed(400, 2))


def test_rows_of_the_same_distribution_pass_every_check(good: SynthesisReport) -> None:
    assert good.rows == (600, 500)
    assert list(good.columns.index) == ["weight", "size", "city", "count", "day", "flag"]
    categories = good.columns["kind"] == "category"
    assert list(good.columns.index[categories]) == ["city", "flag"]
    assert (good.columns["kind"][~categories] == "number").all()
    assert (good.columns["distance"] < 0.12).all()
    assert good.columns["missing_real"].round(1).tolist() == [0, 0.2, 0.1, 0, 0, 0]
    assert good.pairs["difference"].abs().max() < 0.2
    assert good.two_sample.lower < 0.5 < good.two_sample.upper + 0.02
    assert good.two_sample.pvalue > 0.01
    assert good.copying.unseen == "holdout"
    assert good.copying.close < 0.1
    assert good.copying.pvalue > 0.01
    assert good.copying.duplicates == 0


def test_the_report_is_plain_json(good: SynthesisReport) -> None:
    found = as_json(good)
    assert set(found) == {"rows", "summary", "columns", "pairs", "two_sample", "copying"}
    assert found["summary"]["auc"] == good.two_sample.auc
    assert found["columns"][0]["column"] == "weight"
    assert len(found["pairs"]) == 15
    single = synthesis_report(coins(0.5, 0, 40), coins(0.5, 1, 40))  # without pairs
    assert np.isnan(single.summary["pair_difference"])
    assert as_json(single)["summary"]["pair_difference"] is None


# Defects are found ------------------------------------------------------------------------------


def test_the_same_table_cannot_be_told_apart_but_is_copied() -> None:
    rows = mixed(400, 0)
    report = synthesis_report(rows, rows, mixed(400, 1))
    assert (report.columns["distance"] == 0).all()
    assert (report.pairs["difference"].dropna() == 0).all()
    assert report.two_sample.auc == pytest.approx(0.5, abs=0.03)
    assert report.copying.duplicates == 1
    assert report.copying.close == 1
    assert report.copying.pvalue < 1e-6


@pytest.mark.parametrize("holdout", [mixed(400, 2), None])
def test_some_copies_are_flagged(holdout: Any) -> None:
    real = mixed(600, 0)
    found = synthesis_report(real, pd.concat([mixed(400, 1), real.head(100)]), holdout).copying
    assert found.duplicates == pytest.approx(0.2)
    assert found.close > 0.2
    assert found.pvalue < 0.01
    assert found.unseen == ("real" if holdout is None else "holdout")


def test_a_shifted_column_is_found() -> None:
    drawn = mixed(500, 1).assign(count=lambda frame: frame["count"] + 2)
    report = synthesis_report(mixed(600, 0), drawn)
    assert report.columns["distance"].idxmax() == "count"
    assert report.two_sample.auc > 0.7
    assert report.two_sample.pvalue < 1e-6
    assert str(report).index("count") < str(report).index("weight")


def test_broken_dependence_is_found() -> None:
    drawn = mixed(500, 1)
    drawn["size"] = drawn["size"].sample(frac=1, random_state=0).to_numpy()
    report = synthesis_report(mixed(600, 0), drawn)
    worst = report.pairs.loc[report.pairs["difference"].abs().idxmax()]
    assert (worst["first"], worst["second"], worst["measure"]) == ("weight", "size", "spearman")
    assert worst["difference"] == pytest.approx(-0.89, abs=0.1)
    assert report.columns.loc["size", "distance"] < 0.1
    measures = report.pairs.set_index(["first", "second"])["measure"]
    assert measures["weight", "city"] == "correlation ratio"
    assert measures["city", "flag"] == "cramer"


def test_absent_gaps_are_found(good: SynthesisReport) -> None:
    report = synthesis_report(mixed(600, 0), mixed(500, 1).fillna({"size": 0.0}))
    assert report.summary["missing_difference"] > good.summary["missing_difference"]
    assert report.two_sample.auc > 0.55


# Distances --------------------------------------------------------------------------------------


def test_distances_of_columns_by_hand() -> None:
    real = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "c": list("aabb")})
    drawn = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "c": list("abbc")})
    columns = synthesis_report(*(pd.concat([frame] * 10) for frame in (real, drawn))).columns
    assert columns.loc["x", "distance"] == pytest.approx(0.25)
    assert columns.loc["x", "shift"] == pytest.approx(1 / np.sqrt(1.25))
    assert columns.loc["c", "distance"] == pytest.approx(0.25)
    assert np.isnan(columns.loc["c", "shift"])


def test_columns_without_values_and_constants() -> None:
    rows = pd.DataFrame({"x": np.arange(40.0), "gone": [None] * 40, "same": ["a"] * 40})
    report = synthesis_report(rows, rows.sample(frac=1, random_state=0))
    assert (report.columns["distance"] == 0).all()
    assert report.pairs["difference"].isna().all()
    assert "AUC" in str(report)


def test_constant_numbers_have_no_spread() -> None:
    real = pd.DataFrame({"same": [0.1] * 30, "x": np.arange(30.0)})
    assert real["same"].to_numpy().std() > 0  # by rounding
    report = synthesis_report(real, real.assign(same=0.1 + 1e-9))
    assert report.columns.loc["same", "shift"] == np.inf
    assert report.copying.to_real.max() < 1e-6
    assert as_json(report)["columns"][0]["shift"] is None


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_of_different_units_are_the_same_times(unit: Any) -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=60, freq="D"))
    days[7] = pd.NaT
    report = synthesis_report(
        pd.DataFrame({"day": days.dt.as_unit("ns"), "wait": days - days[0]}),
        pd.DataFrame({"day": days.dt.as_unit(unit), "wait": (days - days[0]).dt.as_unit(unit)}),
    )
    assert (report.columns["distance"] == 0).all()
    assert report.copying.duplicates == 1


def test_errors() -> None:
    rows = mixed(50, 0)
    with pytest.raises(ValueError, match="Expected `synthetic` to have the columns of `real`"):
        synthesis_report(rows, rows.drop(columns="city"))
    with pytest.raises(ValueError, match="Expected `holdout` to have at least two rows; got 1"):
        synthesis_report(rows, rows, rows.head(1))
    twice = rows.set_axis(["a", "b", "a", "b", "c", "d"], axis=1)
    with pytest.raises(ValueError, match=r"`real` to have columns of different names; got \['a', "):
        synthesis_report(twice, twice)


# Tables with few distinct rows ------------------------------------------------------------------


def test_few_distinct_rows() -> None:
    apart = synthesis_report(coins(0.2, 0), coins(0.8, 1)).two_sample
    assert apart.auc == pytest.approx(0.8, abs=0.05)
    assert apart.pvalue < 1e-6
    same = synthesis_report(coins(0.5, 0), coins(0.5, 1)).two_sample
    assert same.auc == pytest.approx(0.5, abs=0.06)
    assert same.pvalue > 0.01


def test_frequent_rows_are_told_apart() -> None:
    # Mostly zeros, more so in one table, plus many distinct rows.
    random = np.random.default_rng(0)
    real, drawn = (
        pd.DataFrame({"x": random.normal(size=600) * (random.random(600) < share)})
        for share in (0.7, 0.3)
    )
    assert synthesis_report(real, drawn).two_sample.auc > 0.65


def test_tables_with_few_equal_rows_give_a_report() -> None:
    for rows in (2, 5, 12):
        one = pd.DataFrame({"x": [1.0] * rows, "c": ["a"] * rows})
        assert synthesis_report(one, one).two_sample.auc == 0.5
    # One table repeats a row; the other holds only different rows.
    real, drawn = pd.DataFrame({"x": [0.0] * 9}), pd.DataFrame({"x": np.arange(1.0, 10.0)})
    assert 0.5 <= synthesis_report(real, drawn).two_sample.auc <= 1


@pytest.mark.parametrize("values", [4, 24, 100])
def test_equal_rows_do_not_reveal_their_labels(values: int) -> None:
    """Both tables have one distribution, with 6 to 150 equal rows in each."""
    found = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        words = [random.integers(values, size=600).astype(str) for _ in range(2)]
        columns = aligned(*(pd.DataFrame({"c": own}) for own in words))
        found.append(two_sample(columns, 5000, seed))
    assert np.mean([one.auc for one in found]) == pytest.approx(0.5, abs=0.025)
    assert min(one.pvalue for one in found) > 0.005
