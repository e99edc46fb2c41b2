"""Help, exit codes, errors without tracebacks, and quick starts."""

import os
import subprocess
import sys
from typing import Any

import pytest

from marginals.cli import app, asking, main
from tests.cli.conftest import Run

COMMANDS = [command.callback.__name__ for command in app.registered_commands]  # type: ignore
HEAVY = {"torch", "numpy", "scipy", "pandas", "sklearn", "pyarrow", "matplotlib"}
# Prints the heavy packages that are loaded after each command line.
LOADED = """
import sys
from typer.testing import CliRunner
from marginals.cli import app
for line in sys.argv[2:]:
    assert CliRunner().invoke(app, line.split()).exit_code == 0
    print(*(name for name in sys.argv[1].split() if name in sys.modules))
"""


def python(*arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout


def test_every_command_is_there() -> None:
    assert [
        *("fit", "info", "update", "check", "query", "score", "sample", "impute", "anomalies"),
        *("mi", "independence", "causal", "sql", "plot", "demo", "explore"),
    ] == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(run: Run, command: str) -> None:
    shown = " ".join(run(command, "--help").stdout.split())
    assert "Examples" in shown
    assert f"marginals {command}" in shown
    assert "--debug" in shown
    assert command in run("--help").stdout
    assert ("Q[0.05, 0.5, 0.95]" in shown) == (command == "query")  # brackets are no markup


def test_help_and_version_load_nothing_heavy() -> None:
    lines = ["--version", "--help", *(f"{command} --help" for command in COMMANDS)]
    assert python(LOADED, " ".join(HEAVY), *lines).split() == []


def test_queries_load_no_more_than_they_need(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    spared = "sklearn scipy matplotlib causallearn networkx torch._dynamo torch._inductor"
    rest = {"query": "E[income|age=40]", "sample": "3 --seed 1", "score": "data.csv"}
    lines = [f"{command} model.mdma {more}" for command, more in rest.items()]
    assert python(LOADED, spared, *lines).splitlines() == [""] * len(lines)


def test_usage(run: Run) -> None:
    run("nonsense", code=2)
    run("info", code=2)
    run("fit", "data.csv", code=2)
    run("fit", "data.csv", "-o", "x", "--width", "no", code=2)
    assert run("--version").stdout.strip()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("Expected this."), 1, "Error: Expected this.\n"),
        (KeyError("x"), 1, "Error: unexpected KeyError: 'x'. This is a bug in marginals"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
    ],
    ids=repr,
)
def test_errors(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    def fail(path: str) -> None:
        raise error

    monkeypatch.setattr(asking, "load_model", fail)
    assert run("query", "m", "E[x]", code=code).stderr.startswith(message)
    if code == 1:
        assert "Traceback" in run("query", "m", "E[x]", "--debug", code=1).stderr


def test_interruption_between_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(app), "__call__", interrupt)
    monkeypatch.setattr("warnings.formatwarning", None)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


def test_no_traceback_when_the_reader_of_a_pipe_leaves(folder: Any) -> None:
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
