"""Every experiment runs at its tiny size; tables, figures and the page come from files alone."""

import json
import math
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from benchmarks.likelihood.fitted import MissingPackageError
from experiments import config, page, registry, results
from experiments.__main__ import app
from experiments.context import Context
from experiments.registry import NAMES, Experiment, find

SMALL = 300_000  # bytes of a committed result file, and of its arrays


@pytest.fixture(autouse=True)
def _user_dtype() -> Iterator[None]:
    """What a user has."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def works(*words: object) -> str:
    done = call(*words)
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.stdout


def refused(*words: object) -> str:
    done = call(*words)
    assert done.exit_code != 0
    return str(done.exception)


# Every experiment -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_from_the_command_to_tables_and_figures(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words: list[object] = ["run", name, "--tiny", "--device", "cpu", "--output", tmp_path / "made"]
    if find(name).needs_data:
        words += ["--data", request.getfixturevalue("data_dir")]
    path = Path(works(*words).split()[-1])
    content = json.loads(path.read_text())
    assert {"command", "settings", "commit", "date", "versions", "cpu"} <= set(content["runs"][0])
    assert {"torch", "numpy", "pandas", "scikit-learn", "marginals"} <= set(
        content["runs"][0]["versions"]
    )
    assert content["records"]
    assert all({"seed", "seconds", "run"} <= set(record) for record in content["records"])
    moved = shutil.copytree(path.parent, tmp_path / "moved")  # nothing but the files is needed
    shutil.rmtree(path.parent)
    assert "|---" in works("tables", name, "--results", moved)
    drawn = works("figures", name, "--results", moved, "--output", tmp_path).split()
    assert all(Path(each).stat().st_size > 1000 for each in drawn)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", config.SIZES)
def test_configs_have_the_settings_of_their_experiment(name: str, size: config.Size) -> None:
    found = config.load(find(name), size)
    assert found.seeds
    assert found.paper.source


def test_the_list() -> None:
    assert [line.split(":")[0] for line in works("list").splitlines()] == list(NAMES)


def test_the_page_is_that_of_the_result_files() -> None:
    written = page.PAGE.read_text()
    assert written == page.compose(), "Run: python -m experiments page"
    for picture in re.findall(r"\]\((images/[^)]+)\)", written):
        assert (page.PAGE.parent / picture).exists()


def test_committed_results_are_small() -> None:
    for path in results.FOLDER.glob("*.*"):
        assert path.stat().st_size < SMALL, path.name


# The framework, by an experiment of nothing -----------------------------------------------------


@dataclass(frozen=True)
class Settings:
    words: tuple[str, ...]
    rate: float
    most: int = 9


def measure(settings: Settings, seed: int, context: Context, job: dict[str, Any]) -> dict[str, Any]:
    if job["word"] == "broken":
        raise ValueError("no")
    if job["word"] == "absent":
        raise MissingPackageError("Install it.")
    context.keep(job["word"], np.full(3, seed))
    return {"figure": -math.inf, "nested": {"a": [math.inf, "x"]}}


NOTHING = Experiment(
    name="nothing",
    title="Nothing",
    settings=Settings,
    jobs=lambda settings, seed: [{"word": word} for word in settings.words],
    measure=measure,
    tables=lambda records, paper: f"{len(records)} of {paper['records']}",
    figures=lambda records, arrays: {},
    parts=("words",),
)
CONFIG = """
[full]
seeds = [0, 1]
words = ["a", "b"]
rate = 1
[quick]
words = ["a"]
[paper]
source = "nowhere"
figures = { records = 4 }
"""


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for results, with the experiment in the registry and its config in a file."""
    module = type(sys)("experiments.nothing")
    module.EXPERIMENT = NOTHING  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "experiments.nothing", module)
    for owner in (registry, page):
        monkeypatch.setattr(owner, "NAMES", ("nothing",))
    (tmp_path / "nothing.toml").write_text(CONFIG)
    monkeypatch.setattr(config, "FOLDER", tmp_path)
    return tmp_path / "results"


def made(folder: Path) -> list[dict[str, Any]]:
    path = results.newest("nothing", folder)
    assert path is not None
    return results.read(path).records


def test_records_come_back_as_they_were(nothing: Path) -> None:
    works("run", "nothing", "--output", nothing)
    found = made(nothing)
    assert [(r["seed"], r["word"]) for r in found] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert found[0]["figure"] == -math.inf
    assert found[0]["nested"] == {"a": [math.inf, "x"]}
    assert "4 of 4" in works("tables", "--results", nothing)
    assert "Expected no result file of today" in refused("run", "nothing", "--output", nothing)


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(nothing: Path) -> None:
    words = ["run", "nothing", "--output", nothing, "--seeds", "3", "--resume", "--set"]
    assert call(*words, "words=['a', 'broken']").exit_code == 1
    first = made(nothing)
    assert [record["word"] for record in first] == ["a"]
    works(*words, "words=['a', 'b']")
    found = made(nothing)
    assert found[0] == first[0]  # not measured again
    assert [(r["word"], r["run"]) for r in found] == [("a", 0), ("b", 1)]
    stored = results.read(next(nothing.glob("*.json"))).arrays
    assert set(stored) == {"a", "b"}
    assert not list(nothing.glob("*.part*"))
    told = refused(*words, "rate=2")
    assert "'rate' was 1.0; got 2.0" in told


