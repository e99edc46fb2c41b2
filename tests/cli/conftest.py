"""One small model for all tests of the command line, fitted by it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginals.cli import app

FIT = ["--ignore", "id", "--width", "8", "--set", "max_steps=40"]
COLUMNS = ["age", "income", "city", "rain", "day"]

Run = Callable[..., Any]


def make_table(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, rows)
    frame = pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(rows)],
            "age": pd.array(age, "Int64"),
            "income": (100 * np.exp(5 + 0.02 * age + 0.3 * rng.normal(size=rows))).round(2),
            "city": rng.choice(["Oslo", "Bergen", "007"], rows),
            "rain": np.where(rng.random(rows) < 0.4, 0, rng.exponential(3, rows).round(3)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
        }
    )
    for name in ("age", "income", "city", "day"):
        frame.loc[rng.random(rows) < 0.1, name] = pd.NA if name == "age" else None
    return frame


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table in three formats and a model."""
    folder = tmp_path_factory.mktemp("cli")
    table = make_table()
    table.to_csv(folder / "data.csv", index=False)
    table.to_parquet(folder / "data.parquet")
    table.to_feather(folder / "data.arrow")
    spec = "rain=continuous(lower=0, atoms={0})"
    done = CliRunner().invoke(
        app, ["fit", f"{folder}/data.csv", "-o", f"{folder}/model.mdma", "-c", spec, *FIT]
    )
    assert done.exit_code == 0, done.output
    (folder / "fit.txt").write_text(done.stderr)
    return folder


@pytest.fixture(scope="session")
def model(folder: Path) -> Any:
    from marginals.estimators.loading import load

    return load(folder / "model.mdma")


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in the folder and check how it ends."""
    monkeypatch.chdir(folder)

    def call(*arguments: str, code: int = 0, stdin: bytes | None = None) -> Any:
        done = CliRunner().invoke(app, list(arguments), input=stdin)
        assert done.exit_code == code, (done.output, done.exception)
        assert "Traceback" not in done.output or "--debug" in arguments
        return done

    return call
