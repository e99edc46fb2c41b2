"""What an edit does not change comes back byte for byte, in chunks of any size."""

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from marginals.io.arrow_tables import ArrowRows
from marginals.io.safe_files import FileError
from marginals.io.stored_rows import Edit
from marginals.io.tables import batches, names, read, stored, writing
from marginals.io.text_rows import TextRows
from tests.examples import examples

CELLS = st.text(st.sampled_from(list(',;|\t"\n\r ') + list("001.5NAaØ-'#\\\u2028\x0b")), max_size=6)
QUOTING = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])


def copied(source: Path, target: Path, rows: int = 2, edit: Edit | None = None) -> bytes:
    with writing(target) as append:
        start = 0
        for part in stored(source, rows):
            append(part if edit is None else part.edited(_slice(edit, start, len(part))))
            start += len(part)
    return target.read_bytes()


def _slice(edit: Edit, start: int, count: int) -> Edit:
    def own(fills: Any) -> dict[int, Any]:
        return {row - start: v for row, v in fills.items() if start <= row < start + count}

    return Edit(
        edit.keep,
        {name: own(fills) for name, fills in edit.fills.items()},
        {name: values[start : start + count] for name, values in edit.before.items()},
        {name: values[start : start + count] for name, values in edit.after.items()},
    )


# Text -----------------------------------------------------------------------------------------


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=7),
    quoting=QUOTING,
    suffix=st.sampled_from(["csv", "tsv"]),
    newline=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    cut=st.booleans(),
    rows=st.integers(1, 4),
)
def test_random_cells_come_back(
    tmp_path: Path,
    table: list[list[str]],
    quoting: Any,
    suffix: str,
    newline: str,
    mark: bool,
    cut: bool,
    rows: int,
) -> None:
    separator = "," if suffix == "csv" else "\t"
    out = io.StringIO()
    if any("\r" in cell for row in table for cell in row):
        quoting = csv.QUOTE_ALL  # the writer would not quote a line end other than its own
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator=newline)
    writer.writerows([["id", "x", "a b"], *table])
    text = out.getvalue().removesuffix(newline) if cut and table else out.getvalue()
    path, target = tmp_path / f"t.{suffix}", tmp_path / f"u.{suffix}"
    path.write_bytes(("\ufeff" * mark + text).encode())
    assert copied(path, target, rows) == path.read_bytes()

    wanted = [list(row) for row in table]
    fills = {row: f"new {row}" for row in range(0, len(table), 2)}
    for row, value in fills.items():
        wanted[row][1] = value
    counts = list(range(len(table)))
    edit = Edit(fills={"x": fills}, after={"n": counts})
    other = tmp_path / ("u.tsv" if suffix == "csv" else "u.csv")
    for path_out, mid in ((target, separator), (other, "\t" if suffix == "csv" else ",")):
        content = copied(path, path_out, rows, edit).decode("utf-8-sig")
        found = list(csv.reader(io.StringIO(content, newline=""), delimiter=mid))
        assert found == [["id", "x", "a b", "n"], *([*w, str(n)] for n, w in enumerate(wanted))]


def test_lines_without_changes_keep_their_quotes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    content = b'"id",x,y\r\n"001",1.10,"NA"\r\n\'7, ,""\r\n5" pipe,"a""b"c,\r\nshort\r\n9,1,2'
    path.write_bytes(content)
    assert copied(path, tmp_path / "u.csv") == content
    edit = Edit(fills={"y": {1: 0.1, 3: 2}}, before={"k": [0, 1, 2, 3, 4]})
    assert copied(path, tmp_path / "u.csv", 1, edit) == (
        b'k,"id",x,y\r\n0,"001",1.10,"NA"\r\n1,\'7, ,0.1\r\n2,5" pipe,"a""b"c,\r\n3,short,,2\r\n'
        b"4,9,1,2"
    )
    twice = Edit(keep=["y", "id"], after={"k": [0, 1, 2, 3, 4]})
    lines = copied(path, tmp_path / "u.csv", 3, twice).splitlines()
    assert lines[0] == b'y,"id",k'
    assert lines[4] == b",short,3"


