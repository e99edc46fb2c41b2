"""Large files are sampled: uniformly, the same for one seed, with every category."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginals.cli import app
from marginals.io import row_sampling, tables
from marginals.io.row_sampling import Reservoir, sample
from marginals.io.safe_files import FileError
from tests.cli.conftest import make_table

SUFFIXES = ["csv", "tsv", "csv.gz", "parquet", "arrow"]


def written(frame: pd.DataFrame, path: Path) -> str:
    tables.write(frame, path)
    return str(path)


@pytest.fixture
def table() -> pd.DataFrame:
    """A category that only the last row has, a gap, and codes that are not numbers."""
    frame = make_table(500)
    frame["city"] = frame["city"].astype(object)
    frame.loc[499, "city"] = "Vardø"
    frame["grade"] = pd.Categorical(["low", "high"] * 250, ["low", "high"])
    return frame


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sampling, "BATCH_ROWS", 64)


# The reservoir --------------------------------------------------------------------------------


def drawn(rows: int, total: int, seed: int, part: int) -> list[int]:
    pool = Reservoir(rows, seed, lambda x, mask: x[mask], np.concatenate)
    for start in range(0, total, part):
        numbers = np.arange(start, min(start + part, total))
        pool.add(numbers, len(numbers))
    assert pool.seen == total
    return [int(number) for number in pool.rows_kept()]


@pytest.mark.parametrize("rows", [1, 10, 99, 100, 500])
def test_the_sample_depends_on_the_seed_alone(rows: int) -> None:
    once = drawn(rows, 100, 0, 7)
    assert once == drawn(rows, 100, 0, 100) == sorted(set(once))
    assert len(once) == min(rows, 100)
    if rows < 99:
        assert once != drawn(rows, 100, 1, 7)


def test_every_row_is_as_likely() -> None:
    counts = np.zeros(60)
    for seed in range(3000):
        counts[drawn(15, 60, seed, 9)] += 1
    # 3000 draws of probability 1/4: a standard deviation is 24, and six are beyond chance.
    assert np.abs(counts - 750).max() < 6 * 24


# Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("rows", [500, 10_000])
def test_a_small_file_is_read_whole(
    table: pd.DataFrame, tmp_path: Path, suffix: str, rows: int
) -> None:
    path = written(table, tmp_path / f"t.{suffix}")
    found = sample(path, rows)
    pd.testing.assert_frame_equal(found.frame, tables.read(path))
    assert (found.rows, found.categories, found.crowded) == (500, {}, ())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_large_file_is_sampled(table: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = written(table, tmp_path / f"t.{suffix}")
    found = sample(path, 100, seed=1)
    assert (len(found.frame), found.rows) == (100, 500)
    whole = tables.read(path)
    rows = whole[whole["id"].isin(found.frame["id"])].reset_index(drop=True)
    own = found.frame.reset_index(drop=True)
    rows["grade"] = rows["grade"].astype(own["grade"].dtype)
    pd.testing.assert_frame_equal(own, rows)
    assert set(found.categories["city"]) == {"Oslo", "Bergen", "007", "Vardø"}
    assert "age" not in found.categories
    assert "day" not in found.categories
    again = sample(path, 100, seed=1)
    pd.testing.assert_frame_equal(found.frame, again.frame)


def test_formats_agree_on_the_rows(table: pd.DataFrame, tmp_path: Path) -> None:
    found = [
        sample(written(table, tmp_path / f"t.{suffix}"), 50, seed=3).frame["id"].tolist()
        for suffix in SUFFIXES
    ]
    assert all(ids == found[0] for ids in found)


def test_columns_that_are_asked_for_or_ignored(table: pd.DataFrame, tmp_path: Path) -> None:
    path = written(table, tmp_path / "t.parquet")
    found = sample(path, 50, listed=["age"], ignored=["id", "city"])
    assert set(found.categories) == {"age"}
    assert set(found.categories["age"]) == set(table["age"].dropna())
    some = sample(path, 50, columns=["rain", "age"])
    assert list(some.frame) == ["rain", "age"]
    with pytest.raises(FileError, match="nowhere"):
        sample(path, 50, columns=["nowhere"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_identifiers_are_not_listed(
    table: pd.DataFrame, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sampling, "MOST_CATEGORIES", 100)
    found = sample(written(table, tmp_path / f"t.{suffix}"), 50)
    assert found.crowded == ("id",)
    assert "id" not in found.categories


def test_categories_keep_their_order(tmp_path: Path) -> None:
    grades = pd.Categorical(["low"] * 300 + ["high"], ["low", "middle", "high"], ordered=True)
    frame = pd.DataFrame({"grade": grades, "x": np.arange(301.0)})
    found = sample(written(frame, tmp_path / "t.parquet"), 20)
    assert found.frame["grade"].dtype == frame["grade"].dtype


def test_text_is_read_as_from_a_file_of_the_sample(tmp_path: Path) -> None:
    cells = ['"a, b"', '"say ""hi"""', '"two\nlines"', "NA", "", " x", "007"]
    lines = [f"{cells[i % 7]},{i}" for i in range(140)]
    (tmp_path / "t.csv").write_text("text,n\n" + "\n".join(lines) + "\n")
    found = sample(tmp_path / "t.csv", 70)
    whole = tables.read(tmp_path / "t.csv")
    rows = whole[whole["n"].isin(found.frame["n"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(found.frame, rows)
    assert set(found.categories["text"]) == {"a, b", 'say "hi"', "two\nlines", " x", "007"}


def test_one_column_of_text_with_gaps(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\n" + 'a\n""\nb\n' * 40)
    found = sample(tmp_path / "t.csv", 30)
    assert (len(found.frame), found.rows) == (30, 120)
    assert found.categories == {"text": ["a", "b"]}


def test_a_pipe(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    class Input:
        buffer = Pipe(table.to_csv(index=False).encode())

    monkeypatch.setattr("sys.stdin", Input)
    found = sample("-", 40)
    assert (len(found.frame), found.rows) == (40, 500)


def test_rows_are_counted() -> None:
    with pytest.raises(ValueError, match="Expected `rows` to be at least 1; got 0"):
        sample("t.csv", 0)


# The command ----------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (done.output, done.exception)
    return done


FIT = ["--ignore", "id", "--width", "4", "--set", "max_steps=3", "--rows", "60", "--no-stream"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_fit_knows_the_categories_of_all_rows(
    table: pd.DataFrame, tmp_path: Path, suffix: str
) -> None:
    data, model = written(table, tmp_path / f"t.{suffix}"), str(tmp_path / "m")
    done = run("fit", data, "-o", model, *FIT)
    assert done.stderr.startswith("Fitted 60 rows, a random sample of 500, of 6 columns in ")
    shown = json.loads(run("info", model, "--json").stdout)["schema"]
    city = next(column for column in shown if column["column"] == "city")
    assert city["values"] == "4: 007, Bergen, Oslo, Vardø"
    scores = run("score", model, data).stdout.split()
    assert len(scores) == 501
    assert run("query", model, "P(city = 'Vardø')").stdout


def test_fit_is_the_same_for_a_seed(table: pd.DataFrame, tmp_path: Path) -> None:
    data = written(table, tmp_path / "t.parquet")
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run("fit", data, "-o", str(tmp_path / name), "--seed", seed, *FIT)
    told = [run("score", str(tmp_path / name), data).stdout for name in "abc"]
    assert told[0] == told[1] != told[2]


def test_declared_categories_and_a_validation_file(table: pd.DataFrame, tmp_path: Path) -> None:
    data, model = written(table, tmp_path / "t.parquet"), str(tmp_path / "m")
    options = ["-c", "age=categorical", "--validation", data, "--json", *FIT]
    facts = json.loads(run("fit", data, "-o", model, *options).stdout)
    assert (facts["rows"], facts["rows_in_file"]) == (60, 500)
    assert isinstance(facts["validation_log_density"], float)
    shown = json.loads(run("info", model, "--json").stdout)["schema"]
    count = table["age"].nunique()
    assert shown[0]["values"].startswith(f"{count}: ")
