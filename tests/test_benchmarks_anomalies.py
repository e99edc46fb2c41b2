"""The benchmark of detectors runs end to end on small sets, and its page says what was measured."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.anomalies import models, run
from benchmarks.anomalies.report import ranks, settings, table, tables
from benchmarks.anomalies.run import main
from benchmarks.anomalies.sets import FILES, MOST_ROWS, cut
from benchmarks.pages import tables_of
from benchmarks.records import read
from marginals import MDMA, MDMAOutlierDetector

ROOT = Path(__file__).parents[1]


def rows_with_outliers(count: int = 60) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    labels = (np.arange(count) % 10 == 0).astype(np.int64)
    return random.normal(size=(count, 3)) + 6 * labels[:, None], labels


def made(model: str, auroc: float, name: str = "cardio", **more: Any) -> dict[str, Any]:
    about = {"set": name, "model": model, "seed": 0, "missing": 0.0, "imputation": None}
    figures = {"auroc": auroc, "ap": auroc / 2, "fit_s": 1.0, "score_s": 0.5}
    where = {"date": "2026-01-01 00:00 UTC", "commit": "abc", "threads": 1, "versions": {}}
    return {**about, **figures, **where, **more}


def test_sets_are_cut_by_label_and_gaps_leave_the_split_alone() -> None:
    rows, labels = rows_with_outliers(100)
    plain, holed = (cut("wbc", rows, labels, 1, missing) for missing in (0.0, 0.2))
    assert (len(plain.train), len(plain.test), plain.labels.sum()) == (70, 30, 3)
    gone = np.isnan(holed.train)
    assert gone.mean() == pytest.approx(0.2, abs=0.08)
    np.testing.assert_array_equal(holed.train[~gone], plain.train[~gone])
    many = np.zeros((MOST_ROWS + 500, 1)), np.arange(MOST_ROWS + 500) % 2
    large = cut("shuttle", *many, 0, 0.0)
    assert len(large.train) + len(large.test) == MOST_ROWS


def test_from_command_to_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyod", None)  # as if it were not installed

    def small(random_state: int) -> MDMAOutlierDetector:
        return MDMAOutlierDetector(MDMA(width=4, max_steps=20, random_state=random_state))

    monkeypatch.setattr(models, "MDMAOutlierDetector", small)
    rows, labels = rows_with_outliers()
    folder = tmp_path / "data" / "adbench"
    folder.mkdir(parents=True)
    np.savez(folder / f"{FILES['wbc']}.npz", X=rows, y=labels)
    out = tmp_path / "results.json"
    words = ["--data", str(tmp_path / "data"), "--out", str(out), "--sets", "wbc", "--seeds", "0"]
    main([*words, "--models", "marginals", "knn"])
    assert "knn skipped: Expected the package 'pyod'" in capsys.readouterr().out
    found = read(out)
    assert [r["missing"] for r in found] == [0.0, 0.2]
    assert all(r["auroc"] > 0.9 for r in found)
    with pytest.raises(SystemExit, match="Expected `--out` to be a new file"):
        main(words)
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    marks = (ROOT / "docs" / "anomalies.md").read_text()
    page.write_text(marks)
    main(["report", str(out), "--out", str(page), "--picture", str(picture)])
    assert "### No cell missing: AUROC" in tables_of(page.read_text())
    assert picture.stat().st_size > 1000


def test_failures_are_recorded_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = rows_with_outliers()
    folder = tmp_path / "adbench"
    folder.mkdir()
    np.savez(folder / f"{FILES['wbc']}.npz", X=rows, y=labels)
    out, calls = tmp_path / "results.json", []

    def fails_at_first(train: Any, seed: int) -> Any:
        calls.append(seed)
        if len(calls) == 1:
            raise ValueError("no")
        return lambda test: np.abs(test).sum(1)

    monkeypatch.setattr(run, "fit_ours", fails_at_first)
    words = ["--data", str(tmp_path), "--out", str(out), "--sets", "wbc", "--seeds", "0", "1"]
    words += ["--models", "marginals", "--missing", "0"]
    main(words)
    first = read(out)
    assert [(r["seed"], r.get("error")) for r in first] == [(0, "ValueError: no"), (1, None)]
    assert calls == [0, 1]
    main([*words, "--append"])
    found = {r["seed"]: r for r in read(out)}
    assert calls == [0, 1, 0]  # what was measured is not measured again
    assert len(read(out)) == 2
    assert "error" not in found[0]
    assert found[0]["auroc"] > 0.9
    assert found[1] == first[1]
    main([*words, "--append"])
    assert calls == [0, 1, 0]


def test_peers_of_pyod_are_measured_where_it_is_installed() -> None:
    pytest.importorskip("pyod", exc_type=ImportError)
    split = cut("wbc", *rows_with_outliers(), 0, 0.2)
    for name in models.PEERS:
        job = {"model": name, "seed": 0, "imputation": "mean"}
        assert run.measured(split, job)["auroc"] > 0.8


def test_ranks_are_means_over_sets() -> None:
    records = [
        *(made("marginals", 0.9), made("knn", 0.8), made("gmm", 0.8)),
        *(made("marginals", 0.5, "wbc"), made("knn", 0.9, "wbc"), made("gmm", 0.7, "wbc")),
        made("knn", 0.3, missing=0.2, imputation="mean"),
    ]
    frame = table(records, "auroc", 0.0, None)
    assert ranks(frame).to_dict() == {"marginals": 2.0, "knn": 1.75, "gmm": 2.25}
    assert ranks(frame, ["wbc"]).to_dict() == {"marginals": 3.0, "knn": 1.0, "gmm": 2.0}
    assert len(settings(records)) == 3
    text = tables(records)
    assert "| cardio* | **0.900** | 0.800 | 0.800 |" in text
    assert "| mean rank | 2.00 | **1.75** | 2.25 |" in text


# The page -----------------------------------------------------------------------------------------


def committed() -> list[Any]:
    files = sorted((ROOT / "benchmarks" / "results").glob("anomalies_*.json"))
    return [record for file in files for record in read(file)]


def test_the_tables_are_those_of_the_result_files() -> None:
    assert tables_of((ROOT / "docs" / "anomalies.md").read_text()) == tables(committed())
