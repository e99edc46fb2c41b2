"""The benchmarks of information and independence run, and their pages say what was measured."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.independence import report as independence_report
from benchmarks.independence import run as independence_run
from benchmarks.independence.mechanisms import ALTERNATIVES, NULL, alternative_rows, null_rows
from benchmarks.information import report as information_report
from benchmarks.information import run as information_run

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", list(NULL))
def test_mechanisms(name: str) -> None:
    rng = np.random.default_rng(0)
    rows = null_rows(name, 50, rng)
    assert list(rows) == ["x", "y", "z"]
    assert not rows.isna().any(axis=None)
    for kind in ALTERNATIVES:
        assert len(alternative_rows(name, kind, 50, rng)) == 50


def test_from_command_to_picture_of_independence(tmp_path: Path) -> None:
    out = tmp_path / "cells.json"
    words = ["--out", str(out), "--mechanisms", "linear", "discrete Z", "--sizes", "60"]
    words += ["--repetitions", "2", "--methods", "marginals", "fisher", "gcm"]
    independence_run.main(words)
    cells = json.loads(out.read_text())["cells"]
    assert len(cells) == 2 * 3 * 3
    independence_run.main(words)  # nothing is left to do
    assert len(json.loads(out.read_text())["cells"]) == len(cells)
    page = tmp_path / "page.md"
    independence_report.main([str(out), "--out", str(page), "--picture", str(tmp_path / "a.png")])
    assert "Fisher z" in page.read_text()
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_from_command_to_picture_of_information(tmp_path: Path) -> None:
    folder = tmp_path / "bmi"
    folder.mkdir()
    x = np.random.default_rng(0).normal(size=(100, 2))
    np.savez(folder / "samples_n5000_seed0.npz", t__x=x[:, :1], t__y=x.sum(1, keepdims=True))
    line = "task_id,name,dim_x,dim_y,mutual_information_nats\nt,sum,1,1,0.34657\n"
    (folder / "ground_truth_tasks.csv").write_text(line)
    out = tmp_path / "found.json"
    words = ["--data", str(tmp_path), "--out", str(out), "--methods", "quick"]
    information_run.main([*words, "--gaussian-rows", "200", "--seeds", "0"])
    told = json.loads(out.read_text())
    assert [line["k"] for line in told["gaussian"]] == list(range(1, 16))
    assert abs(told["tasks"][0]["value"] - 0.34657) < 0.3
    page = tmp_path / "page.md"
    information_report.main([str(out), "--out", str(page), "--picture", str(tmp_path / "a.png")])
    assert f"{int(told['tasks'][0]['solved'])} of 1" in page.read_text()


def test_covariance_of_the_paper() -> None:
    covariance = information_run.gaussian_covariance()
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    assert covariance[0, 1] == pytest.approx(1 / 80)


@pytest.mark.parametrize(
    ("report", "pattern", "page"),
    [
        (independence_report, "independence_2*.json", "independence_scoreboard.md"),
        (information_report, "information_2*.json", "information_scoreboard.md"),
    ],
)
def test_pages_are_what_the_files_say(report: Any, pattern: str, page: str) -> None:
    files = sorted((ROOT / "benchmarks" / "results").glob(pattern))
    assert files
    assert report.tables(report.read(files)) in (ROOT / "docs" / page).read_text()


def test_figures_of_the_text() -> None:
    text = (ROOT / "docs" / "dependence.md").read_text()
    board = (ROOT / "docs" / "information_scoreboard.md").read_text()
    levels = (ROOT / "docs" / "independence_scoreboard.md").read_text()
    assert "Of 48 levels 44" in text
    assert "Of 48 levels of ours 44" in levels
    for found in ("34 of 40", "17 of 40", "0.0140", "0.0051"):
        assert found in text
        assert found in board