def test_what_lacks_a_package_is_skipped_and_told(nothing: Path) -> None:
    done = call("run", "nothing", "--output", nothing, "--set", "words=['absent', 'b']")
    assert "seed 0: absent, skipped: Install it." in done.stderr
    assert [record["word"] for record in made(nothing)] == ["b", "b"]


def test_runs_beside_each_other_are_put_together(nothing: Path, tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        works("run", "nothing", "--seeds", seed, "--output", tmp_path / str(seed))
    files = [next((tmp_path / str(seed)).glob("*.json")) for seed in (0, 1, 2)]
    works("merge", *files[:2], "--output", nothing)
    works("merge", files[2], "--output", nothing)
    assert [(r["seed"], r["run"]) for r in made(nothing)] == [
        *((0, 0), (0, 0), (1, 1), (1, 1), (2, 2), (2, 2))
    ]
    assert set(results.read(next(nothing.glob("*.json"))).arrays) == {"a", "b"}
    assert "got seed 2, a again" in refused("merge", files[2], "--output", nothing)
    for name, content in (("no", None), ("text", "x"), ("list", "[]"), ("dict", "{}")):
        if content is not None:
            (tmp_path / name).write_text(content)
        assert f"got {tmp_path / name}, which" in refused("merge", tmp_path / name)
    works("run", "nothing", "--quick", "--output", tmp_path / "quick")
    quick = next((tmp_path / "quick").glob("*.json"))
    told = refused("merge", files[0], quick, "--output", nothing)
    assert "got nothing full, nothing quick" in told
    works("run", "nothing", "--set", "rate=2", "--output", tmp_path / "other")
    other = next((tmp_path / "other").glob("*.json"))
    assert "'rate' was 1.0; got 2.0" in refused("merge", other, "--output", nothing)


def test_runs_may_differ_in_the_settings_of_models_that_one_lacks() -> None:
    experiment = find("missing")
    full = {"models": ["paper", "nsf_mice"], "nsf_seconds": 1.0, "width": 2, "sets": []}
    without = {**full, "models": ["paper"]}
    assert results._shared(experiment, full, full) == ["nsf_seconds", "width"]
    assert results._shared(experiment, full, without) == ["width"]
    assert results._shared(experiment, without, full) == ["width"]


def test_full_results_are_shown_before_quick_ones(nothing: Path) -> None:
    works("run", "nothing", "--quick", "--output", nothing)
    assert "2 of 4" in page.compose(nothing, nothing)
    works("run", "nothing", "--output", nothing)
    text = page.compose(nothing, nothing)
    assert "4 of 4" in text
    assert "at size full by\n\n- `python -m experiments run nothing --device" in text


def test_a_commit_without_git(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("MARGINALS_COMMIT", "abc123")
    works("run", "nothing", "--quick", "--output", nothing)
    assert json.loads(next(nothing.glob("*.json")).read_text())["runs"][0]["commit"] == "abc123"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "nought"], "Expected the name of an experiment: nothing; got 'nought'"),
        (["run", "nothing", "--set", "widht=3"], "got 'widht'"),
        (["run", "nothing", "--set", "most"], "Expected --set to be given key=value; got 'most'"),
        (["run", "nothing", "--set", "most=many"], "Expected 'most' to be of type int"),
        (["run", "nothing", "--set", "words=[1]"], "Expected 'words' to be of type str; got 1"),
        (["run", "nothing", "--device", "abacus"], "got 'abacus'"),
        (["run", "nothing", "--seeds", "a"], "Expected --seeds as whole numbers"),
        (["run", "nothing", "--quick", "--tiny"], "Expected --quick or --tiny; got both"),
        (["tables", "nothing"], "Expected a result file of 'nothing'"),
    ],
)
def test_bad_words_are_refused(nothing: Path, words: list[str], told: str) -> None:
    assert told in refused(*words, "--results" if words[0] == "tables" else "--output", nothing)
    assert not nothing.exists()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("rate = 1", "rat = 1", r"keys of \[full\] of nothing.toml .* got 'rat'"),
        ("rate = 1", "", r"Expected \[full\] of nothing.toml to have 'rate'"),
        ("[quick]", "[quicker]", "keys of nothing.toml .* got 'quicker'"),
        ("source", "sauce", r"keys of \[paper\] of nothing.toml .* got 'sauce'"),
        ("rate = 1", "rate = true", "Expected 'rate' to be of type float; got True"),
    ],
)
def test_bad_keys_of_a_config_are_refused(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    (tmp_path / "nothing.toml").write_text(CONFIG.replace(before, after, 1))
    with pytest.raises(SystemExit, match=told):
        config.load(NOTHING, "quick", folder=tmp_path)
