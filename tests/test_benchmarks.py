"""The benchmarks run end to end on small models, and count what they say they count."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.density.run import GRID, run_one, table
from benchmarks.likelihood.fitted import Fitted, best_of, climb, merit
from benchmarks.likelihood.neural import Runner, race
from benchmarks.likelihood.ours import fit_default, fit_paper
from benchmarks.likelihood.record import KEY, measure, summary
from benchmarks.likelihood.report import entries, page
from benchmarks.likelihood.run import main
from benchmarks.likelihood.sets import FOLDS, Rows, Split, dequantised, folds, splits
from benchmarks.records import joined, merged, read, write


@pytest.mark.data
def test_a_density_run(data_dir: Path) -> None:
    job = {
        **{"name": "sachs", "init": "data", "tensor": "ht", "width": 8, "noise": 0.05},
        **{"rate": 0.01, "batch": 500, "decay": 0.0, "seed": 0, "seconds": 30.0, "steps": 60},
        **{"folder": str(data_dir), "device": "cpu", "threads": 1},
    }
    run = run_one(job)
    assert set(GRID) <= set(run)
    assert run["test_min"] <= run["test_median"]
    assert -12 < run["test"] < -8
    assert len(table([run, run])) == 2


def normal_rows(count: int, columns: int = 2) -> Rows:
    return np.random.default_rng(0).normal(size=(count, columns))


def made(name: str = "gas", model: str = "gmm", seed: int = 0, **figures: Any) -> dict[str, Any]:
    """A record as a run writes it."""
    return {
        **{"set": name, "model": model, "seed": seed, "fold": None, "partial": False},
        **{"test_mean": 1.0, "test_median": 1.0, "test_min": -9.0, "test_rows": 10},
        **{"rows_minus_inf": 0, "rows_undefined": 0, "val_mean": 1.0, "fit_s": 1.0},
        **{"score_s": 0.1, "sample_s": 0.1, "settings": {}, "date": "2026-01-01 00:00 UTC"},
        **{"commit": "abc", "cpu": "x", "gpu": "none", "threads": 1, "device": "cpu"},
        **figures,
    }


def test_folds_share_no_row_and_are_standardised_by_their_training_rows() -> None:
    rows = 5 + 3 * normal_rows(103)
    cut = folds("iris", rows)
    assert len(cut) == FOLDS
    assert sum(len(split.test) for split in cut) == len(rows)
    for split in cut:
        seen = np.concatenate([split.train, split.val])
        np.testing.assert_allclose(seen.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(seen.std(0), 1)
        parts = np.concatenate([seen, split.test])
        assert len(np.unique(parts, axis=0)) == len(rows)
    again = folds("iris", rows)
    assert all((a.val == b.val).all() for a, b in zip(cut, again, strict=True))


def test_dequantising_moves_only_the_last_column_by_half_a_step_at_most() -> None:
    step = 0.25
    rows = np.round(normal_rows(4000) / step) * step
    before = Split("power", None, rows[:2000], rows[2000:3000], rows[3000:])
    after = dequantised(before)
    for part in ("train", "val", "test"):
        moved = getattr(after, part) - getattr(before, part)
        assert (moved[:, 0] == 0).all()
        assert np.abs(moved[:, 1]).max() <= step / 2
        assert moved[:, 1].std() == pytest.approx(step / math.sqrt(12), rel=0.1)


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected `name` to be one of .* got 'gas' and None"):
        splits("gas", None)


def test_no_row_is_dropped_from_a_mean() -> None:
    found = summary(np.array([1.0, -np.inf, np.nan, 3.0]))
    assert found["test_mean"] == -math.inf
    assert found["test_min"] == -math.inf
    assert found["test_rows"] == 4
    assert found["rows_minus_inf"] == 2
    assert found["rows_undefined"] == 1
    assert summary(np.array([1.0, 2.0, 6.0]))["test_mean"] == 3.0


def test_candidates_are_judged_by_impossible_rows_first() -> None:
    scores = {"spiky": np.array([9.0, -np.inf]), "safe": np.array([-5.0, -7.0])}
    assert best_of(list(scores), scores.__getitem__) == "safe"
    assert merit(np.array([-np.inf])) == (-1, -np.inf)


def test_a_climb_ends_after_two_rungs_without_gain() -> None:
    heights = [1.0, 3.0, 2.0, 2.5, 9.0]
    seen = []

    def judge(rung: int) -> Rows:
        seen.append(rung)
        return np.array([heights[rung]])

    assert climb(range(5), judge) == 1
    assert seen == [0, 1, 2, 3]


def test_records_survive_a_file(tmp_path: Path) -> None:
    first = made(test_mean=-math.inf, val_mean=math.nan)
    other = made(model="kde")
    path = tmp_path / "deep" / "records.json"
    write(path, merged([made(), other, first], KEY))
    json.loads(path.read_text(), parse_constant=pytest.fail)  # plain JSON, without -Infinity
    back = read(path)
    assert [r["model"] for r in back] == ["gmm", "kde"]
    assert back[0]["test_mean"] == -math.inf
    assert math.isnan(back[0]["val_mean"])
    assert back[1] == other
    assert [p.name for p in path.parent.iterdir()] == ["records.json"]


def test_a_report_averages_rows_then_seeds() -> None:
    folded = [
        made("iris", seed=seed, fold=fold, test_mean=mean, test_rows=rows)
        for seed, fold, mean, rows in [(0, 0, 1.0, 30), (0, 1, 2.0, 10), (1, 0, 3.0, 30)]
    ]
    (entry,) = entries(folded)
    assert entry.mean == pytest.approx((1.25 + 3.0) / 2)
    assert entry.spread == pytest.approx((3.0 - 1.25) / math.sqrt(2))
    assert (entry.seeds, entry.runs, entry.lacking) == (2, 3, 7)


def test_a_report_shows_impossible_rows_and_failures() -> None:
    impossible = made(model="vine", test_mean=-math.inf, rows_minus_inf=2)
    failed = {**made(model="nsf"), "error": "ValueError: no"}
    text = page([made(), made(seed=1, test_mean=2.0), impossible, failed])
    assert "| gas | **1.50 ± 0.71** | -inf [2 of 10 rows] |" in text
    assert "- gas nsf seed 0: ValueError: no" in text
    assert "| GMM | 1.500 ± 0.707 | 1.00 | -9.0 | 0 of 20 | 1.000 | 1 | 0.1 | 0.1 | 2 |" in text


def test_a_report_compares_small_sets_with_the_better_peer() -> None:
    means = {"fast": -2.0, "gmm": -2.5, "kde": -2.2}
    records = [
        made("iris", model, fold=fold, test_mean=mean)
        for model, mean in means.items()
        for fold in range(FOLDS)
    ]
    assert "- iris: fast +0.20" in page(records)
    assert "- iris" not in page(records[:-1])  # a fold of one is lacking: no comparison


def test_our_models_are_measured() -> None:
    split = folds("iris", normal_rows(60))[0]
    tiny = measure(split, lambda: fit_default(split, seed=0, device="cpu", width=4, max_steps=5))
    assert tiny["test_rows"] == len(split.test)
    assert -6 < tiny["test_mean"] < -2  # two standard normal columns have -2.84
    options = {"seed": 0, "device": "cpu", "seconds": 0.2, "width": 4}
    paper = measure(split, lambda: fit_paper(split, **options))
    assert paper["settings"]["width"] == 4
    assert math.isfinite(paper["test_mean"])


def test_rows_with_gaps_are_trained_on() -> None:
    rows = normal_rows(60)
    gaps = rows[:20].copy()
    gaps[:, 1] = np.nan
    split = Split("miniboone", None, rows[:30], rows[30:40], rows[40:], partial=gaps)
    found = measure(split, lambda: fit_default(split, seed=0, device="cpu", width=4, max_steps=5))
    assert found["train_rows"] == 50
    assert math.isfinite(found["test_mean"])


def test_a_race_keeps_the_best_weights() -> None:
    split = folds("iris", normal_rows(200))[0]

    def runner(rate: float) -> Runner:
        normal = torch.nn.Linear(2, 1)  # its bias is a log scale

        def score(x: torch.Tensor) -> torch.Tensor:
            scaled = (x - normal.weight) * (-normal.bias).exp()
            return -(scaled**2).sum(-1) / 2 - 2 * normal.bias - math.log(2 * math.pi)

        return Runner(normal, score, {"rate": rate, "decay": 0.0}, split, "cpu")

    good, bad = runner(0.05), runner(math.inf)  # the second's first step leads to NaN
    assert race([bad, good], 1.0) is good
    reached = float(good.score(good.val).mean().detach())
    assert reached == pytest.approx(good.best, abs=1e-5)
    assert -3.5 < reached < -2.2
    assert all(bool(p.isfinite().all()) for p in bad.module.parameters())


def test_the_scoreboard_from_command_to_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyvinecopulib", None)  # as if it were not installed
    out = tmp_path / "results.json"
    words = ["--out", str(out), "--sets", "iris", "--seeds", "0", "--device", "cpu", "--models"]
    main([*words, "kde", "vine"])
    assert "vine skipped: Expected the package 'pyvinecopulib'" in capsys.readouterr().out
    records = read(out)
    assert [(r["model"], r["fold"]) for r in records] == [("kde", fold) for fold in range(FOLDS)]
    assert {"commit", "date", "versions", "fit_s", "score_s", "sample_s"} <= set(records[0])
    with pytest.raises(SystemExit, match="Expected `--out` to be a new file"):
        main([*words, "kde"])
    main([*words, "kde", "--append"])
    assert read(out) == records  # all there already
    page_file, picture = tmp_path / "page.md", tmp_path / "picture.png"
    also = ["--out", str(page_file), "--picture", str(picture), "--against", "kde"]
    main(["report", str(out), *also])
    assert "### iris" in page_file.read_text()
    assert picture.stat().st_size > 1000
    with pytest.raises(SystemExit, match="Expected results of 'nsf' to compare with"):
        main(["report", str(out), *also[:-1], "nsf"])


def test_a_failure_is_recorded_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(split: Split, **_: Any) -> Fitted:
        raise ValueError("no")

    out = tmp_path / "results.json"
    words = ["--out", str(out), "--sets", "iris", "--seeds", "0", "--models", "kde", "--append"]
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules["benchmarks.likelihood.run"].MODELS, "kde", fails)
        main(words)
    assert {r["error"] for r in read(out)} == {"ValueError: no"}
    assert "ValueError: no" in capsys.readouterr().out
    main(words)
    assert not any("error" in r for r in read(out))


# The pages --------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]


def committed() -> list[Any]:
    files = sorted((ROOT / "benchmarks" / "results").glob("likelihood_*.json"))
    return joined(files, KEY)


def test_the_scoreboard_is_that_of_the_result_files() -> None:
    assert (ROOT / "docs" / "scoreboard.md").read_text() == page(committed())


@pytest.mark.parametrize(("model", "label"), [("best", "ours, best"), ("nsf", "NSF, scoreboard")])
def test_figures_in_the_text_are_those_of_the_result_files(model: str, label: str) -> None:
    lines = (ROOT / "docs" / "likelihood.md").read_text().replace("*", "").splitlines()
    cells = [[cell.strip() for cell in line.strip(" |").split("|")] for line in lines]
    names = next(row for row in cells if "hepmass" in row and "power" in row)
    told = next(row for row in cells if row[0] == label)
    means = {entry.name: entry.mean for entry in entries(committed()) if entry.model == model}
    assert told[1:] == [f"{means[name]:.2f}" for name in names[-len(told) + 1 :]]
