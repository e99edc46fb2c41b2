"""Table files: CSV, TSV, Parquet and Arrow, whole or in batches, by the file's suffix.

The path "-" is standard input or output. A folder of Parquet or Arrow files is one table, and so
is any address that pyarrow can open. Reading and writing in batches take memory for one batch (of
Parquet, for one row group), whatever the size of the file.
"""

import contextlib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from marginals.io.addresses import TABLE_SUFFIXES, table_files
from marginals.io.arrow_tables import (
    ArrowRows,
    ArrowSink,
    arrow_batches,
    is_arrow_stream,
    pyarrow,
    to_pandas,
)
from marginals.io.row_groups import group_rows, is_in_pieces, piece_batches, pieces, table_schema
from marginals.io.safe_files import FileError, Path, replacing
from marginals.io.stored_rows import StoredRows, check_distinct
from marginals.io.text_dialect import PEEK_BYTES, SEPARATORS, recognise
from marginals.io.text_rows import TextRows, TextSink, text_rows
from marginals.io.text_tables import read_text

FORMATS = ("csv", "tsv", "parquet", "arrow")
_SUFFIXES = {".csv": "csv", ".tsv": "tsv", **TABLE_SUFFIXES}


def format_of(path: Path, format: str | None = None) -> str:
    """Return the format that a file's suffix names, else `format`.

    Standard input and output have no suffix, and are CSV by default.

    >>> format_of("data.csv.gz"), format_of("data.feather"), format_of("-"), format_of("-", "tsv")
    ('csv', 'arrow', 'csv', 'tsv')
    """
    if format not in (None, *FORMATS):
        raise FileError(f"Expected the format to be one of {FORMATS}; got {format!r}.")
    name = os.fspath(path).lower()
    if is_in_pieces(path):
        return table_files(path, format)[0].kind
    kind = _SUFFIXES.get(os.path.splitext(name.removesuffix(".gz"))[1])
    if _is_gzip(name) and kind not in SEPARATORS:
        kind = None
    kind = kind or format or ("csv" if name == "-" else None)
    if kind is None:
        raise FileError(
            f"Expected the name of a table to end in one of {', '.join(_SUFFIXES)}, .csv.gz or "
            f".tsv.gz; got {os.fspath(path)!r}. Rename the file or choose a format of "
            f"{', '.join(FORMATS)}."
        )
    return kind


# Reading --------------------------------------------------------------------------------------


