"""The detection score: sdmetrics' own class with XGBoost, seeded; None without the packages."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies.models.detection import detection_score
from studies.synthesis import facts, tables


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    real = pd.DataFrame({"n": pd.array([1, None, 3], "Int64"), "c": ["a", None, "b"], 2: True})
    return real, real.iloc[::-1, ::-1]


def test_without_the_packages_there_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert detection_score(*frames(), seed=0) is None


def test_the_metric_is_that_of_sdmetrics(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Metric:
        @classmethod
        def compute(cls, real: pd.DataFrame, drawn: pd.DataFrame) -> float:
            seen.append((cls._get_classifier(), real, drawn))  # type: ignore[attr-defined]
            return np.random.random()  # noqa: NPY002

    module, boosting = ModuleType("sklearn"), ModuleType("xgboost")
    module.ScikitLearnClassifierDetectionMetric = Metric  # type: ignore[attr-defined]
    boosting.XGBClassifier = lambda **options: options  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sdmetrics.single_table.detection.sklearn", module)
    monkeypatch.setitem(sys.modules, "xgboost", boosting)
    state = np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    scores = [detection_score(*frames(), seed=seed) for seed in (3, 3, 4)]
    assert scores[0] == scores[1] != scores[2]
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index,union-attr]  # noqa: NPY002
    classifier, real, drawn = seen[0]
    assert classifier["random_state"] == 3
    assert list(real.columns) == list(drawn.columns) == ["n", "c", "2"]
    assert real["n"].dtype == float
    assert real["c"].tolist() == ["a", "missing", "b"]
    assert drawn["c"].tolist() == ["b", "missing", "a"]
    first, second = frames()
    detection_score(first, second.assign(c=["z", "a", "a"]), seed=3)
    assert set(seen[-1][2]["c"]) <= set(seen[-1][1]["c"])  # sdmetrics refuses others


def test_published_scores_stand_beside_ours() -> None:
    summary = {"xgboost": 0.5, "auc": 0.7, "column_auc": 0.51}
    record = {"table": "adult", "model": "marginals", "seed": 0, "summary": summary}
    text = tables([record], None)  # type: ignore[arg-type]
    assert "TabPC (published)" in text
    assert "0.855" in text
    older = tables([{**record, "summary": {"auc": 0.7}}], None)  # type: ignore[arg-type]
    assert "XGBoost" not in older


def test_the_check_of_our_model_is_counted_over_seeds() -> None:
    parts = ("margins", "pairs", "calibration", "questions", "rules")
    check = dict.fromkeys(parts, 10) | {f"{part}_off": 1 for part in parts}
    record = {"table": "adult", "model": "marginals", "summary": {"auc": 0.7}}
    records = [
        {**record, "seed": 0, "check": check},
        {**record, "seed": 1, "check": check | {"questions_off": 4}},
    ]
    line = "| adult | 1.0 of 10.0 | 1.0 of 10.0 | 1.0 of 10.0 | 2.5 of 10.0 | 1.0 of 10.0 |"
    assert line in tables(records, None)  # type: ignore[arg-type]
    assert facts(records)["auc"] == "marginals 0.700"
