"""Print results: tables on a terminal, tab-separated text elsewhere, JSON for programs."""

import contextlib
import datetime
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on a line."""
    typer.echo(json.dumps(plain(content), ensure_ascii=False, allow_nan=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table: with rules on a terminal, else a header and cells separated by tabs."""
    cells = [[text(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(header), *cells]:
            typer.echo("\t".join(line))
        return
    from rich.console import Console

    Console().print(rich_table(header, cells))


def rich_table(header: Iterable[str], rows: Iterable[Iterable[str]], **style: Any) -> "Table":
    """Return a table for a terminal; `style` is passed to `rich.table.Table`."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(*map(escape, header), **style)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def note(message: str) -> None:
    """Print a message on stderr."""
    typer.echo(message, err=True)


@contextlib.contextmanager
def bar(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many rows are done; yield a function that adds to them."""
    from marginals.training.progress_bar import ProgressBar

    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        shown.update(done, total, f"{done} rows")

    with ProgressBar(None, label=label) as shown:
        yield advance


def text(value: Any) -> str:
    """Format a value: six digits on a terminal, all digits elsewhere.

    >>> text(0.1), text(3), text("Oslo"), text(None)
    ('0.1', '3', 'Oslo', '')
    """
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, float) and sys.stdout.isatty():
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(text, value))
    return str(value)


def plain(value: Any) -> Any:
    """Convert a value to JSON types; missing values become null and infinities strings.

    >>> plain({"a": float("nan"), "b": [float("-inf"), 1.5]})
    {'a': None, 'b': ['-inf', 1.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # a number of numpy, or a nested cell
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if str(value) in ("NaT", "<NA>"):
        return None
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def records(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts."""
    return [plain(row) for row in frame.to_dict("records")]
