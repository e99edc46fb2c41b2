"""Tables survive the way through files, whole and in batches."""

import gzip
import io
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginals.io.safe_files import FileError
from marginals.io.tables import FORMATS, batches, count, names, read, write, writing

SUFFIXES = ["csv", "tsv", "csv.gz", "parquet", "arrow", "feather"]


@pytest.fixture
def table() -> pd.DataFrame:
    days = pd.to_datetime(
        ["2024-01-31", None, "2024-02-29 12:30", "2023-12-31", "2024-01-01"], format="ISO8601"
    )
    return pd.DataFrame(
        {
            "n": [1, 2, 3, 4, 5],
            "x": [0.1, np.nan, 1e300, -1e-300, 3.0],
            "city": ["Oslo", "Bergen", None, 'a,"b"\n', "\tØ"],
            "home town": [True, False, True, True, False],
            "day": days,
        }
    )


def same(left: pd.DataFrame, right: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(left, right, check_dtype=False, check_exact=True)


def append_all(
    path: Path | str,
    *parts: pd.DataFrame,
    error: BaseException | None = None,
    format: str | None = None,
) -> None:
    with writing(path, format) as append:
        for part in parts:
            append(part)
        if error is not None:
            raise error


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(table: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table.{suffix}"
    write(table, path)
    again = read(path)
    same(again, table)
    assert again["day"].dtype.kind == "M"
    assert again["n"].dtype == np.int64
    assert os.listdir(tmp_path) == [path.name]
    assert names(path) == list(table.columns)
    assert count(path) == (5 if suffix == "parquet" else None)
    assert (names("-"), count("-", "parquet")) == (None, None)
    some = ["city", "n"]
    same(read(path, columns=some), table[some])
    same(pd.concat(batches(path, 2, columns=some)), table[some])
    for attempt in (read, lambda path, columns: list(batches(path, columns=columns))):
        with pytest.raises(FileError, match=r"columns \['m'\]"):
            attempt(path, columns=["n", "m"])


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation:FutureWarning")
@pytest.mark.parametrize("rows", [1, 2, 5, 100])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_batches(table: pd.DataFrame, tmp_path: Path, suffix: str, rows: int) -> None:
    path = tmp_path / f"table.{suffix}"
    append_all(path, table[:3], table[3:])
    parts = list(batches(path, rows))
    assert all(len(part) <= rows for part in parts)
    assert [i for part in parts for i in part.index] == [0, 1, 2, 3, 4]
    same(pd.concat(parts).astype({"x": float}), table)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_without_rows(table: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table.{suffix}"
    write(table[:0], path)
    (only,) = batches(path)
    for empty in (read(path), only):
        assert (len(empty), list(empty.columns)) == (0, list(table.columns))


# Types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_integers_and_truths_with_gaps_stay_what_they_are(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    table = pd.DataFrame(
        {
            "i": pd.array([2**60 + 1, None], "Int64"),
            "u": pd.array([7, None], "UInt8"),
            "b": pd.array([True, None], "boolean"),
            "c": pd.Categorical(["a", None]),
        }
    )
    write(table, path)
    pd.testing.assert_frame_equal(read(path), table)


def test_text_types(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("code,day,flag,when,mixed\n007,2024-01-31,True,12:00,2024-01-31\n8,,,,x\n")
    frame = read(path)
    assert frame["code"].dtype == np.int64
    assert frame["day"].dtype.kind == "M"
    assert frame["flag"].dtype == "boolean"
    assert frame["mixed"].dtype.kind != "M"
    types = {"code": str, "day": str, "absent": str}
    told = read(path, dtypes=types)
    assert told["code"].tolist() == ["007", "8"]
    assert told["day"][0] == "2024-01-31"
    parts = [part["code"].iloc[0] for part in batches(path, 1, dtypes=types)]
    assert parts == ["007", "8"]


def test_times_by_their_type(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("at,took\n2024-06-01T12:00:00+02:00,1 days\n2024-01-01T12:00:00+01:00,\n")
    # Two offsets have no common type.
    assert read(path)["at"].tolist()[0] == "2024-06-01T12:00:00+02:00"
    frame = read(path, dtypes={"at": "datetime64[ns, Europe/Oslo]", "took": "timedelta64[ns]"})
    assert str(frame["at"].dtype) == "datetime64[ns, Europe/Oslo]"
    assert frame["at"].dt.hour.tolist() == [12, 12]
    assert frame["took"][0] == pd.Timedelta("1 days")
    with pytest.raises(FileError, match="'took' to hold times"):
        read(path, dtypes={"took": "datetime64[ns]"})


def test_a_mark_before_the_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffa,b\n1,2\n".encode())
    assert list(read(path).columns) == ["a", "b"]


def test_a_stored_index_becomes_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="id")).to_parquet(path)
    assert read(path).columns.tolist() == ["id", "x"]
    assert next(batches(path, 1)).columns.tolist() == ["id", "x"]


# Pipes ----------------------------------------------------------------------------------------


class Pipe:
    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)

    def write(self, text: str) -> None:
        self.buffer.write(text.encode())

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_pipes(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, format: str | None) -> None:
    out = Pipe()
    monkeypatch.setattr(sys, "stdout", out)
    append_all("-", table[:2], table[2:], format=format)
    monkeypatch.undo()
    data = out.buffer.getvalue()
    monkeypatch.setattr(sys, "stdin", Pipe(data))
    same(read("-", format), table)
    monkeypatch.setattr(sys, "stdin", Pipe(data))
    same(pd.concat(batches("-", 2, format)), table)


def test_a_device_is_written_to(table: pd.DataFrame) -> None:
    write(table, "/dev/null", "csv")
    assert Path("/dev/null").is_char_device()


# Errors ---------------------------------------------------------------------------------------


def test_unknown_suffix(tmp_path: Path) -> None:
    for name in ("t.xlsx", "t", "t.parquet.gz"):
        with pytest.raises(FileError, match=r"\.csv, \.tsv, \.parquet"):
            read(tmp_path / name)
    with pytest.raises(FileError, match="one of"):
        read("t.csv", "xlsx")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        read(tmp_path / "t.csv")
    with pytest.raises(FileNotFoundError, match="Create"):
        write(pd.DataFrame({"a": [1]}), tmp_path / "absent" / "t.csv")
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"):
        read(tmp_path / "t.csv")
    with pytest.raises(IsADirectoryError, match="folder"):
        write(pd.DataFrame({"a": [1]}), tmp_path / "t.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"\n", b"ARROW1\x00\x00junk", b"\xff\xfe\x00,\n\x80"])
def test_damaged_files(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(content)
    if content and suffix.startswith(("csv", "tsv")) and content.startswith(b"ARROW1"):
        content = gzip.compress(b"a,b\n1,2\n")[:-6] if suffix.endswith("gz") else b'a\n"b'
        path.write_bytes(content)
    for attempt in (lambda: read(path), lambda: list(batches(path))):
        with pytest.raises((FileError, OSError)) as caught:
            attempt()
        assert str(path) in str(caught.value) or "gzip" in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    numbers = pd.DataFrame({"a": [1]})
    with pytest.raises(FileError, match="each part"):
        append_all(path, numbers, pd.DataFrame({"b": [1]}))
    if suffix in ("parquet", "arrow"):
        with pytest.raises(FileError):
            append_all(path, numbers, pd.DataFrame({"a": ["x"]}))
    assert os.listdir(tmp_path) == []
    write(numbers, path)
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        append_all(path, numbers + 1, error=KeyboardInterrupt())
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        pytest.raises(ImportError, match=r'pyarrow.* Run: pip install "marginals\[arrow\]"'),
        writing(tmp_path / "t.parquet"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_rows_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(iter(batches("t.csv", 0)))


def test_memory_is_bounded_by_row_groups(tmp_path: Path) -> None:
    import pyarrow as pa

    path = tmp_path / "long.parquet"
    rows = 20_000
    part = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 4)))
    append_all(path, *[part] * 30)
    start = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() - start for _ in batches(path, 5000))
    assert most < 4 * rows * 4 * 8  # a few row groups, of thirty
