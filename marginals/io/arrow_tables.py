"""Parquet and Arrow, by pyarrow."""

import importlib
import io
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pandas as pd

from marginals.io.table_formats import FrameError, Frames

_ARROW_FILE = b"ARROW1"  # how a file starts that is not a stream


def pyarrow(module: str = "") -> Any:
    """Import pyarrow or a part of it, which only these formats need."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise FrameError(
            "Expected pyarrow to be installed for Parquet and Arrow files; it is not. "
            "Run: pip install 'marginals[arrow]'."
        ) from error


def read_columnar(
    source: str | io.BytesIO, kind: str, columns: Sequence[str] | None
) -> pd.DataFrame:
    """Read a whole table; of Parquet, only those of `columns` that there are."""
    if kind == "parquet":
        file = _parquet(source)
        return to_pandas(file.read(_present(file, columns)))
    return to_pandas(_open_arrow(source).read_all())


def columnar_batches(
    source: str | io.BytesIO, kind: str, columns: Sequence[str] | None, rows: int
) -> Frames:
    """Read a table in batches; a table without rows is one empty batch."""
    for table in table_batches(source, kind, columns, rows):
        yield to_pandas(table)


def table_batches(
    source: str | io.BytesIO, kind: str, columns: Sequence[str] | None, rows: int
) -> Generator[Any, None, None]:
    """Read Arrow tables of at most `rows` rows; a table without rows is one empty batch."""
    reader = _open_parquet(source, columns, rows) if kind == "parquet" else _open_arrow(source)
    pa, empty = pyarrow(), True
    for batch in reader:
        for start in range(0, batch.num_rows, rows):
            empty = False
            yield pa.Table.from_batches([batch.slice(start, rows)])
    if empty:
        yield reader.schema.empty_table()


def count_rows(source: str | io.BytesIO) -> int:
    """Return the number of rows of a Parquet file."""
    return int(_parquet(source).metadata.num_rows)


def column_names(source: str | io.BytesIO, kind: str) -> list[str]:
    """Return the names of the columns, those of a stored index included."""
    schema = (
        _open_parquet(source, None, 1).schema if kind == "parquet" else _open_arrow(source).schema
    )
    return [str(name) for name in to_pandas(schema.empty_table()).columns]


def select(table: Any, mask: Any) -> Any:
    """Return the rows of an Arrow table where a mask is true."""
    return table.filter(pyarrow().array(mask))


def joined(tables: Sequence[Any]) -> Any:
    """Return Arrow tables as one, whose chunks share their dictionaries."""
    return pyarrow().concat_tables(tables).unify_dictionaries()


def unique(column: Any) -> list[Any]:
    """Return the distinct known values of an Arrow column; of a dictionary, all that it lists."""
    pa = pyarrow()
    if pa.types.is_dictionary(column.type):
        values = (value for chunk in column.chunks for value in chunk.dictionary.to_pylist())
        return [value for value in dict.fromkeys(values) if value is not None]
    return [value for value in column.unique().to_pylist() if value is not None]


def is_listed(arrow_type: Any) -> bool:
    """Say whether a column of an Arrow type holds categories: text, dictionaries and days."""
    types = pyarrow("types")
    text = types.is_string(arrow_type) or types.is_large_string(arrow_type)
    return bool(text or types.is_dictionary(arrow_type) or types.is_date(arrow_type))


def to_pandas(table: Any) -> pd.DataFrame:
    """Convert, keeping integers and truths with missing cells what they are."""
    pa = pyarrow()
    frame = table.to_pandas()
    if not isinstance(frame.index, pd.RangeIndex):  # a stored index with a name is a column
        frame = frame.reset_index(drop=frame.index.names == [None])
    for name, column in zip(table.column_names, table.columns, strict=True):
        nullable = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
        if nullable and column.null_count and name in frame.columns:
            frame[name] = column.to_pandas(types_mapper=_nullable)
    return frame


def _nullable(arrow_type: Any) -> Any:
    name = str(arrow_type)
    name = "boolean" if name == "bool" else name.replace("uint", "UInt").replace("int", "Int")
    return pd.api.types.pandas_dtype(name)


def _parquet(source: str | io.BytesIO) -> Any:
    # What is read ahead stays in memory until the file is closed: a large file would fill it.
    return pyarrow("parquet").ParquetFile(source, pre_buffer=False)


class _Batches:
    """Record batches and their schema."""

    def __init__(self, batches: Iterator[Any], schema: Any) -> None:
        self.batches = batches
        self.schema = schema

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)

    def read_all(self) -> Any:
        return pyarrow().Table.from_batches(list(self.batches), self.schema)


def _open_parquet(source: Any, columns: Sequence[str] | None, rows: int) -> _Batches:
    file = _parquet(source)
    chosen = _present(file, columns)
    schema = file.schema_arrow
    if chosen is not None:
        schema = pyarrow().schema([schema.field(name) for name in chosen], schema.metadata)
    return _Batches(file.iter_batches(rows, columns=chosen), schema)


def _present(file: Any, columns: Sequence[str] | None) -> list[str] | None:
    names = file.schema_arrow.names
    return None if columns is None else [name for name in columns if name in names]


def _open_arrow(source: str | io.BytesIO) -> _Batches:
    """Open a file, or a stream as it comes through a pipe."""
    pa, ipc = pyarrow(), pyarrow("ipc")
    handle = pa.OSFile(source) if isinstance(source, str) else pa.BufferReader(source.read())
    start = handle.read(len(_ARROW_FILE))
    handle.seek(0)
    if start != _ARROW_FILE:
        stream = ipc.open_stream(handle)
        return _Batches(iter(stream), stream.schema)
    file = ipc.open_file(handle)
    return _Batches(map(file.get_batch, range(file.num_record_batches)), file.schema)
