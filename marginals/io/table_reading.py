"""Tables from files."""

import contextlib
import gzip
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from marginals.io.arrow_tables import column_names, columnar_batches, count_rows, read_columnar
from marginals.io.table_formats import SEPARATORS, FrameError, Path, explained, format_of, is_packed
from marginals.io.text_tables import read_text, text_batches


def read(
    path: Path,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Read a table.

    Args:
        path: the file; "-" for standard input.
        format: one of `FORMATS`; None for what the suffix says, and CSV for standard input.
        columns: the columns to read, in this order; None for all.
        dtypes: of text files, the types of columns that should not be guessed. Dates in ISO 8601
            are recognised.

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
    with opened(path, kind) as source, explained(path, kind):
        if kind in SEPARATORS:
            frame = read_text(source, kind, dtypes)
        else:
            frame = read_columnar(source, kind, columns)
    return chosen(frame, columns, path)


def batches(
    path: Path,
    rows: int = 65_536,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Iterator[pd.DataFrame]:
    """Read a table in batches of at most `rows` rows; a table without rows is one empty batch.

    The index counts through all batches. The other arguments are those of `read`. Columns of a text
    file that `dtypes` does not name are guessed anew in each batch.
    """
    if rows < 1:
        raise ValueError(f"Expected `rows` to be at least 1; got {rows}.")
    kind = format_of(path, format)
    start = 0
    with opened(path, kind) as source, explained(path, kind):
        if kind in SEPARATORS:
            frames = text_batches(source, kind, dtypes, rows)
        else:
            frames = columnar_batches(source, kind, columns, rows)
        with contextlib.closing(frames):  # before the file is
            for frame in frames:
                frame.index = pd.RangeIndex(start, start + len(frame))
                start += len(frame)
                yield chosen(frame, columns, path)


def count(path: Path, format: str | None = None) -> int | None:
    """Return the number of rows if the file says it, None if one would have to read it all."""
    kind = format_of(path, format)
    if kind != "parquet" or os.fspath(path) == "-":
        return None
    with opened(path, kind) as source, explained(path, kind):
        return count_rows(source)


def names(path: Path, format: str | None = None) -> list[str] | None:
    """Return the names of the columns, None for standard input, which can be read only once."""
    kind = format_of(path, format)
    if os.fspath(path) == "-":
        return None
    if kind in SEPARATORS:
        return [str(name) for name in next(batches(path, 1, kind)).columns]
    with opened(path, kind) as source, explained(path, kind):
        return column_names(source, kind)


@contextlib.contextmanager
def opened(path: Path, kind: str) -> Iterator[Any]:
    """Open the bytes of a text file; of another, give the path, or what came through the pipe."""
    name = os.fspath(path)
    if name == "-":
        pipe = sys.stdin.buffer
        yield pipe if kind in SEPARATORS else io.BytesIO(pipe.read())
        return
    _check_file(name)
    if kind not in SEPARATORS:
        yield name
        return
    with gzip.open(name, "rb") if is_packed(name) else open(name, "rb") as file:
        yield file


def _check_file(name: str) -> None:
    if not os.path.exists(name):
        raise FileNotFoundError(
            f"Expected a table at {name!r}; there is no such file. Check the path, from the folder "
            f"{os.getcwd()!r}."
        )
    if os.path.isdir(name):
        raise IsADirectoryError(f"Expected {name!r} to be a table; it is a folder. Name a file.")
    if os.path.isfile(name) and os.path.getsize(name) == 0:
        raise FrameError(f"Expected {name!r} to hold a table; the file is empty.")


def chosen(frame: pd.DataFrame, columns: Sequence[str] | None, path: Path) -> pd.DataFrame:
    """Return some columns of a table that was read from a file, all by default."""
    if columns is None:
        return frame
    known = list(frame.columns)
    absent = [name for name in columns if name not in known]
    if absent:
        raise FrameError(
            f"Expected {os.fspath(path)!r} to have the columns {absent}; it has none of these "
            f"names. Check the table's header."
        )
    return frame[list(columns)]
