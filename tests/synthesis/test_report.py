"""The report on synthetic rows, against answers that are known."""

import json

import numpy as np
import pandas as pd
import pytest

from marginals.synthesis import SynthesisReport, synthesis_report
from marginals.synthesis.comparable_cells import aligned
from marginals.synthesis.two_sample import two_sample


def mixed(rows: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Columns of every kind, of which `size` follows `weight`, and `city` says something of it."""
    random = np.random.default_rng(seed)
    weight = random.normal(size=rows) + shift
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


@pytest.fixture(scope="module")
def good() -> SynthesisReport:
    return synthesis_report(mixed(600, 0), mixed(500, 1), mixed(400, 2))


def test_rows_of_the_same_distribution_pass_every_check(good: SynthesisReport) -> None:
    assert good.rows == (600, 500)
    assert list(good.columns.index) == ["weight", "size", "city", "count", "day", "flag"]
    assert good.columns["kind"].tolist() == [
        *["number"] * 2,
        "category",
        *["number"] * 2,
        "category",
    ]
    assert (good.columns["distance"] < 0.12).all()
    assert good.columns["missing_real"].round(1).tolist() == [0, 0.2, 0.1, 0, 0, 0]
    assert good.pairs["difference"].abs().max() < 0.2
    assert good.two_sample.lower < 0.5 < good.two_sample.upper + 0.02
    assert good.two_sample.pvalue > 0.01
    assert good.copying.unseen == "holdout"
    assert good.copying.close < 0.1
    assert good.copying.pvalue > 0.01
    assert good.copying.duplicates == 0


def test_the_same_table_cannot_be_told_apart_but_is_copied() -> None:
    rows = mixed(400, 0)
    report = synthesis_report(rows, rows, mixed(400, 1))
    assert (report.columns["distance"] == 0).all()
    assert (report.pairs["difference"].dropna() == 0).all()
    assert report.two_sample.auc == pytest.approx(0.5, abs=0.03)
    assert report.copying.duplicates == 1
    assert report.copying.close == 1
    assert report.copying.pvalue < 1e-6


def test_some_copies_are_flagged_with_and_without_holdout() -> None:
    real = mixed(600, 0)
    drawn = pd.concat([mixed(400, 1), real.head(100)])
    for holdout in (mixed(400, 2), None):
        report = synthesis_report(real, drawn, holdout)
        assert report.copying.duplicates == pytest.approx(0.2)
        assert report.copying.close > 0.2
        assert report.copying.pvalue < 0.01
        assert report.copying.unseen == ("real" if holdout is None else "holdout")


def test_distances_of_columns_are_those_of_the_textbook() -> None:
    real = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "c": list("aabb")})
    drawn = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "c": list("abbc")})
    wide = [pd.concat([frame] * 10) for frame in (real, drawn)]
    columns = synthesis_report(*wide).columns
    assert columns.loc["x", "distance"] == pytest.approx(0.25)
    assert columns.loc["x", "shift"] == pytest.approx(1 / np.sqrt(1.25))
    assert columns.loc["c", "distance"] == pytest.approx(0.25)
    assert np.isnan(columns.loc["c", "shift"])


def test_a_shifted_column_is_found(good: SynthesisReport) -> None:
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


def test_gaps_that_are_not_drawn_are_told(good: SynthesisReport) -> None:
    drawn = mixed(500, 1)
    drawn["size"] = drawn["size"].fillna(0.0)
    report = synthesis_report(mixed(600, 0), drawn)
    assert report.summary["missing_difference"] > good.summary["missing_difference"]
    assert report.two_sample.auc > 0.55


def test_columns_without_values_and_constants_do_no_harm() -> None:
    rows = pd.DataFrame({"x": np.arange(40.0), "gone": [None] * 40, "same": ["a"] * 40})
    report = synthesis_report(rows, rows.sample(frac=1, random_state=0))
    assert (report.columns["distance"] == 0).all()
    assert report.pairs["difference"].isna().all()
    assert "told apart" in str(report)


def test_the_report_is_plain_json(good: SynthesisReport) -> None:
    found = json.loads(json.dumps(good.to_dict(), allow_nan=False))
    assert set(found) == {"rows", "summary", "columns", "pairs", "two_sample", "copying"}
    assert found["summary"]["auc"] == good.two_sample.auc
    assert found["columns"][0]["column"] == "weight"
    assert len(found["pairs"]) == 15


def test_tables_that_do_not_match_are_refused() -> None:
    rows = mixed(50, 0)
    with pytest.raises(ValueError, match="Expected `synthetic` to have the columns of `real`"):
        synthesis_report(rows, rows.drop(columns="city"))
    with pytest.raises(ValueError, match="Expected `holdout` to have at least two rows; got 1"):
        synthesis_report(rows, rows, rows.head(1))
    twice = rows.set_axis(["a", "b", "a", "b", "c", "d"], axis=1)
    with pytest.raises(ValueError, match=r"`real` to have columns of different names; got \['a', "):
        synthesis_report(twice, twice)


# Tables of few distinct rows --------------------------------------------------------------------


def coins(rows: int, share: float, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame({"side": np.where(random.random(rows) < share, "head", "tail")})


def test_few_distinct_rows_are_told_apart() -> None:
    told = synthesis_report(coins(400, 0.2, 0), coins(400, 0.8, 1)).two_sample
    assert told.auc == pytest.approx(0.8, abs=0.05)
    assert told.pvalue < 1e-6
    same = synthesis_report(coins(400, 0.5, 0), coins(400, 0.5, 1)).two_sample
    assert same.auc == pytest.approx(0.5, abs=0.06)
    assert same.pvalue > 0.01


def test_rows_that_are_often_the_same_are_told_apart() -> None:
    # Mostly zeros, in one table more than in the other, and besides many distinct rows.
    random = np.random.default_rng(0)
    real, drawn = (
        pd.DataFrame({"x": random.normal(size=600) * (random.random(600) < share)})
        for share in (0.7, 0.3)
    )
    assert synthesis_report(real, drawn).two_sample.auc > 0.65


def test_tables_of_few_equal_rows_give_a_report() -> None:
    for rows in (2, 5, 12):
        one = pd.DataFrame({"x": [1.0] * rows, "c": ["a"] * rows})
        assert synthesis_report(one, one).two_sample.auc == 0.5
    # A row that is often in one table, and all others in the other.
    real, drawn = pd.DataFrame({"x": [0.0] * 9}), pd.DataFrame({"x": np.arange(1.0, 10.0)})
    assert 0.5 <= synthesis_report(real, drawn).two_sample.auc <= 1


@pytest.mark.parametrize("values", [4, 24, 100])
def test_equal_rows_do_not_tell_their_labels(values: int) -> None:
    """Of one distribution, with as many as 150 or as few as 6 equal rows in each table."""
    found = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        words = [random.integers(values, size=600).astype(str) for _ in range(2)]
        columns = aligned(*(pd.DataFrame({"c": own}) for own in words))
        found.append(two_sample(columns, 5000, seed))
    assert np.mean([told.auc for told in found]) == pytest.approx(0.5, abs=0.025)
    assert min(told.pvalue for told in found) > 0.005


# Cells ------------------------------------------------------------------------------------------


def test_times_of_different_units_are_the_same_times() -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=60, freq="D"))
    days[7] = pd.NaT
    for unit in ("s", "ms", "us"):
        report = synthesis_report(
            pd.DataFrame({"day": days.dt.as_unit("ns"), "wait": days - days[0]}),
            pd.DataFrame({"day": days.dt.as_unit(unit), "wait": (days - days[0]).dt.as_unit(unit)}),
        )
        assert (report.columns["distance"] == 0).all()
        assert report.copying.duplicates == 1


def test_constant_columns_are_measured_in_their_own_unit() -> None:
    rows = np.arange(30.0)
    real = pd.DataFrame({"same": [0.1] * 30, "x": rows})
    assert real["same"].to_numpy().std() > 0  # by rounding
    drawn = real.assign(same=0.1 + 1e-9)
    report = synthesis_report(real, drawn)
    assert report.columns.loc["same", "shift"] == np.inf
    assert report.copying.to_real.max() < 1e-6
    assert json.dumps(report.to_dict(), allow_nan=False)


def test_a_report_of_one_column_is_plain_json() -> None:
    report = synthesis_report(coins(40, 0.5, 0), coins(40, 0.5, 1))
    assert np.isnan(report.summary["pair_difference"])
    assert (
        json.loads(json.dumps(report.to_dict(), allow_nan=False))["summary"]["pair_difference"]
        is None
    )