def read(
    path: Path,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Read a table.

    Args:
        path: The file; "-" for standard input.
        format: One of `FORMATS`, for standard input and files without a known suffix.
        columns: The columns to read, in this order; by default all.
        dtypes: Types of columns in text files, which are inferred otherwise. Dates in ISO 8601 are
            recognised.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cities.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("city,founded\\nOslo,1040\\n")
    ...     print(read(path))
       city  founded
    0  Oslo     1040
    """
    kind = format_of(path, format)
    with opened(path, kind) as source:
        if kind in SEPARATORS:
            layout = recognise(source, kind)
            frame = read_text(source, layout.dialect, layout.names, dtypes)
        else:
            parts = list(arrow_parts(source, kind, columns, 1 << 20))
            frame = to_pandas(pyarrow().concat_tables(parts).unify_dictionaries())
    return selected(frame, columns, path)


def batches(
    path: Path,
    rows: int = 65_536,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Iterator[pd.DataFrame]:
    """Read a table in batches of at most `rows` rows; a table without rows is one empty batch.

    The index counts through all batches. The other arguments are those of `read`. Columns of a text
    file that `dtypes` does not name are inferred again in each batch.
    """
    start = 0
    with contextlib.closing(stored(path, rows, format, columns)) as parts:
        for part in parts:
            with explained(path, format_of(path, format)):
                frame = part.frame(columns, dtypes)
            frame.index = pd.RangeIndex(start, start + len(frame))
            start += len(frame)
            yield selected(frame, columns, path)


def stored(
    path: Path,
    rows: int = 65_536,
    format: str | None = None,
    columns: Sequence[str] | None = None,
) -> Generator[StoredRows, None, None]:
    """Read a table in batches, as the file stores it; a table without rows is one empty batch.

    Parquet is read only where it holds `columns`; the other arguments are those of `batches`.
    """
    if rows < 1:
        raise ValueError(f"Expected `rows` to be at least 1; got {rows}.")
    kind = format_of(path, format)
    with opened(path, kind) as source:
        parts: Any
        if kind in SEPARATORS:
            parts = text_rows(source, kind, rows)
        else:
            parts = arrow_parts(source, kind, columns, rows)
        with contextlib.closing(parts):  # before the file is closed
            for part in parts:
                yield part if kind in SEPARATORS else ArrowRows(part)


def arrow_parts(
    source: Any, kind: str, columns: Sequence[str] | None, rows: int
) -> Generator[Any, None, None]:
    """Yield Arrow tables of at most `rows` rows; a table without rows is one empty batch.

    Args:
        source: What `opened` yields.
        kind: "parquet" or "arrow".
        columns: Those of these columns that exist are read; by default all.
        rows: The most rows of a part.
    """
    if not isinstance(source, str) or (kind == "arrow" and is_arrow_stream(source)):
        yield from arrow_batches(source, kind, columns, rows)
        return
    check_distinct(table_schema(source, kind).names)
    for piece in pieces(source, rows, kind):
        yield from piece_batches(piece, rows, columns)


def count(path: Path, format: str | None = None) -> int | None:
    """Return the number of rows if the file states it; None if one would have to read it all."""
    kind = format_of(path, format)
    if kind != "parquet" or os.fspath(path) == "-":
        return None
    with opened(path, kind):
        return sum(sum(group_rows(file)) for file in table_files(path, kind))


def names(path: Path, format: str | None = None) -> list[str] | None:
    """Return the names of the columns; None for standard input, which can be read only once."""
    kind = format_of(path, format)
    if os.fspath(path) == "-":
        return None
    if kind in SEPARATORS:
        with opened(path, kind) as source:
            return list(recognise(source, kind).names)
    with opened(path, kind) as source:
        first = next(arrow_parts(source, kind, None, 1))
        return [str(name) for name in to_pandas(first.slice(0, 0)).columns]


@contextlib.contextmanager
def opened(path: Path, kind: str) -> Iterator[Any]:
    """Open the bytes of a text file; of another, yield the path, or the bytes from the pipe."""
    name = os.fspath(path)
    with explained(path, kind):
        if name == "-":
            pipe = sys.stdin.buffer
            if kind in SEPARATORS:
                with peekable(pipe) as file:
                    yield file
            else:
                yield io.BytesIO(pipe.read())
            return
        if not is_in_pieces(name):
            _check_file(name)
        if kind not in SEPARATORS:
            yield name
            return
        with (
            gzip.open(name, "rb") if _is_gzip(name) else open(name, "rb") as bytes_,
            peekable(bytes_) as file,
        ):
            yield file


@contextlib.contextmanager
def peekable(source: Any) -> Iterator[io.BufferedReader]:
    """Yield a reader that can look ahead, and leave `source` open."""
    file = io.BufferedReader(source, PEEK_BYTES)
    try:
        yield file
    finally:
        with contextlib.suppress(ValueError):  # closed by a reader that failed
            file.detach()


@contextlib.contextmanager
def explained(path: Path, kind: str) -> Iterator[None]:
    """Name the file when a library's error gives only the reason."""
    try:
        yield
    except FileError as error:
        if os.fspath(path) in str(error):
            raise
        raise FileError(f"In {os.fspath(path)!r}: {error}") from error
    except (ValueError, TypeError, NotImplementedError, EOFError, zlib.error) as error:
        raise FileError(
            f"Expected {os.fspath(path)!r} to be a table in the format {kind}; got otherwise "
            f"({error}). Check the file, or choose its format."
        ) from error


def selected(frame: pd.DataFrame, columns: Sequence[str] | None, path: Path) -> pd.DataFrame:
    """Return some columns of a table that was read from a file; by default all."""
    if columns is None:
        return frame
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise FileError(
            f"Expected {os.fspath(path)!r} to have the columns {absent}; it does not. Check the "
            "table's header."
        )
    return frame[list(columns)]


def _check_file(name: str) -> None:
    if not os.path.exists(name):
        raise FileNotFoundError(
            f"Expected a table at {name!r}; there is no such file. Check the path, from the folder "
            f"{os.getcwd()!r}."
        )
    if os.path.isdir(name):
        raise IsADirectoryError(f"Expected {name!r} to be a table; it is a folder. Name a file.")
    if os.path.isfile(name) and os.path.getsize(name) == 0:
        raise FileError(f"Expected {name!r} to hold a table; the file is empty.")


def _is_gzip(name: str) -> bool:
    return name.lower().endswith(".gz")


# Writing --------------------------------------------------------------------------------------


def write(frame: pd.DataFrame, path: Path, format: str | None = None) -> None:
    """Write a table without its index; see `writing`."""
    with writing(path, format) as append:
        append(frame)


@contextlib.contextmanager
def writing(
    path: Path, format: str | None = None, dtypes: Mapping[str, Any] | None = None
) -> Iterator[Callable[[pd.DataFrame | StoredRows], None]]:
    """Open a file for a table in parts, and yield the function that appends one.

    The file appears, or replaces an old one, when the context ends without an error. The first part
    decides the names and types of the columns. Rows that were read with `stored` are copied as they
    are, if both files are text or neither is.

    Args:
        path: The file; "-" for standard output.
        format: One of `FORMATS`, for standard output and files without a known suffix.
        dtypes: Types of columns that come from text to Parquet or Arrow; others stay text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers.csv")
    ...     with writing(path) as append:
    ...         append(pd.DataFrame({"n": [1, 2]}))
    ...         append(pd.DataFrame({"n": [3]}))
    ...     read(path)["n"].tolist()
    [1, 2, 3]
    """
    kind = format_of(path, format)
    if kind not in SEPARATORS:
        pyarrow()  # if it is missing, say so before an hour of work
    columns: list[Any] = []

    def append(part: pd.DataFrame | StoredRows) -> None:
        names = list(part.columns if isinstance(part, pd.DataFrame) else part.names)
        columns[:] = columns or names
        if names != columns:
            raise FileError(f"Expected each part to have the columns {columns}; got {names}.")
        with explained(path, kind):
            own = pd.DataFrame | (TextRows if kind in SEPARATORS else ArrowRows)
            sink.append(part if isinstance(part, own) else part.converted(dtypes or {}))

    with _output(os.fspath(path), kind) as file:
        sink = (
            TextSink(file, kind)
            if kind in SEPARATORS
            else ArrowSink(file, kind, stream=os.fspath(path) == "-")
        )
        try:
            yield append
        except BaseException:
            with contextlib.suppress(Exception):  # pyarrow would close later, on a closed file
                sink.close()
            raise
        sink.close()


@contextlib.contextmanager
def _output(path: str, kind: str) -> Iterator[Any]:
    """Open the file or standard output, as text or bytes."""
    if path == "-":
        yield sys.stdout if kind in SEPARATORS else sys.stdout.buffer
        return
    with replacing(path, "the output") as file:
        if kind not in SEPARATORS:
            yield file
            return
        packed = gzip.GzipFile("", "wb", fileobj=file) if _is_gzip(path) else file
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        try:
            yield text
        finally:
            text.detach()  # flushes, and leaves `file` open
            if packed is not file:
                packed.close()
