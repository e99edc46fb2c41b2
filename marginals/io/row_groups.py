"""Tables in pieces: the row groups of one Parquet or Arrow file, or of all files in a folder.

A piece is the unit of work for a worker, and the same for every engine. It is read in batches
whose boundaries depend on the files alone, so that every engine computes with the same rows at a
time and gets the same numbers.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from marginals.io.addresses import (
    TableFile,
    is_address,
    is_folder,
    opened_address,
    table_files,
)
from marginals.io.arrow_tables import open_parquet, pyarrow
from marginals.io.safe_files import FileError, Path


@final
@dataclass(frozen=True)
class Piece:
    """Consecutive row groups of one file.

    Args:
        file: The file.
        groups: The numbers of its row groups; of an Arrow file, of its record batches.
        rows: The number of rows.
        start: The number of the first row in the whole table.
        batch: The number of the first batch in the whole table.
    """

    file: TableFile
    groups: tuple[int, ...]
    rows: int
    start: int
    batch: int


def is_in_pieces(path: Path) -> bool:
    """Say whether a table is read in pieces: it is a folder, or it has an address."""
    name = os.fspath(path)
    return name != "-" and (is_address(name) or is_folder(name))


def pieces(path: Path, rows: int, kind: str | None = None) -> list[Piece]:
    """Return the pieces of a table, in the order of its rows.

    Small row groups of one file are joined up to `rows` rows. A table without rows has one piece.

    Args:
        path: A file or a folder of files, local or remote.
        rows: The most rows of a batch.
        kind: "parquet" or "arrow", for one file without a suffix.
    """
    found: list[Piece] = []
    start = batch = 0
    files = table_files(path, kind)
    for file in files:
        for groups, count in _joined_groups(group_rows(file), rows):
            found.append(Piece(file, groups, count, start, batch))
            start += count
            batch += -(-count // rows)
    return found or [Piece(files[0], (), 0, 0, 0)]


def group_rows(file: TableFile) -> list[int]:
    """Return the number of rows in each row group, or record batch, of a file."""
    with _opened(file) as table:
        if file.kind == "parquet":
            metadata = table.metadata
            return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return [table.get_batch(i).num_rows for i in range(table.num_record_batches)]


def _joined_groups(sizes: Sequence[int], most: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield consecutive groups that together have at most `most` rows, or one larger group.

    >>> list(_joined_groups([3, 4, 0, 20, 1], 10))
    [((0, 1, 2), 7), ((3,), 20), ((4,), 1)]
    """
    held: list[int] = []
    count = 0
    for number, size in enumerate(sizes):
        if held and count + size > most:
            yield tuple(held), count
            held, count = [], 0
        held.append(number)
        count += size
    if count:
        yield tuple(held), count


def piece_batches(piece: Piece, rows: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the rows of a piece as Arrow tables of `rows` rows, the last one of the rest.

    Args:
        piece: The piece.
        rows: As given to `pieces`.
        columns: Those of these columns that exist are read; by default all.
    """
    pa = pyarrow()
    held: list[Any] = []
    count = 0
    with _opened(piece.file) as table:
        schema = table.schema_arrow if piece.file.kind == "parquet" else table.schema
        wanted = [n for n in schema.names if columns is None or n in columns]
        for batch in _record_batches(table, piece, wanted, rows):
            held.append(batch)
            count += batch.num_rows
            while count >= rows:
                ready = pa.Table.from_batches(held)
                yield ready.slice(0, rows)
                held, count = ready.slice(rows).to_batches(), count - rows
    if count or not piece.rows:
        kept = pa.schema([schema.field(name) for name in wanted], schema.metadata)
        yield pa.Table.from_batches(held, kept)


def table_schema(path: Path, kind: str | None = None) -> Any:
    """Return the Arrow schema of a table; refuse files of a folder that differ in columns."""
    found = None
    for file in table_files(path, kind):
        with _opened(file) as table:
            schema = table.schema_arrow if file.kind == "parquet" else table.schema
        if found is not None and schema.names != found.names:
            raise FileError(
                f"Expected all files of {os.fspath(path)!r} to have the columns {found.names}; got "
                f"{schema.names} in {file.address!r}. Move the other files to another folder."
            )
        found = found or schema
    return found


def _record_batches(table: Any, piece: Piece, columns: list[str], rows: int) -> Iterator[Any]:
    if piece.file.kind == "parquet" and piece.groups:
        yield from table.iter_batches(rows, row_groups=list(piece.groups), columns=columns)
        return
    yield from (table.get_batch(number).select(columns) for number in piece.groups)


@contextlib.contextmanager
def _opened(file: TableFile) -> Iterator[Any]:
    """Open a file as a `ParquetFile` or a `RecordBatchFileReader`."""
    with contextlib.ExitStack() as stack:
        source: Any
        if is_address(file.address):
            source = stack.enter_context(opened_address(file.address))
        else:
            source = stack.enter_context(pyarrow().OSFile(file.address))
        if file.kind == "parquet":
            yield stack.enter_context(open_parquet(source))
        else:
            yield pyarrow("ipc").open_file(source)
