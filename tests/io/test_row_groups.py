"""Tables in pieces: folders and addresses are tables like any file."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from marginals.io import row_sampling, tables
from marginals.io.row_groups import piece_batches, pieces
from marginals.io.safe_files import FileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({"x": list(range(100)), "y": [f"v{i % 7}" for i in range(100)]})
    pq.write_table(table.slice(0, 50), tmp_path / "a.parquet", row_group_size=8)
    (tmp_path / "b").mkdir()
    pq.write_table(table.slice(50, 30), tmp_path / "b" / "c.parquet", row_group_size=30)
    feather.write_feather(table.slice(80), str(tmp_path / "d.arrow"), chunksize=6)
    (tmp_path / "_metadata.parquet").write_bytes(b"not a table")
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_pieces_hold_all_rows_in_order(folder: Path, prefix: str) -> None:
    found = pieces(f"{prefix}{folder}", 20)
    assert [(p.rows, p.start, p.batch) for p in found] == [
        *[(16, 0, 0), (16, 16, 1), (18, 32, 2), (30, 50, 3), (20, 80, 5)],
    ]
    batches = [batch for piece in found for batch in piece_batches(piece, 20)]
    assert [b.num_rows for b in batches] == [16, 16, 18, 20, 10, 20]
    assert [x for b in batches for x in b.column("x").to_pylist()] == list(range(100))
    (few,) = piece_batches(found[0], 20, ["y", "z"])
    assert few.column_names == ["y"]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_folders_are_tables(folder: Path, prefix: str) -> None:
    path = f"{prefix}{folder}"
    assert tables.read(path)["x"].tolist() == list(range(100))
    assert tables.names(path) == ["x", "y"]
    assert tables.count(path) == 100
    assert [len(b) for b in tables.batches(path, 20)] == [16, 16, 18, 20, 10, 20]
    found = row_sampling.sample(path, 10)
    assert (found.rows, len(found.frame)) == (100, 10)
    assert sorted(found.categories["y"]) == [f"v{i}" for i in range(7)]


def test_tables_without_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "a.parquet")
    assert [p.rows for p in pieces(tmp_path, 5)] == [0]
    assert tables.read(tmp_path).shape == (0, 1)
    assert tables.names(tmp_path) == ["x"]


def test_folders_that_are_no_tables(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(IsADirectoryError, match="without Parquet or Arrow"):
        tables.read(tmp_path / "empty")
    pq.write_table(pa.table({"z": [1]}), folder / "z.parquet")
    with pytest.raises(FileError, match=r"z\.parquet"):
        tables.read(folder)
    with pytest.raises(FileNotFoundError, match="there is none"):
        tables.read(f"file://{tmp_path}/absent.parquet")
    with pytest.raises(FileError, match="address"):
        tables.read("nowhere://bucket/t.parquet")


def test_one_file_is_read_like_a_folder(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": range(50)})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=8)
    path = tmp_path / "t.parquet"
    assert [len(b) for b in tables.batches(path, 20)] == [16, 16, 18]
