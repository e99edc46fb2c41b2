"""Runs go on where they stopped, files are merged or refused, and pages show the newest."""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marginals.selection.search  # noqa: F401 (its clock is looked at)
import studies.__main__ as command
from studies import files
from studies.harness import config, machine, page, results, study
from studies.harness.available import Unavailable
from studies.harness.parallel import cores, run_lines
from studies.harness.study import Context, Settings, Study, find
from studies.harness.text import best_bold
from tests.studies.conftest import call, refused, works

Record = dict[str, Any]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Any:
    if job["word"] == "broken":
        raise ValueError("no")
    if job["word"] == "absent":
        raise Unavailable("Install it.")
    context.keep(job["word"], np.full(3, seed))
    found = {"figure": -math.inf, "nested": {"a": [math.inf, "x"]}, "at": time.perf_counter()}
    return [{**found, "what": n} for n in range(2)] if job["word"] == "twice" else found


NOTHING = Study(
    *("nothing", "Nothing", measure),
    lambda records, paper: f"{len(records)} of {paper['records']}",
    grid={"word": "words"},
    key=("what",),
)
CONFIG = """
[full]
seeds = [0, 1]
words = ["a", "b"]
rate = 1.0
most = 9
[quick]
words = ["a"]
[paper]
source = "nowhere"
figures = { records = 4 }
"""


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for results, with the study in the registry and its config in a file."""
    module = type(sys)("studies.nothing")
    module.STUDIES = (NOTHING,)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "studies.nothing", module)
    for owner in (study, page, command):
        monkeypatch.setattr(owner, "MODULES", {"nothing": "nothing"})
    (tmp_path / "nothing.toml").write_text(CONFIG)
    monkeypatch.setattr(config, "FOLDER", tmp_path)
    return tmp_path / "results"


def stored(folder: Path) -> results.Results:
    path = results.newest("nothing", folder)
    assert path is not None
    return results.read(path)


def test_records_come_back_as_they_were(nothing: Path) -> None:
    works("run", "nothing", "--output", nothing)
    found = stored(nothing).records
    assert [(r["seed"], r["word"]) for r in found] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert found[0]["figure"] == -math.inf
    assert found[0]["nested"] == {"a": [math.inf, "x"]}
    text = next(nothing.glob("*.json")).read_text()
    json.loads(text, parse_constant=pytest.fail)  # plain JSON, without -Infinity
    assert "4 of 4" in works("tables", "--results", nothing)
    assert "Expected no result file of today" in refused("run", "nothing", "--output", nothing)


def test_failures_are_recorded_and_tried_again(nothing: Path) -> None:
    words = ["run", "nothing", "--output", nothing, "--seeds", "3", "--resume", "--set"]
    done = call(*words, "words=['a', 'broken']")
    assert "broken, failed: ValueError: no" in done.stderr
    first = stored(nothing).records
    assert [r.get("failure") for r in first] == [None, "ValueError: no"]
    assert "1 of 4\n\nFailed:\n\n- broken, seed 3: ValueError: no" in works(
        "tables", "nothing", "--results", nothing
    )
    works(*words, "words=['a', 'b', 'broken']")
    found = stored(nothing)
    assert found.records[0] == first[0]  # not measured again
    assert [(r["word"], r["run"]) for r in found.records] == [("a", 0), ("b", 1), ("broken", 1)]
    assert set(found.arrays) == {"a", "b"}
    assert not list(nothing.glob("*.part*"))
    assert "'rate' was 1.0; got 2.0" in refused(*words, "rate=2")


def test_what_is_there_is_measured_again_if_asked(nothing: Path) -> None:
    words = ["run", "nothing", "--output", nothing, "--quick", "--seeds", "0"]
    works(*words, "--set", "words=['a', 'twice']")
    first = stored(nothing).records
    assert [r.get("what") for r in first] == [None, 0, 1]
    works(*words, "--again", "--set", "words=['twice']")
    found = stored(nothing).records
    assert found[0] == first[0]
    assert [r.get("what") for r in found] == [None, 0, 1]
    assert found[2]["at"] > first[2]["at"]
    works(*words, "--resume", "--set", "words=['twice']")
    assert stored(nothing).records == found


def test_what_lacks_a_package_or_time_is_skipped(nothing: Path) -> None:
    words = ["run", "nothing", "--output", nothing, "--set"]
    done = call(*words, "words=['absent', 'b']")
    assert "seed 0: absent, skipped: Install it." in done.stderr
    assert [record["word"] for record in stored(nothing).records] == ["b", "b"]
    none = call(*words, "words=['a']", "--quick", "--seconds", "-1")
    assert "skipped: out of time" in none.stderr
    assert "every job was skipped" in str(none.exception)


def test_runs_of_several_seeds_are_merged(nothing: Path, tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        works("run", "nothing", "--seeds", seed, "--output", tmp_path / str(seed))
    files = [next((tmp_path / str(seed)).glob("*.json")) for seed in (0, 1, 2)]
    works("merge", *files[:2], "--output", nothing)
    works("merge", files[2], "--output", nothing)
    found = stored(nothing)
    assert [(r["seed"], r["run"]) for r in found.records] == [
        *((0, 0), (0, 0), (1, 1), (1, 1), (2, 2), (2, 2))
    ]
    assert set(found.arrays) == {"a", "b"}
    assert "got seed 2, a again" in refused("merge", files[2], "--output", nothing)
    works("merge", files[1], "--output", nothing, "--replace")
    again = stored(nothing)
    assert [(r["seed"], r["run"]) for r in again.records] == [
        *((0, 0), (0, 0), (2, 1), (2, 1), (1, 2), (1, 2))
    ]
    assert len(again.runs) == 3
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


def test_runs_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    lines = ["list", "no-such-study"]
    codes = run_lines(lines, tmp_path, jobs=2, seconds=120)
    assert all(codes)  # `list` has no folder for results
    assert "no-such-study" in (tmp_path / "1" / "log.txt").read_text()
    assert run_lines(["list"], tmp_path / "late", jobs=1, seconds=0) == [1]
    assert "out of time" in (tmp_path / "late" / "0" / "log.txt").read_text()
    assert cores() >= 1


def test_runs_may_differ_in_the_settings_of_models_that_one_lacks() -> None:
    full = {"models": ["paper", "nsf_mice"], "nsf_seconds": 1.0, "width": 2, "sets": []}
    without = {**full, "models": ["paper"]}
    missing = find("missing")
    assert results.shared_settings(missing, full, full) == ["nsf_seconds", "width"]
    assert results.shared_settings(missing, full, without) == ["width"]
    assert results.shared_settings(missing, without, full) == ["width"]


def test_full_results_are_shown_before_quick_ones(nothing: Path) -> None:
    works("run", "nothing", "--quick", "--output", nothing)
    assert "2 of 4" in page.measured(page.PAPER, nothing, nothing)
    works("run", "nothing", "--output", nothing)
    text = page.measured(page.PAPER, nothing, nothing)
    assert "4 of 4" in text
    command = "`python -m studies nothing --device cpu`; seeds 0, 1; "
    assert f"at the full size with:\n\n- {command}" in text


def test_a_page_is_written_between_its_marks(nothing: Path, tmp_path: Path) -> None:
    works("run", "nothing", "--output", nothing)
    written = tmp_path / f"{page.PAPER}.md"
    written.write_text("No marks.")
    with pytest.raises(SystemExit, match="Expected a page with the lines"):
        page.write(nothing, tmp_path)
    written.write_text(f"Before.\n{page.START}\nold\n{page.END}\nAfter.")
    page.write(nothing, tmp_path)
    text = written.read_text()
    assert text.startswith("Before.\n")
    assert "## Nothing" in text
    assert text.endswith("\nAfter.")


def test_the_name_of_a_study_runs_it(nothing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["nothing", "--quick", "--output", str(nothing)], "nothing_quick_"),
        (["list"], "nothing: Nothing (docs/experiments.md)"),
    ):
        with pytest.raises(SystemExit) as ended:
            command.main(words)
        assert not ended.value.code
        assert said in capsys.readouterr().out


def test_a_commit_without_git(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("MARGINALS_COMMIT", "abc123")
    works("run", "nothing", "--quick", "--output", nothing)
    assert stored(nothing).runs[0]["commit"] == "abc123"


def test_limits_count_the_seconds_of_this_process() -> None:
    module: Any = sys.modules["marginals.selection.search"]
    with machine.processor_seconds():
        assert module.time.monotonic is time.process_time
        assert module.time.perf_counter is time.perf_counter
    assert module.time is time


def test_the_best_is_bold() -> None:
    assert best_bold({"a": 1.0, "b": None}, 1, smaller=None) == {"a": "1.0", "b": ""}
    assert best_bold({"a": 1.0, "b": math.nan}, 1, smaller=False) == {"a": "**1.0**", "b": ""}
    assert best_bold({"a": None}, 1, smaller=True) == {"a": ""}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nought"], "Expected the name of a study to be among nothing; got 'nought'"),
        (["nothing", "--set", "widht=3"], "got 'widht'"),
        (["nothing", "--set", "most"], "Expected --set to be given key=value; got 'most'"),
        (["nothing", "--set", "most=many"], "Expected 'most' to be of type int"),
        (["nothing", "--set", "words=[1]"], "Expected 'words' to be of type str; got 1"),
        (["nothing", "--device", "abacus"], "got 'abacus'"),
        (["nothing", "--seeds", "a"], "Expected --seeds as whole numbers"),
        (["nothing", "--quick", "--tiny"], "Expected one of --full, --quick and --tiny"),
        (["tables", "nothing"], "Expected a result file of 'nothing'"),
    ],
)
def test_bad_words_are_refused(nothing: Path, words: list[str], told: str) -> None:
    if words[0] == "tables":
        assert told in refused(*words, "--results", nothing)
    else:
        assert told in refused("run", *words, "--output", nothing)
    assert not nothing.exists()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("[quick]", "[quick]\nrat = 1", r"keys of \[quick\] of nothing.toml .* got 'rat'"),
        ("[quick]", "[quicker]", "keys of nothing.toml .* got 'quicker'"),
        ("source", "sauce", r"keys of \[paper\] of nothing.toml .* got 'sauce'"),
        ("[quick]", "[quick]\nrate = true", "Expected 'rate' to be of type float; got True"),
    ],
)
def test_bad_keys_of_a_config_are_refused(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    (tmp_path / "nothing.toml").write_text(CONFIG.replace(before, after, 1))
    with pytest.raises(SystemExit, match=told):
        config.load(NOTHING, "quick", folder=tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_peak_memory_is_that_of_the_command() -> None:
    """A large parent does not count: the system's own figure is never below the parent's."""
    held = np.ones(130_000_000)  # 1 GB
    assert files.measured(["--version"])["peak_mb"] < 500
    assert held[0] == 1
