"""Parquet and Arrow files by pyarrow, which only these formats need."""

import io
import os
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.io.stored_rows import Edit, check_distinct
from marginals.runtime.extras import optional

_ARROW_FILE = b"ARROW1"  # how a file starts; a stream, as it comes through a pipe, does not

Source = str | io.BytesIO  # a path, or the bytes that came through a pipe


def pyarrow(module: str = "") -> Any:
    """Import pyarrow or one of its modules."""
    return optional(f"pyarrow.{module}" if module else "pyarrow", "marginals[arrow]")


def open_parquet(source: Source) -> Any:
    """Open a Parquet file."""
    # Pages that are read ahead stay in memory until the file is closed: a large file would fill it.
    return pyarrow("parquet").ParquetFile(source, pre_buffer=False)


def is_arrow_stream(path: str) -> bool:
    """Say whether a local file holds Arrow's stream format, which can only be read in order."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_ARROW_FILE)) != _ARROW_FILE


def arrow_reader(source: Source, kind: str, columns: Sequence[str] | None, rows: int) -> Any:
    """Return a `pyarrow.RecordBatchReader`; of Parquet, with those of `columns` that exist."""
    reader = _reader(source, kind, columns, rows)
    check_distinct(reader.schema.names)
    return reader


def _reader(source: Source, kind: str, columns: Sequence[str] | None, rows: int) -> Any:
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
    frame = _signed_codes(table).to_pandas()
    if not isinstance(frame.index, pd.RangeIndex):  # a stored index with a name is a column
        frame = frame.reset_index(drop=frame.index.names == [None])
    for name, column in zip(table.column_names, table.columns, strict=True):
        nullable = types.is_integer(column.type) or types.is_boolean(column.type)
        if nullable and column.null_count and name in frame.columns:
            frame[name] = column.to_pandas(types_mapper=_nullable)
    return frame


def _signed_codes(table: Any) -> Any:
    """Return a table whose dictionaries have int32 codes: older pyarrow reads no others."""
    pa, types = pyarrow(), pyarrow("types")
    schema = table.schema
    for place, field in enumerate(table.schema):
        if types.is_dictionary(field.type) and types.is_unsigned_integer(field.type.index_type):
            signed = pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered)
            schema = schema.set(place, field.with_type(signed))
    return table if schema is table.schema else table.cast(schema)


def _nullable(arrow_type: Any) -> Any:
    name = str(arrow_type)
    name = "boolean" if name == "bool" else name.replace("uint", "UInt").replace("int", "Int")
    return pd.api.types.pandas_dtype(name)


@final
@dataclass(frozen=True)
class ArrowRows:
    """Some rows of a Parquet or Arrow file.

    Args:
        table: The `pyarrow.Table`.
    """

    table: Any

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.table.column_names)

    def frame(
        self, columns: Collection[str] | None = None, dtypes: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return some columns, by default all, as pandas holds them; `dtypes` is for text."""
        some = [name for name in self.names if columns is None or name in columns]
        return to_pandas(self.table.select(some))

    def converted(self, dtypes: Mapping[str, Any]) -> pd.DataFrame:
        """Return all columns for another format."""
        return self.frame()

    def take(self, places: Sequence[int]) -> "ArrowRows":
        """Return some rows."""
        return ArrowRows(self.table.take(list(places)))

    def joined(self, other: "ArrowRows") -> "ArrowRows":
        """Return these rows and then others of the same file."""
        return ArrowRows(pyarrow().concat_tables([self.table, other.table]))

    def edited(self, edit: Edit) -> "ArrowRows":
        """Return the rows with some cells, or columns, changed; copied columns keep their type."""
        table = self.table if edit.keep is None else self.table.select(list(edit.keep))
        check_distinct((*edit.before, *table.column_names, *edit.after))
        for name, fills in edit.fills.items():
            place = table.column_names.index(name)
            filled = _with_cells(table.column(place), fills)
            table = table.set_column(place, table.schema.field(place), filled)
        for place, (name, values) in enumerate(edit.before.items()):
            table = table.add_column(place, name, _with_text(pyarrow().array(values)))
        for name, values in edit.after.items():
            table = table.append_column(name, _with_text(pyarrow().array(values)))
        return ArrowRows(table)


