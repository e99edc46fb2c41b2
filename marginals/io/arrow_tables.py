"""Parquet and Arrow files by pyarrow, which only these formats need."""

import importlib
import io
from collections.abc import Generator, Sequence
from typing import Any, final

import pandas as pd

from marginals.io.safe_files import FileError

_ARROW_FILE = b"ARROW1"  # how a file starts; a stream, as it comes through a pipe, does not

Source = str | io.BytesIO  # a path, or the bytes that came through a pipe


def pyarrow(module: str = "") -> Any:
    """Import pyarrow or one of its modules."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise FileError(
            "Expected pyarrow to be installed for Parquet and Arrow files; it is not. "
            "Run: pip install 'marginals[arrow]'."
        ) from error


def open_parquet(source: Source) -> Any:
    """Open a Parquet file."""
    # Pages that are read ahead stay in memory until the file is closed: a large file would fill it.
    return pyarrow("parquet").ParquetFile(source, pre_buffer=False)


def arrow_reader(source: Source, kind: str, columns: Sequence[str] | None, rows: int) -> Any:
    """Return a `pyarrow.RecordBatchReader`; of Parquet, with those of `columns` that exist."""
    pa, ipc = pyarrow(), pyarrow("ipc")
    if kind == "parquet":
        file = open_parquet(source)
        schema, chosen = file.schema_arrow, None
        if columns is not None:
            schema = pa.schema([f for f in schema if f.name in columns], schema.metadata)
            chosen = schema.names
        return pa.RecordBatchReader.from_batches(schema, file.iter_batches(rows, columns=chosen))
    handle = pa.OSFile(source) if isinstance(source, str) else pa.BufferReader(source.read())
    is_file = handle.read(len(_ARROW_FILE)) == _ARROW_FILE
    handle.seek(0)
    if not is_file:
        return ipc.open_stream(handle)
    file = ipc.open_file(handle)
    return pa.RecordBatchReader.from_batches(
        file.schema, map(file.get_batch, range(file.num_record_batches))
    )


def arrow_batches(
    source: Source, kind: str, columns: Sequence[str] | None, rows: int
) -> Generator[Any, None, None]:
    """Yield Arrow tables of at most `rows` rows; a table without rows is one empty batch."""
    reader = arrow_reader(source, kind, columns, rows)
    empty = True
    for batch in reader:
        for start in range(0, batch.num_rows, rows):
            empty = False
            yield pyarrow().Table.from_batches([batch.slice(start, rows)])
    if empty:
        yield reader.schema.empty_table()


def distinct_values(column: Any) -> list[Any]:
    """Return the distinct values of an Arrow column; of a dictionary, all that it lists."""
    if pyarrow("types").is_dictionary(column.type):
        listed = (value for chunk in column.chunks for value in chunk.dictionary.to_pylist())
        values = list(dict.fromkeys(listed))
    else:
        values = column.unique().to_pylist()
    return [value for value in values if value is not None]


def is_categorical(arrow_type: Any) -> bool:
    """Say whether a column of an Arrow type holds categories: text, dictionaries or days."""
    types = pyarrow("types")
    text = types.is_string(arrow_type) or types.is_large_string(arrow_type)
    return bool(text or types.is_dictionary(arrow_type) or types.is_date(arrow_type))


def to_pandas(table: Any) -> pd.DataFrame:
    """Convert an Arrow table; integers and booleans with missing cells keep their type."""
    types = pyarrow("types")
    frame = table.to_pandas()
    if not isinstance(frame.index, pd.RangeIndex):  # a stored index with a name is a column
        frame = frame.reset_index(drop=frame.index.names == [None])
    for name, column in zip(table.column_names, table.columns, strict=True):
        nullable = types.is_integer(column.type) or types.is_boolean(column.type)
        if nullable and column.null_count and name in frame.columns:
            frame[name] = column.to_pandas(types_mapper=_nullable)
    return frame


def _nullable(arrow_type: Any) -> Any:
    name = str(arrow_type)
    name = "boolean" if name == "bool" else name.replace("uint", "UInt").replace("int", "Int")
    return pd.api.types.pandas_dtype(name)


@final
class ArrowSink:
    """Write a table in parts to an open binary file.

    Args:
        file: The file.
        kind: "parquet" or "arrow".
        stream: Whether to write Arrow's stream format, which a pipe needs.
    """

    def __init__(self, file: Any, kind: str, stream: bool) -> None:
        if kind == "parquet":
            self.open = pyarrow("parquet").ParquetWriter
        else:
            ipc = pyarrow("ipc")
            self.open = ipc.new_stream if stream else ipc.new_file
        self.file = file
        self.schema: Any = None
        self.writer: Any = None

    def append(self, frame: pd.DataFrame) -> None:
        """Write rows; the first part decides the types."""
        frame = frame.rename(columns=str)  # as in the file
        table = pyarrow().Table.from_pandas(frame, schema=self.schema, preserve_index=False)
        if self.writer is None:
            self.schema = table.schema
            self.writer = self.open(self.file, self.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        """Write the end of the file."""
        if self.writer is not None:
            self.writer.close()
        self.file.flush()
