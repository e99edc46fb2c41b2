"""Run a job over a table on this machine, batch by batch."""

import functools
from collections.abc import Iterator

from marginals.engines.arrow_function import ArrowFunction
from marginals.engines.row_jobs import Rows
from marginals.io import tables
from marginals.io.safe_files import Path


def run(
    function: ArrowFunction, path: Path, format: str | None = None
) -> Iterator[tuple[int, list[Rows]]]:
    """Yield, for each batch of a table, how many rows were read and what came out.

    Args:
        function: the job of a model.
        path: a table file, "-", a folder of Parquet or Arrow files, or an address.
        format: the format of standard input and of files without a known suffix.
    """
    present = tables.names(path, format)
    wanted = None if present is None else function.columns(present)
    reading = functools.partial(tables.explained, path, tables.format_of(path, format))
    start = 0
    for number, rows in enumerate(tables.stored(path, function.most_rows, format, wanted)):
        yield len(rows), list(function.rows(rows, number, start, reading))
        start += len(rows)