def arrow_table(frame: pd.DataFrame, schema: Any = None) -> Any:
    """Return a frame as an Arrow table, of the types of a schema if one is given."""
    table = pyarrow().Table.from_pandas(frame, schema=schema, preserve_index=False)
    for place, name in enumerate(table.column_names):
        if schema is None and pyarrow("types").is_null(table.column(place).type):
            table = table.set_column(place, name, _with_text(table.column(place)))
    return table


def _with_text(values: Any) -> Any:
    """Return Arrow values of which none is known as text: pandas before 3 has no type for it."""
    null = pyarrow("types").is_null(values.type)
    return values.cast(pyarrow().string()) if null else values


def _with_cells(column: Any, fills: Mapping[int, Any]) -> Any:
    """Return a column with some cells replaced by values, in its own type."""
    if not fills:
        return column
    places = np.arange(len(column))
    places[list(fills)] = len(column) + np.arange(len(fills))
    new = _cast(pyarrow().array(list(fills.values()), from_pandas=True), column.type)
    both = pyarrow().chunked_array([*column.chunks, new], column.type)
    return both.take(pyarrow().array(places))


def _cast(values: Any, wanted: Any) -> Any:
    """Cast values to a type; numbers to the nearest integer, times to a coarser unit."""
    types = pyarrow("types")
    if types.is_dictionary(wanted):
        return _cast(values, wanted.value_type).dictionary_encode().cast(wanted)
    if types.is_integer(wanted) and types.is_floating(values.type):
        values = pyarrow("compute").round(values)
    if types.is_temporal(wanted) and types.is_temporal(values.type):
        return values.cast(wanted, safe=False)
    return values.cast(wanted, safe=not (types.is_floating(wanted) or types.is_decimal(wanted)))


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
        # A file, unlike a stream, holds one dictionary for each column, which may only grow.
        self.dictionaries: dict[str, Any] | None = {} if kind == "arrow" and not stream else None

    def append(self, part: pd.DataFrame | ArrowRows) -> None:
        """Write rows; the first part decides the types."""
        if isinstance(part, ArrowRows):
            table = part.table
        else:
            table = arrow_table(part.rename(columns=str), self.schema)  # names as in the file
        if self.writer is None:
            self.schema = table.schema
            self.writer = self._opened()
        self.writer.write_table(self._with_grown_dictionaries(table))

    def _opened(self) -> Any:
        if self.dictionaries is None:
            return self.open(self.file, self.schema)
        options = pyarrow("ipc").IpcWriteOptions(emit_dictionary_deltas=True)
        return self.open(self.file, self.schema, options=options)

    def _with_grown_dictionaries(self, table: Any) -> Any:
        if self.dictionaries is None:
            return table
        for place, field in enumerate(table.schema):
            if pyarrow("types").is_dictionary(field.type):
                known = self.dictionaries.get(field.name)
                column = _with_dictionary(table.column(place), known)
                table = table.set_column(place, field, column)
                if column.num_chunks:
                    self.dictionaries[field.name] = column.chunk(0).dictionary
        return table

    def close(self) -> None:
        """Write the end of the file."""
        if self.writer is not None:
            self.writer.close()
        self.file.flush()


def _with_dictionary(column: Any, known: Any) -> Any:
    """Return a dictionary column whose dictionary starts with the known one."""
    pa, compute = pyarrow(), pyarrow("compute")
    chunks = column.unify_dictionaries().chunks
    if known is None or not chunks:
        return pa.chunked_array(chunks, column.type)
    own = chunks[0].dictionary
    fresh = own.filter(compute.invert(compute.is_in(own, value_set=known)))
    grown = pa.concat_arrays([known, fresh])
    places = compute.index_in(own, value_set=grown).cast(column.type.index_type)
    kinds = {"ordered": column.type.ordered}
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(places.take(c.indices), grown, **kinds) for c in chunks],
        column.type,
    )
