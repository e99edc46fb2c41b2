"""How a text table is written: its separator, decimal mark, line ends and quotes."""

import codecs
import datetime
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from marginals.io.safe_files import FileError
from marginals.io.stored_rows import check_distinct

SEPARATORS = {"csv": ",", "tsv": "\t"}
PEEK_BYTES = 1 << 20  # from which a dialect is recognised
_CANDIDATES = (",", ";", "\t", "|")
_SNIFFED_RECORDS = 200  # compared with the header to recognise a separator
_POINT = r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?"
_COMMA = r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?"
_WHOLE = r"[-+]?\d+|(?i:na|n/a|nan|null|none)?"  # the words for a missing number


@final
@dataclass(frozen=True)
class Dialect:
    """How a text table is written. A record is a line, or several if a quoted cell has line ends.

    Args:
        kind: "csv" or "tsv", as the file's suffix says.
        separator: The character between cells.
        decimal: The decimal mark in numbers.
        newline: The end of lines that are added.
        mark: Whether the file starts with a byte order mark.

    >>> dialect = Dialect("csv", ";", decimal=",")
    >>> dialect.split('1,5;"a;b";')
    ['1,5', '"a;b"', '']
    >>> dialect.unquoted('"a;b"'), dialect.cell("a;b"), dialect.cell(2.5)
    ('a;b', '"a;b"', '2,5')
    """

    kind: str = "csv"
    separator: str = ","
    decimal: str = "."
    newline: str = "\n"
    mark: bool = False

    def split(self, record: str) -> list[str]:
        """Return the cells of a record as they are written, with their quotes."""
        if '"' not in record:
            return record.split(self.separator)
        return [match.group(1) for match in self._cell.finditer(record)]

    def is_open(self, line: str, inside: bool) -> bool:
        """Say whether a line ends in a quoted cell, given whether it starts inside one."""
        if '"' not in line:
            return inside
        return self._open.match('"' + line if inside else line) is not None

    def unquoted(self, cell: str) -> str:
        """Return the text of a written cell."""
        if not cell.startswith('"'):
            return cell
        inner, rest = self._quoted.fullmatch(cell).groups()  # type: ignore[union-attr]
        return inner.replace('""', '"') + rest

    def cell(self, value: Any) -> str:
        """Return the cell that holds a value."""
        text = value if isinstance(value, str) else self._text(value)
        needs_quotes = any(character in text for character in (self.separator, '"', "\n", "\r"))
        return '"' + text.replace('"', '""') + '"' if needs_quotes else text

    def join(self, cells: Iterable[str]) -> str:
        """Return the record of written cells; a single empty cell gets quotes, as it must."""
        return self.separator.join(cells) or '""'

    def records(self, lines: Iterable[str]) -> Iterator[str]:
        """Join the lines of quoted cells with line ends, and skip blank lines, as pandas does."""
        blank = " \t\r\n".replace(self.separator, "")
        parts: list[str] = []
        for line in lines:
            if self.is_open(line, bool(parts)):
                parts.append(line)
            elif parts:
                yield "".join([*parts, line])
                parts = []
            elif line.strip(blank):
                yield line
        if parts:
            raise FileError(
                "Expected every quoted cell to end; got a file that ends inside one, which "
                f"starts with {parts[0][:60]!r}. Close the quotes."
            )

    def _text(self, value: Any) -> str:
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, float):
            return repr(value).replace(".", self.decimal)
        if isinstance(value, datetime.datetime) and value.tzinfo is None:
            return str(value).removesuffix(" 00:00:00")
        return str(value)

    @cached_property
    def _cell(self) -> re.Pattern[str]:
        return re.compile(f"(?:\\A|{re.escape(self.separator)})({self._written})", re.DOTALL)

    @cached_property
    def _open(self) -> re.Pattern[str]:
        separator = re.escape(self.separator)
        return re.compile(f'(?:{self._written}{separator})*"[^"]*(?:""[^"]*)*\\Z')

    @cached_property
    def _written(self) -> str:
        """A quoted cell and what may follow its quotes, or one without quotes at its start."""
        rest = f"[^{re.escape(self.separator)}\\r\\n]*"
        return f'(?:"[^"]*(?:""[^"]*)*"(?!"){rest}|(?!"){rest})'

    @cached_property
    def _quoted(self) -> re.Pattern[str]:
        return re.compile(r'"([^"]*(?:""[^"]*)*)"(?!")(.*)', re.DOTALL)


