"""The benchmarks of imputation and prediction: masks, scores, and a run from command to picture."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import imputation, pages, prediction
from benchmarks.clock import cpu_seconds
from benchmarks.imputation import methods
from benchmarks.imputation import report as imputation_report
from benchmarks.imputation import run as imputation_run
from benchmarks.imputation.filled import Filled
from benchmarks.imputation.masks import hidden
from benchmarks.imputation.metrics import fair_crps, figures, predictive_interval
from benchmarks.imputation.tables import load
from benchmarks.prediction import models
from benchmarks.prediction import report as prediction_report
from benchmarks.prediction import run as prediction_run
from benchmarks.prediction.metrics import of_classes, of_numbers, pinball_crps
from benchmarks.prediction.tasks import Task, make_task
from benchmarks.records import joined, read

TINY = {"width": 4, "max_steps": 5}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return load("diabetes", None, 60)


def wide(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(rows, 6)), columns=list("abcdef"))
    return numbers.assign(word=rng.choice(["x", "y", "z"], rows))


# Masks ------------------------------------------------------------------------------------------


def test_cells_are_hidden_by_themselves() -> None:
    mask = hidden(wide(), "mcar", 0.3, seed=0)
    np.testing.assert_allclose(mask.mean(0), 0.3, atol=5 * math.sqrt(0.21 / 4000))
    assert abs(np.corrcoef(mask.T)[np.triu_indices(7, 1)]).max() < 5 / math.sqrt(4000)


def test_cells_are_hidden_by_columns_that_stay() -> None:
    table = wide()
    mask = hidden(table, "mar", 0.5, seed=0)
    stay = ~mask.any(0)
    assert stay.sum() == 2
    np.testing.assert_allclose(mask[:, ~stay].mean(0), 0.5, atol=5 * math.sqrt(0.25 / 4000))
    again = hidden(table.assign(**dict.fromkeys(table.columns[~stay], 0.0)), "mar", 0.5, seed=0)
    # What is hidden does not depend on the cells that may be.
    assert (again[:, ~stay] == mask[:, ~stay]).mean() > 0.999


def test_a_column_keeps_two_values() -> None:
    few = pd.DataFrame({"a": [0.0] * 30 + [1.0], "b": np.arange(31.0)})
    for seed in range(5):
        mask = hidden(few, "mcar", 0.9, seed)
        assert few["a"][~mask[:, 0]].nunique() == 2


# Scores -----------------------------------------------------------------------------------------


def test_the_crps_of_few_draws_has_no_bias() -> None:
    rng = np.random.default_rng(0)
    truth = np.full(40_000, 0.7)
    # Of a standard normal: y (2 F(y) - 1) + 2 f(y) - 1 / sqrt(pi).
    exact = 0.7 * math.erf(0.7 / math.sqrt(2)) + math.sqrt(2 / math.pi) * math.exp(-0.245)
    exact -= 1 / math.sqrt(math.pi)
    for count in (2, 20):
        found = fair_crps(rng.normal(size=(count, len(truth))), truth)
        assert found.mean() == pytest.approx(exact, abs=5 * found.std() / 200)
    pairs = np.abs(np.array([1.0, 4.0, 6.0])[:, None] - np.array([1.0, 4.0, 6.0])).sum() / 6
    by_hand = np.abs(np.array([1.0, 4.0, 6.0]) - 3.0).mean() - pairs / 2
    assert fair_crps(np.array([[1.0], [4.0], [6.0]]), np.array([3.0]))[0] == pytest.approx(by_hand)
    assert fair_crps(np.array([[5.0]]), np.array([3.0]))[0] == 2.0


def test_intervals_of_few_draws_hold_the_share_of_further_ones() -> None:
    draws = np.random.default_rng(0).normal(size=(21, 20_000))
    low, high = predictive_interval(draws[:20], 0.9)
    inside = ((low <= draws[20]) & (draws[20] <= high)).mean()
    assert inside == pytest.approx(0.9, abs=5 * math.sqrt(0.09 / 20_000))


def test_figures_by_hand() -> None:
    truth = pd.DataFrame({"x": [0.0, 2.0, 4.0, 6.0], "word": list("abab")})
    mask = np.array([[True, True], [False, True], [True, False], [False, False]])
    point = truth.assign(x=[1.0, 2.0, 4.0, 6.0], word=list("aaab"))
    spread = math.sqrt(5)
    found = figures(truth, mask, Filled(point, [], truth[["x"]], truth[["x"]] + 1), 0.9)
    assert found["rmse"] == pytest.approx(math.sqrt(1 / 2) / spread)
    assert found["crps"] == pytest.approx(0.5 / spread)  # a point: the mean absolute error
    assert (found["coverage"], found["accuracy"], found["cells"]) == (1.0, 0.5, 2)
    assert figures(truth, np.zeros_like(mask), Filled(point), 0.9)["accuracy"] is None
    with pytest.raises(ValueError, match="Expected all cells of 'x' to be filled"):
        figures(truth, mask, Filled(point.assign(x=math.nan)), 0.9)


def test_scores_of_predictions_by_hand() -> None:
    quantiles, levels = np.array([[0.0, 1.0, 2.0]]), np.array([0.1, 0.5, 0.9])
    loss = 0.1 * 1.5 + 0.5 * 0.5 + 0.1 * 0.5
    assert pinball_crps(quantiles, levels, np.array([1.5])) == pytest.approx(2 * loss / 3)
    found = of_numbers(np.repeat(quantiles, 2, 0), np.ones(2), levels, np.array([1.0, 3.0]))
    assert (found["coverage"], found["width"], found["rmse"]) == (0.5, 2.0, math.sqrt(2))
    shares = np.array([[0.25, 0.75], [0.5, 0.5]])
    classes = of_classes(shares, np.array(["a", "b"]), ["b", "a"])
    assert classes["log_loss"] == pytest.approx(-math.log(0.75 * 0.5) / 2)
    assert classes["accuracy"] == 1.0


# Methods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mdma", "knn", "mean", "iterative"])
def test_methods_fill_every_cell(
    name: str, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "DRAWS", 3)
    mask = hidden(table, "mcar", 0.3, seed=0)
    options = TINY if name == "mdma" else {}
    with cpu_seconds():
        filled = methods.METHODS[name](table.mask(mask), 0, **options)
    assert len(filled.draws) == (0 if name == "knn" else 3)
    found = figures(table, mask, filled, 0.9)
    assert 0 < found["crps"] <= found["rmse"] * 2
    words, gone = table["sex"].astype(str), mask[:, table.columns.get_loc("sex")]
    right = (filled.point["sex"].astype(str) == words)[gone]
    assert found["accuracy"] == pytest.approx(right.mean())
    assert set(filled.point["sex"].astype(str)) <= set(words)
    seen = ~mask
    for filled_table in (filled.point, *filled.draws):
        same = filled_table.astype(str).to_numpy() == table.astype(str).to_numpy()
        numbers = table.columns.get_indexer(table.select_dtypes("number").columns)
        assert same[:, table.columns.get_loc("sex")][seen[:, table.columns.get_loc("sex")]].all()
        np.testing.assert_allclose(
            filled_table.iloc[:, numbers].to_numpy(dtype=float)[seen[:, numbers]],
            table.iloc[:, numbers].to_numpy(dtype=float)[seen[:, numbers]],
        )


@pytest.mark.parametrize("name", ["mdma", "knn", "iterative", "mean"])
def test_words_that_the_numbers_tell_are_filled_rightly(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "DRAWS", 3)
    rng = np.random.default_rng(0)
    right = rng.random(120) < 0.5
    numbers = rng.normal(size=(120, 3)) + np.where(right, 4.0, -4.0)[:, None]
    table = pd.DataFrame(numbers, columns=list("abc")).assign(side=np.where(right, "r", "l"))
    mask = hidden(table, "mcar", 0.3, seed=0)
    options = {"effort": "quick"} if name == "mdma" else {}
    with cpu_seconds():
        found = figures(table, mask, methods.METHODS[name](table.mask(mask), 0, **options), 0.9)
    if name == "mean":  # knows nothing of the others
        assert 0.25 < found["accuracy"] < 0.75
    else:
        assert found["accuracy"] > 0.9


def test_limits_count_the_seconds_of_this_process() -> None:
    module = sys.modules["marginals.selection.search"]
    before = module.time
    with cpu_seconds():
        assert module.time is not before
    assert module.time is before


# From command to picture ------------------------------------------------------------------------


def test_imputation_from_command_to_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "miceforest", None)  # as if it were not installed
    out = tmp_path / "results.json"
    words = ["--out", str(out), "--tables", "diabetes", "mpg", "--methods", "knn", "mean"]
    words += ["miceforest", "--rows", "60", "--shares", "0.3", "--seeds", "0"]
    imputation_run.main(words)
    told = capsys.readouterr().out
    assert "mpg skipped: Expected the file tables/seaborn_mpg.csv" in told
    assert "miceforest skipped: Expected the package 'miceforest'" in told
    records = read(out)
    assert [(r["method"], r["mechanism"]) for r in records] == [
        *(("knn", "mcar"), ("mean", "mcar"), ("knn", "mar"), ("mean", "mar"))
    ]
    assert {"commit", "versions", "seconds", "rmse", "crps"} <= set(records[0])
    assert str(tmp_path) not in records[0]["command"]
    with pytest.raises(SystemExit, match="Expected `--out` to be a new file"):
        imputation_run.main(words)
    imputation_run.main([*words, "--append"])
    assert read(out) == records  # all there already
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    page.write_text(f"Text.\n{pages.START}\n{pages.END}\n")
    imputation_run.main(["report", str(out), "--page", str(page), "--picture", str(picture)])
    assert "| diabetes |" in page.read_text()
    assert picture.stat().st_size > 1000
    assert imputation.__doc__


def test_a_failure_is_recorded_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(holes: pd.DataFrame, seed: int) -> Filled:
        raise ValueError("no")

    out = tmp_path / "results.json"
    words = ["--out", str(out), "--tables", "diabetes", "--methods", "mean", "--rows", "40"]
    words += ["--shares", "0.3", "--seeds", "0", "--append"]
    with monkeypatch.context() as broken:
        broken.setitem(imputation_run.METHODS, "mean", fails)
        imputation_run.main(words)
    assert {r["error"] for r in read(out)} == {"ValueError: no"}
    imputation_run.main(words)
    assert not any("error" in r for r in read(out))


def test_mean_ranks_share_ties_and_seeds() -> None:
    def made(method: str, seed: int, rmse: float) -> dict[str, object]:
        about = {"table": "mpg", "method": method, "mechanism": "mcar", "share": 0.3, "seed": seed}
        rest = dict.fromkeys(("crps", "coverage", "width", "accuracy"), None)
        return {**about, **rest, "rmse": rmse, "seconds": 1.0}

    records = [made("mdma", 0, 1.0), made("mdma", 1, 9.0), made("knn", 0, 1.0), made("mean", 0, 2)]
    found = imputation_report.entries(records)
    # Of seed 1 the others have no figure: it does not count for the first either.
    assert imputation_report.mean_ranks(found, "rmse") == {"mdma": 1.5, "knn": 1.5, "mean": 3.0}


def test_prediction_from_command_to_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    words = ["--out", str(out), "--tables", "breast-cancer", "concrete", "--models", "linear"]
    words += ["--rows", "80", "--missing", "0.3", "--seeds", "0"]
    prediction_run.main(words)
    assert "concrete skipped: Expected the file" in capsys.readouterr().out
    (record,) = read(out)
    assert 0 < record["log_loss"] < 2
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    page.write_text(f"Text.\n{pages.START}\n{pages.END}\n")
    prediction_run.main(["report", str(out), "--page", str(page), "--picture", str(picture)])
    assert "| breast-cancer | 30% | linear, normal errors |" in page.read_text()
    assert picture.stat().st_size > 1000
    assert prediction.__doc__


@pytest.mark.parametrize("name", ["mdma", "boosting", "linear"])
def test_models_predict_numbers(
    name: str, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "LEVELS", np.array([0.05, 0.5, 0.95]))
    x, y = table[["age", "sex", "bmi", "s5"]], table["target"].astype(float)
    holes = x.mask(np.random.default_rng(0).random(x.shape) < 0.3)
    task = Task("diabetes", holes[:40], y[:40], holes[40:], y[40:], is_class=False)
    options = TINY if name == "mdma" else {}
    quantiles, mean = models.MODELS[name](task, 0, **options)
    assert quantiles.shape == (20, 3)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert mean.shape == (20,)


def test_tests_are_of_the_same_rows_with_and_without_gaps() -> None:
    whole, gaps = (make_task("breast-cancer", None, share, seed=1) for share in (0.0, 0.3))
    assert whole.y_test.equals(gaps.y_test)
    assert not whole.x.isna().any(axis=None)
    assert gaps.x.isna().mean(axis=None) == pytest.approx(0.3, abs=0.05)


# The pages --------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "report"),
    [("imputation", imputation_report), ("prediction", prediction_report)],
)
def test_tables_in_the_text_are_those_of_the_result_files(name: str, report: Any) -> None:
    files = sorted((ROOT / "benchmarks" / "results").glob(f"{name}_*.json"))
    records = joined(files, report.KEY)
    shown = pages.tables_of((ROOT / "docs" / f"{name}.md").read_text())
    assert shown == report.page(records).strip()


def test_figures_in_the_text_of_imputation() -> None:
    files = sorted((ROOT / "benchmarks" / "results").glob("imputation_*.json"))
    records = joined(files, imputation_report.KEY)
    found = imputation_report.entries(records)
    text = (ROOT / "docs" / "imputation.md").read_text().split(pages.START)[0]

    def coverage(method: str, **where: Any) -> str:
        own = [e for e in found if e.method == method]
        own = [e for e in own if all(getattr(e, k) == v for k, v in where.items())]
        return f"{imputation_report.average(own, 'coverage'):.3f}"

    told = [coverage("mdma"), coverage("miceforest"), coverage("mdma", mechanism="mar", share=0.5)]
    told += [coverage("mdma", table=name) for name in ("breast-cancer", "transfusion")]
    for metric in ("rmse", "crps", "accuracy"):
        ranks = imputation_report.mean_ranks(found, metric)
        told += [f"{ranks[method]:.2f}" for method in ("mdma", "miceforest")]
    assert [figure for figure in told if figure not in text] == []


def test_figures_in_the_text_of_prediction() -> None:
    files = sorted((ROOT / "benchmarks" / "results").glob("prediction_*.json"))
    records = joined(files, prediction_report.KEY)
    text = (ROOT / "docs" / "prediction.md").read_text().split(pages.START)[0]
    for model in ("mdma", "boosting"):
        shares = [r["coverage"] for r in records if r["model"] == model and "coverage" in r]
        assert f"{min(shares):.3f} to {max(shares):.3f}" in text
