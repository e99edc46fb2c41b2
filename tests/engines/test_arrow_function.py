"""A model as a function of Arrow batches gives the numbers of its methods, to the last bit."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from marginals import MDMA, MDMAClassifier, MDMAOutlierDetector, MDMARegressor
from marginals.engines import (
    Anomalies,
    ArrowFunction,
    Impute,
    ImputeInterval,
    Predict,
    Probability,
    SampleGiven,
    Score,
)
from tests.engines.conftest import named_table


@pytest.fixture
def batch(frame: pd.DataFrame) -> Any:
    (batch,) = named_table(frame).to_batches()
    return batch


def test_scores(model: MDMA, frame: pd.DataFrame, batch: Any) -> None:
    found = ArrowFunction(model, Score(keep=["name", "age"]))(batch)
    assert found.schema.names == ["name", "age", "log_density"]
    assert found.column("age").equals(batch.column("age"))
    np.testing.assert_array_equal(found.column("log_density"), model.score_samples(frame))


def test_anomalies(model: MDMA, frame: pd.DataFrame, batch: Any) -> None:
    detector = MDMAOutlierDetector(model).fit(model.sample(2000, random_state=0))
    found = ArrowFunction(model, Anomalies())(batch).to_pandas()
    np.testing.assert_array_equal(found["anomaly_score"], detector.score_samples(frame))
    blamed = detector.blame(frame)
    assert found["anomaly_cell"].tolist() == blamed["column"].tolist()
    np.testing.assert_array_equal(found["anomaly_tail"], blamed["tail"].astype(float))
    few = ArrowFunction(model, Anomalies(cells=False))(batch)
    assert few.schema.names == ["anomaly_score"]


@pytest.mark.parametrize("method", ["mean", "median", "mode", "draw"])
def test_imputed_cells(model: MDMA, frame: pd.DataFrame, batch: Any, method: str) -> None:
    found = ArrowFunction(model, Impute(method), seed=3)(batch)
    assert found.schema.equals(batch.schema)
    wanted = model.impute(frame, method=method, random_state=3)
    for name in frame.columns:
        assert found.column(name).to_pylist() == wanted[name].tolist(), name


def test_several_draws(model: MDMA, frame: pd.DataFrame, batch: Any) -> None:
    found = ArrowFunction(model, Impute("draw", draws=2), seed=3)(batch, start=10).to_pandas()
    wanted = model.impute(frame, method="draw", draws=2, random_state=3)
    for draw, table in enumerate(wanted):
        part = found[found["draw"] == draw]
        assert part["row"].tolist() == list(range(10, 10 + len(frame)))
        assert part["income"].tolist() == table["income"].tolist()


def test_added_columns(model: MDMA, frame: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(frame[["age", "grade"]], preserve_index=False)
    function = ArrowFunction(model, Impute(columns=["city", "income"]))
    found = function(table)
    wanted = model.impute(frame[["age", "grade"]], columns=["city", "income"])
    assert found.column("city").to_pylist() == wanted["city"].tolist()
    assert found.column("income").to_pylist() == wanted["income"].tolist()
    assert function(table.slice(0, 0)).schema.equals(found.schema)


def test_intervals(model: MDMA, frame: pd.DataFrame, batch: Any) -> None:
    found = ArrowFunction(model, ImputeInterval(0.8))(batch).to_pandas()
    assert not [name for name in found if name.startswith("city_")]
    for line in model.impute_interval(frame, 0.8).itertuples():
        assert found.loc[line.row, f"{line.column}_lower"] == line.lower
        assert found.loc[line.row, f"{line.column}_upper"] == line.upper
    seen = frame["income"].notna()
    assert (found["income_lower"][seen] == frame["income"][seen]).all()


def test_samples(model: MDMA, frame: pd.DataFrame) -> None:
    given = frame[["age", "city"]]
    table = pa.Table.from_pandas(given, preserve_index=False)
    found = ArrowFunction(model, SampleGiven(2), seed=5)(table, start=7).to_pandas()
    wanted = model.sample(2, given=given, random_state=5)
    assert found["row"].tolist() == (wanted.index + 7).tolist()
    assert found["draw"].tolist() == [0, 1] * len(frame)
    for name in frame.columns:
        assert found[name].tolist() == wanted[name].tolist()


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("", {}),
        (" | grade = 1.5", {"grade": 1.5}),
        (" | grade > 2", {"grade": (2.0, None)}),
    ],
)
def test_probabilities(
    model: MDMA, frame: pd.DataFrame, batch: Any, text: str, fixed: dict[str, Any]
) -> None:
    found = ArrowFunction(model, Probability(f"P(income > 300{text})"))(batch)
    table = model.condition(fixed) if fixed else model
    given = frame[["age", "city", *([] if fixed else ["grade"])]]
    wanted = table.prob({"income": (300, None)}, given=given)
    np.testing.assert_array_equal(found.column("probability"), wanted)


def test_wrong_queries(model: MDMA, batch: Any) -> None:
    for query, words in {
        "E[income]": "probability of an event",
        "P(income > 3 | income > 1)": "different columns",
        "P(incme > 3)": "incme",
    }.items():
        with pytest.raises(ValueError, match=words):
            ArrowFunction(model, Probability(query))(batch)


def test_predictions(model: MDMA, frame: pd.DataFrame, batch: Any) -> None:
    rest = frame.drop(columns="income")
    wanted = MDMARegressor(model, target="income").fit(None).predict(rest)
    found = ArrowFunction(model, Predict("income", keep=["name"]))(batch)
    np.testing.assert_array_equal(found.column("income_predicted"), wanted)
    rest = frame.drop(columns="city")
    classes = MDMAClassifier(model, target="city").fit(None).predict(rest)
    found = ArrowFunction(model, Predict("city"))(batch)
    assert found.column("city_predicted").to_pylist() == classes.tolist()


JOBS = [Score(), Impute("draw"), ImputeInterval(), SampleGiven(2), Probability("P(age > 40)")]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: type(job).__name__)
def test_workers_load_the_file_once(folder: Path, batch: Any, job: Any, model: MDMA) -> None:
    function = ArrowFunction(f"file://{folder}/model.mdma", job, seed=1)
    wanted = ArrowFunction(model, job, seed=1)(batch)
    found = function(batch)
    assert found.equals(wanted)
    assert function.view is function.view
    other = copy.copy(function)  # as it arrives at a worker
    assert other._loaded is None
    assert other(batch).equals(wanted)
    # No rows have the same columns.
    assert function(batch.slice(0, 0)).schema.equals(found.schema)


@pytest.mark.parametrize("job", [Score(), Impute("draw", draws=2)], ids=["score", "draws"])
def test_large_batches_are_processed_in_parts(model: MDMA, batch: Any, job: Any) -> None:
    sizes = []
    function = ArrowFunction(model, job, most_rows=100)
    view, work = function._prepared()
    function._loaded = view, lambda rows, *rest: (sizes.append(len(rows)), *work(rows, *rest))[1:]
    found = function(batch)
    assert max(sizes) * job.copies <= 100
    assert found.num_rows == batch.num_rows * job.copies


def test_categories_not_seen_in_training(model: MDMA) -> None:
    batch = pa.RecordBatch.from_pydict({"age": [30], "city": ["Paris"]})
    with pytest.raises(ValueError, match="Paris"):
        ArrowFunction(model, Score())(batch)
    found = ArrowFunction(model, Score(), handle_unknown="missing")(batch)
    wanted = model.score_samples(pd.DataFrame({"age": [30]}))
    np.testing.assert_array_equal(found.column(0), wanted)
    with pytest.raises(ValueError, match="columns of the model"):
        ArrowFunction(model, Score())(pa.RecordBatch.from_pydict({"a": [1]}))