@final
@dataclass(frozen=True)
class Layout:
    """The dialect of a text table, its header as it is written, and the names of its columns."""

    dialect: Dialect
    header: str
    names: tuple[str, ...]


def recognise(source: io.BufferedReader, kind: str) -> Layout:
    """Find the layout of a text table from its start, which stays unread.

    Args:
        source: The file, open at its start with a buffer of `PEEK_BYTES`.
        kind: "csv", where the separator is one of , ; tab and |, or "tsv".
    """
    start = source.peek(PEEK_BYTES)[:PEEK_BYTES]
    mark = start.startswith(codecs.BOM_UTF8)
    whole = len(start) < PEEK_BYTES
    # A character may be cut at the end of the bytes.
    text = start.decode("utf-8-sig", errors="strict" if whole else "ignore")
    lines = list(io.StringIO(text, newline=""))[: None if whole else -1]
    separator = SEPARATORS[kind] if kind == "tsv" else _separator(lines)
    newline = next((end for end in ("\r\n", "\n", "\r") if lines and lines[0].endswith(end)), "\n")
    dialect = Dialect(kind, separator, newline=newline, mark=mark)
    records = _complete(dialect, lines)
    header = next(records, None)
    if header is None:
        raise FileError(
            "Expected a header with the names of the columns in the first line; got none. Add one."
        )
    header = header.rstrip("\r\n")
    names = column_names(map(dialect.unquoted, dialect.split(header)))
    decimal = _decimal(dialect, names, list(records)) if separator != "," else "."
    return Layout(Dialect(kind, separator, decimal, newline, mark), header, names)


def column_names(cells: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns; those without a name are called as pandas does."""
    names = tuple(cell or f"Unnamed: {place}" for place, cell in enumerate(cells))
    check_distinct(names)
    return names


def _complete(dialect: Dialect, lines: Iterable[str]) -> Iterator[str]:
    """Yield records; one that is cut off at the end of the lines is left out."""
    try:
        yield from dialect.records(lines)
    except FileError:
        return


def _separator(lines: Sequence[str]) -> str:
    """Return the separator that cuts the header and the next rows into the same number of cells."""
    return max(_CANDIDATES, key=lambda separator: _fitness(separator, lines))


def _fitness(separator: str, lines: Sequence[str]) -> tuple[int, int, int]:
    """Rate a separator: by the cells in whole rows, then by those that hold a number."""
    dialect = Dialect(separator=separator)
    records = itertools.islice(_complete(dialect, lines), _SNIFFED_RECORDS)
    rows = [dialect.split(record.rstrip("\r\n")) for record in records]
    width = len(rows[0]) if rows else 0
    alike = [row for row in rows[1:] if len(row) == width]
    if width < 2 or (len(rows) > 1 and not alike):
        return 0, 0, 0
    number = re.compile(f"{_WHOLE}|{_POINT}|{_COMMA}")
    numbers = sum(number.fullmatch(dialect.unquoted(cell)) is not None for r in alike for cell in r)
    return int(len(alike) == len(rows) - 1), width * max(1, len(alike)), numbers


def _decimal(dialect: Dialect, names: Sequence[str], records: Sequence[str]) -> str:
    """Return the decimal mark: a comma if a column of numbers has one."""
    rows = ([dialect.unquoted(cell) for cell in dialect.split(r.rstrip("\r\n"))] for r in records)
    columns = dict(zip(names, itertools.zip_longest(*rows, fillvalue=""), strict=False))
    commas = [name for name, cells in columns.items() if _are_numbers(cells, _COMMA)]
    points = [name for name, cells in columns.items() if _are_numbers(cells, _POINT)]
    if commas and points:
        raise FileError(
            f"Expected one decimal mark in all columns; got commas in {commas[0]!r} and points in "
            f"{points[0]!r}. Write all numbers with the same mark."
        )
    return "," if commas else "."


def _are_numbers(cells: Iterable[str], fraction: str) -> bool:
    """Say whether all cells hold numbers or nothing, and some a fraction."""
    found = Counter(
        "fraction" if re.fullmatch(fraction, cell) else re.fullmatch(_WHOLE, cell) is not None
        for cell in cells
    )
    return found["fraction"] > 0 and not found[False]
