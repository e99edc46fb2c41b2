"""Tables into files, whole or not at all."""

import contextlib
import gzip
import os
import secrets
import sys
from types import TracebackType
from typing import Any, Protocol, final

import pandas as pd

from marginals.io.arrow_tables import pyarrow
from marginals.io.container import check_target
from marginals.io.table_formats import SEPARATORS, FrameError, Path, explained, format_of, is_packed


def write(frame: pd.DataFrame, path: Path, format: str | None = None) -> None:
    """Write a table, without its index; a file is replaced at the end or stays as it was.

    Args:
        frame: the table.
        path: the file; "-" for standard output.
        format: one of `FORMATS`; None for what the suffix says, and CSV for standard output.
    """
    with Writer(path, format) as writer:
        writer.append(frame)


@final
class Writer:
    """A file that takes a table in parts; a context manager.

    The file appears, or replaces the one that was there, when the context ends without an error.
    The first part decides the names and types of the columns.

    Args:
        path: the file; "-" for standard output.
        format: one of `FORMATS`; None for what the suffix says, and CSV for standard output.

    >>> import tempfile
    >>> from marginals.io.tables import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers.csv")
    ...     with Writer(path) as writer:
    ...         writer.append(pd.DataFrame({"n": [1, 2]}))
    ...         writer.append(pd.DataFrame({"n": [3]}))
    ...     read(path)["n"].tolist()
    [1, 2, 3]
    """

    def __init__(self, path: Path, format: str | None = None) -> None:
        self.path = os.fspath(path)
        self.kind = format_of(path, format)
        if self.kind not in SEPARATORS:
            pyarrow()  # says now that it is missing, not after an hour of work
        self.rows = 0
        self._columns: list[Any] | None = None

    def __enter__(self) -> "Writer":
        self._closing = contextlib.ExitStack()
        file = self._closing.enter_context(_output(self.path, self.kind))
        self._sink: _Sink
        if self.kind in SEPARATORS:
            self._sink = _TextSink(file, SEPARATORS[self.kind])
        else:
            self._sink = _ArrowSink(file, self.kind, stream=self.path == "-")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._closing:  # the file is replaced only if this succeeds
                self._sink.close()
            return
        with contextlib.suppress(Exception):  # pyarrow would close later, on a closed file
            self._sink.close()
        self._closing.__exit__(kind, error, trace)

    def append(self, frame: pd.DataFrame) -> None:
        """Write the rows of a part of the table."""
        columns = list(frame.columns)
        if self._columns is not None and columns != self._columns:
            raise FrameError(
                f"Expected each part to have the columns {self._columns}; got {columns}."
            )
        with explained(self.path, self.kind):
            self._sink.append(frame)
        self._columns = columns
        self.rows += len(frame)


class _Sink(Protocol):
    def append(self, frame: pd.DataFrame) -> None: ...

    def close(self) -> None: ...


@final
class _TextSink:
    def __init__(self, file: Any, separator: str) -> None:
        self.file = file
        self.separator = separator
        self.header = True

    def append(self, frame: pd.DataFrame) -> None:
        frame.to_csv(
            self.file, sep=self.separator, header=self.header, index=False, lineterminator="\n"
        )
        self.header = False

    def close(self) -> None:
        self.file.flush()


@final
class _ArrowSink:
    def __init__(self, file: Any, kind: str, stream: bool) -> None:
        self.file = file
        self.kind = kind
        self.stream = stream
        self.schema: Any = None
        self.writer: Any = None

    def append(self, frame: pd.DataFrame) -> None:
        frame = frame.rename(columns=str)  # as in the file
        table = pyarrow().Table.from_pandas(frame, schema=self.schema, preserve_index=False)
        if self.writer is None:
            self.schema = table.schema
            self.writer = self._open()
        self.writer.write_table(table)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.file.flush()

    def _open(self) -> Any:
        if self.kind == "parquet":
            return pyarrow("parquet").ParquetWriter(self.file, self.schema)
        ipc = pyarrow("ipc")
        return (ipc.new_stream if self.stream else ipc.new_file)(self.file, self.schema)


@contextlib.contextmanager
def _output(path: str, kind: str) -> Any:
    """Open a file that replaces `path` if the context ends without an error."""
    if path == "-":
        yield sys.stdout if kind in SEPARATORS else sys.stdout.buffer
        return
    target = os.path.realpath(path)
    check_target(target, "the output")
    if os.path.exists(target) and not os.path.isfile(target):
        with _opened(target, kind, is_packed(path)) as file:
            yield file  # a pipe or a device is written to, not replaced
        return
    folder, name = os.path.split(target)
    part = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.part")
    try:
        with _opened(part, kind, is_packed(path)) as file:
            yield file
        os.replace(part, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)


def _opened(path: str, kind: str, packed: bool) -> Any:
    if kind not in SEPARATORS:
        return open(path, "wb")
    if packed:
        return gzip.open(path, "wt", encoding="utf-8", newline="")
    return open(path, "w", encoding="utf-8", newline="")