def test_text_becomes_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,n,at\n001,1,2024-01-01\nNA,,2024-01-02\n,3,\n")
    (rows,) = stored(path)
    types = {"n": "Int64", "at": "datetime64[ns]"}
    frame = rows.edited(Edit(fills={"n": {1: 2}}, after={"s": [0.5, 1.0, 1.5]})).converted(types)
    assert frame["id"].tolist() == ["001", "NA", ""]
    assert frame["n"].tolist() == [1, 2, 3]
    assert frame["at"].dtype.kind == "M"
    assert frame["s"].tolist() == [0.5, 1.0, 1.5]
    assert [len(rows.take([2, 0])), len(rows.joined(rows))] == [2, 6]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("a;b\n1,5;x\n-2,25;y\n", {"a": [1.5, -2.25], "b": ["x", "y"]}),
        ("a;b\n1.5;x,y\n2;z\n", {"a": [1.5, 2.0], "b": ["x,y", "z"]}),
        ("a\tb\n1,5\t2\n", {"a": [1.5], "b": [2]}),
        ("a|b\n1|2\n", {"a": [1], "b": [2]}),
        ("a,b;c\n1,2\n", {"a": [1], "b;c": [2]}),
        ('x;"y, cm"\n1;2,5\n3;\n', {"x": [1, 3], "y, cm": [2.5, np.nan]}),
        ("age;height, cm\n1;2,5\n3;NA\n", {"age": [1, 3], "height, cm": [2.5, np.nan]}),
        ("a\n1\n2\n", {"a": [1, 2]}),
        ("a;b\n", {"a": [], "b": []}),
        ('name,note\nx,"a;b;c"\ny,"d;e;f"\n', {"name": ["x", "y"], "note": ["a;b;c", "d;e;f"]}),
    ],
)
def test_dialects_are_recognised(tmp_path: Path, content: str, wanted: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    assert names(path) == list(wanted)
    frame = pd.DataFrame(wanted)
    for found in (read(path), pd.concat(batches(path, 1)).astype(read(path).dtypes)):
        pd.testing.assert_frame_equal(found, frame, check_dtype=False, check_index_type=False)
    (rows,) = stored(path)
    assert isinstance(rows, TextRows)
    assert copied(path, tmp_path / "u.csv") == content.encode()
    number = Edit(after={"z": [0.5] * len(rows)})
    copied(path, tmp_path / "u.csv", 100, number)
    assert read(tmp_path / "u.csv")["z"].tolist() == [0.5] * len(rows)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b,a,b,c\n1,2,3,4,5\n", r"'a', 'b' more than once"),
        ("a;b\n1,5;2.5\n", "decimal mark.*commas in 'a' and points in 'b'"),
        ("a,b\n1,2\n1,2,3\n", "3"),
        ("a,b\n1,2,3\n", "t.csv"),
    ],
)
def test_tables_that_would_be_misread_are_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    for attempt in (lambda: read(path), lambda: list(batches(path)), lambda: list(stored(path))):
        with pytest.raises(FileError, match=words):
            attempt()


def test_an_added_column_needs_a_new_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    (rows,) = stored(path)
    for each in (rows, ArrowRows(pa.table({"a": [1], "b": [2]}))):
        with pytest.raises(FileError, match="'b' more than once"):
            each.edited(Edit(after={"b": [1]}))


# Arrow ----------------------------------------------------------------------------------------


def arrow_table() -> pa.Table:
    times = pd.to_datetime(["2024-01-01 00:00:01", None, "2024-03-31 01:30"], format="ISO8601")
    columns = {
        "big": pa.array([2**60 + 1, None, -(2**62)], pa.int64()),
        "small": pa.array([1, None, 3], pa.uint8()),
        "price": pa.array([Decimal("1.10"), None, Decimal("2.00")], pa.decimal128(9, 2)),
        "at": pa.array(times.tz_localize("UTC"), pa.timestamp("ms", "Europe/Oslo")),
        "day": pa.array([1, None, 3], pa.date32()),
        "took": pa.array([1, None, 3], pa.duration("us")),
        "city": pa.array(["a", None, "b"], pa.large_string()),
        "kind": pa.array(["x", None, "y"])
        .dictionary_encode()
        .cast(pa.dictionary(pa.int32(), pa.string())),
        "ok": pa.array([True, None, False]),
        "half": pa.array([0.5, None, 1.5], pa.float32()),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int16())),
        "pair": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
        "blob": pa.array([b"\xff", None, b""]),
    }
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields, {"who": "me"}))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_arrow_columns_keep_their_types(tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / f"t.{suffix}", tmp_path / f"u.{suffix}"
    write = pa.parquet.write_table if suffix == "parquet" else pa.feather.write_feather
    load = pa.parquet.read_table if suffix == "parquet" else pa.feather.read_table
    write(arrow_table(), source)
    before = load(source)
    copied(source, target)
    assert load(target).equals(before, check_metadata=suffix == "arrow")
    new = pd.Timestamp("2024-02-02 12:00:00.123456789")
    values = {
        "big": 2**61 + 3,
        "small": 2.6,
        "price": 1.239,
        "at": new.tz_localize("UTC"),
        "day": new,
        "took": pd.Timedelta("1s"),
        "city": "c",
        "kind": "z",
        "ok": True,
        "half": 0.25,
    }
    edit = Edit(fills={name: {1: value} for name, value in values.items()}, after={"n": [0, 1, 2]})
    copied(source, target, 1, edit)
    after = load(target)
    assert after.schema.types == [*before.schema.types, pa.int64()]
    wanted = before.to_pylist()
    filled = after.to_pylist()[1]
    assert [{k: v for k, v in row.items() if k != "n"} for row in after.to_pylist()[::2]] == wanted[
        ::2
    ]
    assert (filled["big"], filled["small"], filled["price"]) == (2**61 + 3, 3, Decimal("1.24"))
    assert (filled["city"], filled["kind"], filled["ok"], filled["half"]) == ("c", "z", True, 0.25)
    assert filled["at"] == new.floor("ms").tz_localize("UTC")
    assert filled["day"] == new.date()


def test_arrow_tables_with_equal_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = [pa.array([1]), pa.array([2])]
    pa.parquet.write_table(pa.Table.from_arrays(columns, names=["a", "a"]), path)
    for attempt in (lambda: read(path), lambda: list(stored(path))):
        with pytest.raises(FileError, match="'a' more than once"):
            attempt()
