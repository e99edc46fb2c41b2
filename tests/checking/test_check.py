"""The check of a model: a right model passes, and each defect is found where it is."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA, Continuous, Integer
from marginals.cells.cell import Interval
from marginals.checking import CheckReport, check
from marginals.checking.calibration_check import calibration, levels_of
from marginals.checking.known_cells import known_cells
from marginals.checking.margin_check import margin_distances
from marginals.checking.plain_questions import answered, plain_questions
from marginals.checking.row_rules import broken_rules
from marginals.language import QueryError
from marginals.queries.uniforms import cell_ends
from marginals.synthesis.binned_pairs import binned_pair_distances
from marginals.synthesis.comparable_cells import aligned

KINDS: dict[Any, Any] = {
    "wait": Continuous(lower=0, atoms=(0,)),
    "count": Integer(lower=0),
    "price": Continuous(lower=0, resolution=0.1),
}


def make_table(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, rows), "D")
    city = np.where(x + random.normal(size=rows) > 0, "Oslo", random.choice(["Rome", "Pisa"], rows))
    return pd.DataFrame(
        {
            "x": x,
            "wait": np.where(random.random(rows) < 0.3, 0, random.exponential(2, rows)),
            "count": random.poisson(np.exp(x / 2)),
            "price": random.gamma(2, 1 + (x > 0), rows).round(1),
            "city": pd.Series(city).mask(random.random(rows) < 0.1),
            "start": start,
            "end": start + pd.to_timedelta(random.integers(0, 30, rows), "D"),
            "land": pd.Series(np.where(city == "Oslo", "Norway", "Italy")),
            "ok": random.random(rows) < 0.4,
        }
    )


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(columns=KINDS, width=6, max_steps=30, random_state=0).fit(make_table())


@pytest.fixture(scope="module")
def own(model: MDMA) -> pd.DataFrame:
    """Rows of the model itself: it is right about them."""
    return model.sample(1500, random_state=5)


@pytest.fixture(scope="module")
def right(model: MDMA, own: pd.DataFrame) -> CheckReport:
    return model.check(own)


@pytest.fixture(scope="module")
def wrong(model: MDMA) -> CheckReport:
    """A model of 30 steps on the table."""
    return model.check(make_table(), questions=60)


# A right model ----------------------------------------------------------------------------------


def test_a_right_model_passes(right: CheckReport) -> None:
    total = right.summary
    assert total["margins"] == total["calibration"] == 9
    assert total["pairs"] == 36
    assert total["questions"] == 100
    for part in ("margins", "pairs", "calibration", "questions", "rules"):
        assert total[f"{part}_off"] == 0, part
    assert (right.margins["pvalue"] > 1e-4).all()
    assert (right.calibration["pvalue"] > 1e-4).all()
    assert right.calibration["coverage"].between(0.85, 0.95).all()
    assert right.columns["score"].max() < 0.1


@pytest.mark.parametrize("tensor", ["ht", "copula"])
def test_levels_are_those_of_each_column_given_the_others(tensor: str) -> None:
    """One pass for all columns gives the conditionals of one column at a time."""
    own = make_table(200)
    options: dict[str, Any] = {"columns": KINDS, "tensor": tensor, "random_state": 0}
    model = MDMA(width=3, max_steps=5, **options).fit(own)
    density, schema = model.module_, model.schema_
    cells = known_cells(density, schema, own.head(20))
    every = tuple(range(len(schema)))
    together = cell_ends(density, cells, every, every)
    for place in every:
        rest = [other for other in every if other != place]
        alone = cell_ends(density, cells, [place], rest)[:, 0]
        torch.testing.assert_close(together[:, place], alone, atol=1e-5, rtol=0, equal_nan=True)
    levels = levels_of(density, cells, np.random.default_rng(0))
    found = calibration(schema, cells.columns, levels)
    below, at = together.unbind(-1)
    gone = np.isnan(levels)
    assert (gone == known_cells(density, schema, own.head(20)).missing().numpy()).all()
    rounding = 1e-6  # of two ends of a cell without mass
    assert ((levels >= below.numpy() - rounding) | gone).all()
    assert ((levels <= at.numpy() + rounding) | gone).all()
    assert list(found.index) == list(schema.names)


# Defects ----------------------------------------------------------------------------------------


def test_rules_of_the_table_are_found(wrong: CheckReport) -> None:
    rules = wrong.rules.set_index("rule")
    for rule, kind in {
        "wait >= 0": "sign",
        "count >= 0": "sign",
        "count in steps of 1": "grid",
        "price in steps of 0.1": "grid",
        "start in steps of 1 days 00:00:00": "grid",
        "start <= end": "order",
        "city determines land": "nested",
        "ok has one of its 2 values": "values",
    }.items():
        assert rules.loc[rule, "kind"] == kind
    for rule in ("wait >= 0", "count >= 0", "count in steps of 1", "price in steps of 0.1"):
        assert rules.loc[rule, "broken"] == 0
    # A few training steps do not learn these.
    assert rules.loc["start <= end", "off"]
    assert rules.loc["start <= end", "broken"] > 0.02
    assert "start <= end" in str(wrong)


def test_a_wrong_margin_is_found(model: MDMA, own: pd.DataFrame) -> None:
    table = own.assign(price=own["price"] + 1, city=own["city"].where(own["ok"], "Oslo"))
    found = margin_distances(model.module_, model.schema_, table)
    assert list(found.index[found["off"]]) == ["price", "city"]
    view = model.marginal(["price"])
    at = own["price"].sort_values().to_numpy()
    exact = np.asarray(view.cdf({"price": at}))
    share = np.searchsorted(np.sort(table["price"]), at, side="right") / len(table)
    assert found.loc["price", "distance"] == pytest.approx(np.abs(exact - share).max(), abs=0.01)


def test_a_wrong_pair_is_found_by_itself(own: pd.DataFrame) -> None:
    drawn = own.assign(x=own["x"].sample(frac=1, random_state=0).to_numpy())
    linked = own.assign(wait=own["x"] ** 2)
    drawn["wait"] = linked["wait"]
    found = binned_pair_distances(aligned(linked, drawn))
    worst = found.sort_values("distance").iloc[-1]
    names = list(own.columns)
    assert {names[int(worst["first"])], names[int(worst["second"])]} == {"x", "wait"}
    assert worst["distance"] > 0.3
    assert worst["alone"] == 0
    assert worst["pvalue"] < 1e-9
    others = found[(found["first"] > 1) & (found["second"] > 1)]
    assert (others["distance"] == 0).all()


def test_wrong_conditionals_are_uncalibrated(model: MDMA, own: pd.DataFrame) -> None:
    """A table without noise given the rest has levels in the middle."""
    density, schema = model.module_, model.schema_
    frame = own.head(300)[["x", "count", "ok"]]
    mean = model.ppf(0.5, "x", given=frame[["count", "ok"]])
    cells = known_cells(density, schema, frame.assign(x=np.asarray(mean)))
    levels = levels_of(density, cells, np.random.default_rng(0))
    found = calibration(schema, cells.columns, levels)
    assert found.loc["x", "off"]
    assert found.loc["x", "distance"] == pytest.approx(0.5, abs=0.01)
    assert not found.loc["ok", "off"]


# Questions --------------------------------------------------------------------------------------


def test_questions_are_queries_and_their_answers_right(model: MDMA) -> None:
    table = make_table()
    questions = plain_questions(table, 60, np.random.default_rng(1))
    found = answered(model.marginal(list(table.columns)), table, questions)
    assert found["question"].is_unique
    assert set(found["column"]) == set(table.columns)
    assert 20 <= found["given"].notna().sum() <= 40
    for question, value in zip(found["question"], found["model"], strict=True):
        try:
            answer = model.query(question).value
        except QueryError:  # a single value of a continuous column
            answer = 0.0
        assert answer == pytest.approx(value, abs=1e-6)
    for question, line in zip(questions, found.itertuples(), strict=True):
        if question.given is None and isinstance(question.cell, Interval):
            series, cell = table[question.column].dropna(), question.cell
            inside = pd.Series(True, index=series.index)
            inside &= True if cell.low is None else series > cell.low
            inside &= True if cell.high is None else series <= cell.high
            assert line.table == pytest.approx(inside.mean())
    limit = 3.5 * found["error"] + 0.02
    assert ((found["model"] - found["table"]).abs() > limit).eq(found["off"]).all()


def test_values_that_the_model_cannot_take(model: MDMA) -> None:
    """Categories that were not fitted and numbers out of bounds count as impossible."""
    table = make_table()
    table.loc[:299, "city"] = "Nice"
    table.loc[:299, "wait"] = -1.0
    report = model.check(table, questions=80)
    assert report.margins.loc["city", "impossible"] > 0.5
    assert report.margins.loc["wait", "impossible"] == 0.5
    assert report.margins.loc[["city", "wait"], "off"].all()
    nice = report.questions["question"].str.startswith("P(city = Nice")
    assert (report.questions.loc[nice, "model"] == 0).all()
    given = report.questions["question"].str.endswith("| city = Nice)")
    assert report.questions.loc[given, "model"].isna().all()
    assert report.questions.loc[given, "off"].all()
    assert (nice | given).any()
    json.dumps(report.to_dict(), allow_nan=False)


# Rules ------------------------------------------------------------------------------------------


def test_rules_by_hand() -> None:
    random = np.random.default_rng(0)
    start = random.random(400)
    table = pd.DataFrame(
        {
            "term": random.choice([36, 60], 400),
            "start": start,
            "end": start + random.random(400),
            "part": random.choice(list("abcd"), 400),
            "price": (random.integers(0, 300, 400) / 4 + 0.1).astype(np.float32),
        }
    )
    table["whole"] = table["part"].map({"a": "x", "b": "x", "c": "y", "d": "y"})
    drawn = pd.DataFrame(
        {
            "term": [36, 48, 60, 36],
            "start": [0.1, 0.2, 0.3, 0.4],
            "end": [0.2, 0.1, 0.4, np.nan],
            "part": list("abcd"),
            "whole": list("xyyy"),
            "price": np.array([0.1, 0.35, 0.4, 1.1], dtype=np.float32),
        }
    )
    rules = broken_rules(aligned(table, drawn), table, random).set_index("rule")
    assert rules.loc["term in {36, 60}", "broken"] == 0.25
    assert rules.loc["start <= end", "broken"] == 0.25
    assert rules.loc["price in steps of 0.25", "broken"] == 0.25  # of a float32 column
    assert rules.loc["part determines whole", "broken"] == 0.25
    assert "whole determines part" not in rules.index
    assert not rules.index.str.startswith("start in steps").any()
    assert not rules.index.str.contains("<= term").any()  # follows from the columns' bounds


# The report -------------------------------------------------------------------------------------


def test_the_report_is_reproducible_and_plain(model: MDMA, wrong: CheckReport) -> None:
    again = model.check(make_table(), questions=60)
    pd.testing.assert_frame_equal(again.questions, wrong.questions)
    pd.testing.assert_frame_equal(again.pairs, wrong.pairs)
    pd.testing.assert_frame_equal(again.calibration, wrong.calibration)
    pd.testing.assert_frame_equal(again.rules, wrong.rules)
    other = model.check(make_table(), questions=60, random_state=1)
    assert set(other.questions["question"]) != set(again.questions["question"])
    content = json.loads(json.dumps(wrong.to_dict(), allow_nan=False))
    assert content["summary"]["questions"] == len(content["questions"])
    assert {"columns", "margins", "pairs", "calibration", "questions", "rules"} <= set(content)
    assert [line["column"] for line in content["columns"]] == list(wrong.columns.index)
    assert "columns to look at first" in str(wrong)
    assert "<table" in wrong._repr_html_()


def test_larger_tables_are_sampled_and_columns_left_out(model: MDMA) -> None:
    table = make_table().drop(columns="ok").assign(other=1.0)
    report = model.check(table, rows=100, questions=5)
    assert (report.rows, report.checked, report.draws) == (600, 100, 100)
    assert "ok" not in report.margins.index
    notes = " ".join(report.notes)
    for part in ("does not have were left out: other", "lacks columns of the model: ok", "sample"):
        assert part in notes
        assert part in str(report)


def test_arrays_single_columns_and_views() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    model = MDMA(width=4, max_steps=10, random_state=0).fit(rows)
    assert list(model.check(rows, questions=10).margins.index) == [0, 1]
    view = model.marginal([1])
    report = check(view, pd.DataFrame(rows[:, [1]], columns=[1]), questions=10)
    assert len(report.pairs) == 0
    assert report.summary["pairs_off"] == 0
    json.dumps(report.to_dict(), allow_nan=False)
    assert "margins" in str(report)


def test_columns_without_values_and_constants(model: MDMA) -> None:
    table = make_table(80).assign(x=np.nan, ok=True)
    report = model.check(table, questions=10)
    assert report.margins.loc["x", "missing"] == 1
    assert report.margins.loc["x", "distance"] == 0
    json.dumps(report.to_dict(), allow_nan=False)


def test_errors(model: MDMA) -> None:
    with pytest.raises(ValueError, match="at least two rows and a column of the model"):
        model.check(pd.DataFrame({"other": [1, 2, 3]}))
    with pytest.raises(ValueError, match="Expected `rows` to be at least 2; got 1"):
        model.check(make_table(), rows=1)


def test_the_picture(wrong: CheckReport) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    figure = wrong.plot()
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[0] == "columns to look at first"
    assert titles[4] == f"questions: {wrong.summary['questions_off']} of 60 off"
    figure.canvas.draw()
    matplotlib.pyplot.close(figure)


def test_calibration_stops_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from marginals.checking import model_check

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=list("ab"))
    model = MDMA(width=2, max_steps=5, random_state=0).fit(frame)
    monkeypatch.setattr(model_check, "_CALIBRATION_SECONDS", -1.0)
    report = model.check(frame, questions=5)
    assert "calibration was checked on 5 rows" in " ".join(report.notes)
    assert report.calibration["rows"].tolist() == [5, 5]


def test_new_categories_are_expected_where_many_occur_once() -> None:
    table = pd.DataFrame({"name": [f"n{i}" for i in range(90)] + ["n0"] * 10})
    drawn = pd.DataFrame({"name": [f"m{i}" for i in range(50)] + ["n0"] * 50})
    random = np.random.default_rng(0)
    rule = broken_rules(aligned(table, drawn), table, random).iloc[0]
    assert (rule["broken"], rule["chance"], rule["off"]) == (0.5, 0.89, False)
