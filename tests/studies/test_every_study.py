"""Every study runs at its tiny size, from the command to tables and pictures."""

import doctest
import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marginals import cli
from studies import files
from studies.harness import config, page, results
from studies.harness.browser import chromium
from studies.harness.study import MODULES, find
from tests.studies.conftest import works

SMALL = 300_000  # bytes of a committed result file, and of its arrays
ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "studies").rglob("*.py"))


def in_this_process(words: list[str]) -> dict[str, Any]:
    """Run a command as `files.measured` does, without the start of a process."""
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    return {"command": words[0], "seconds": 1.0, "peak_mb": 1.0}


@pytest.mark.parametrize("name", MODULES)
def test_from_the_command_to_tables_and_figures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "drag" and chromium() is None:
        pytest.skip("no browser: install chromium")
    monkeypatch.setattr(files, "measured", in_this_process)
    words = ["run", name, "--tiny", "--device", "cpu", "--output", tmp_path / "made"]
    path = Path(works(*words).split()[-1])
    content = json.loads(path.read_text())
    (run,) = content["runs"]
    assert {"command", "settings", "commit", "date", "versions", "cpu"} <= set(run)
    assert {"torch", "numpy", "pandas", "scikit-learn"} <= set(run["versions"])
    assert str(tmp_path) not in path.read_text()
    records, key = content["records"], find(name).key
    assert not [record["failure"] for record in records if "failure" in record]
    assert all({"seed", "took_s", "run"} <= set(record) for record in records)
    assert len({tuple(str(r.get(k)) for k in ("seed", *key)) for r in records}) == len(records)
    moved = shutil.copytree(path.parent, tmp_path / "moved")  # nothing but the files is needed
    shutil.rmtree(path.parent)
    assert "|---" in works("tables", name, "--results", moved)
    drawn = works("figures", name, "--results", moved, "--output", tmp_path).split()
    assert all(Path(each).stat().st_size > 1000 for each in drawn)


@pytest.mark.parametrize("name", MODULES)
def test_configs_have_the_settings_of_their_study(name: str) -> None:
    for size in config.SIZES:
        found = config.load(find(name), size)
        assert found.seeds
        assert bool(found.paper.source) == (find(name).page == page.PAPER)


def test_the_list() -> None:
    assert [line.split(":")[0] for line in works("list").splitlines()] == list(MODULES)


def test_committed_results_are_small() -> None:
    for path in results.FOLDER.glob("*.*"):
        assert path.stat().st_size < SMALL, path.name


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_short_and_their_examples_hold(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500
    if ">>>" in path.read_text():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS).failed == 0
