"""Help, exit codes, and errors without tracebacks."""

import os
import subprocess
import sys
from typing import Any

import pytest

from marginals.cli import app, asking, main
from tests.cli.conftest import Run

COMMANDS = [
    *("fit", "info", "query", "score", "sample", "impute"),
    *("anomalies", "mi", "independence", "plot", "demo"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(run: Run, command: str) -> None:
    shown = " ".join(run(command, "--help").stdout.split())
    assert "Examples" in shown
    assert f"marginals {command}" in shown
    assert "--debug" in shown
    assert command in run("--help").stdout


def test_examples_keep_their_brackets(run: Run) -> None:
    assert "Q[0.05, 0.5, 0.95]" in run("query", "--help").stdout


def test_usage(run: Run) -> None:
    run("nonsense", code=2)
    run("info", code=2)
    run("fit", "data.csv", code=2)
    run("fit", "data.csv", "-o", "x", "--width", "no", code=2)
    assert run("--version").stdout.strip()


def fail(error: BaseException) -> Any:
    def load_model(path: str) -> None:
        raise error

    return load_model


def test_debug_shows_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "load_model", fail(ValueError("Expected this.")))
    assert run("query", "m", "E[x]", code=1).stderr == "Error: Expected this.\n"
    assert "Traceback" in run("query", "m", "E[x]", "--debug", code=1).stderr


def test_our_own_mistakes_are_called_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "load_model", fail(KeyError("x")))
    done = run("query", "m", "E[x]", code=1)
    assert done.stderr.startswith("Error: unexpected KeyError: 'x'. This is a mistake in marginals")


def test_interruption(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "load_model", fail(KeyboardInterrupt()))
    assert run("query", "m", "E[x]", code=130).stderr == "Interrupted.\n"


def test_interruption_between_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(app), "__call__", interrupt)
    monkeypatch.setattr("warnings.formatwarning", None)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


def test_the_program_runs(folder: Any) -> None:
    """As a process of its own: no traceback when the reader of a pipe goes away."""
    code = "from marginals.cli import main; main()"
    program = [sys.executable, "-c", code, "sample", f"{folder}/model.mdma", "5000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"age,")
        process.stdout.close()
        told = process.stderr.read()
        process.wait(60)
    assert b"Traceback" not in told
    assert process.returncode == 1
