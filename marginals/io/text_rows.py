"""Rows of a text table as they are written, so that what is not changed is not rewritten."""

import contextlib
import io
import itertools
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import pandas as pd

from marginals.io.safe_files import FileError
from marginals.io.stored_rows import Edit, check_distinct
from marginals.io.text_dialect import SEPARATORS, Dialect, recognise
from marginals.io.text_tables import Dtypes, read_text


@final
@dataclass(frozen=True)
class TextRows:
    """Some rows of a text table.

    Args:
        names: The names of the columns.
        header: The first record, without its line end.
        records: The rows, with their line ends.
        dialect: How they are written.
        added: The values of columns that an edit added.

    >>> rows = TextRows(("id", "x"), "id,x", ["001,1.10\\n", "NA,\\n"], Dialect())
    >>> rows.edited(Edit(fills={"x": {1: 2.5}}, after={"y": [0, 1]})).records
    ['001,1.10,0\\n', 'NA,2.5,1\\n']
    """

    names: tuple[str, ...]
    header: str
    records: Sequence[str]
    dialect: Dialect
    added: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.records)

    def frame(self, columns: Collection[str] | None = None, dtypes: Dtypes = None) -> pd.DataFrame:
        """Parse some columns, by default all, as if the file held these rows alone."""
        if columns is not None and not set(columns) & set(self.names):
            return pd.DataFrame(index=pd.RangeIndex(len(self)))
        lines = itertools.chain([self.header + self.dialect.newline], self.records)
        content = io.BytesIO("".join(lines).encode())
        frame = read_text(content, self.dialect, self.names, dtypes, columns=columns)
        if len(frame) != len(self):
            raise FileError(f"Expected {len(self)} rows; pandas finds {len(frame)} in them.")
        return frame

    def converted(self, dtypes: Mapping[str, Any]) -> pd.DataFrame:
        """Return all columns for another format: those in `dtypes` typed, others as text."""
        typed = self.frame([n for n in self.names if n in dtypes and n not in self.added], dtypes)
        data: dict[str, Any] = {name: typed[name] for name in typed.columns} | dict(self.added)
        data |= {name: self.texts(name) for name in self.names if name not in data}
        return pd.DataFrame(data, columns=list(self.names), index=typed.index)

    def texts(self, name: str) -> list[str]:
        """Return the text of each cell of a column."""
        place, dialect = self.names.index(name), self.dialect
        rows = (dialect.split(_body(record)) for record in self.records)
        return [dialect.unquoted(row[place]) if place < len(row) else "" for row in rows]

    def take(self, places: Sequence[int]) -> "TextRows":
        """Return some rows."""
        return replace(self, records=[self.records[place] for place in places])

    def joined(self, other: "TextRows") -> "TextRows":
        """Return these rows and then others of the same file."""
        return replace(self, records=[*self.records, *other.records])

    def edited(self, edit: Edit) -> "TextRows":
        """Return the rows with some cells, or columns, changed; all others as they are written."""
        keep = self.names if edit.keep is None else tuple(edit.keep)
        names = (*edit.before, *keep, *edit.after)
        check_distinct(names)
        places = [self.names.index(name) for name in keep]
        cell = self.dialect.cell
        fills: dict[int, dict[int, str]] = {}
        for name, filled in edit.fills.items():
            for row, value in filled.items():
                fills.setdefault(row, {})[self.names.index(name)] = cell(value)
        before = [[cell(value) for value in values] for values in edit.before.values()]
        after = [[cell(value) for value in values] for values in edit.after.values()]
        whole = keep == self.names and not edit.after  # after a short record a cell would shift

        def record(row: int) -> str:
            body = _body(self.records[row])
            own = fills.get(row)
            kept = [body] if whole and own is None else self._cells(body, places, own)
            cells = [*(new[row] for new in before), *kept, *(new[row] for new in after)]
            return self.dialect.join(cells) + self.records[row][len(body) :]

        kept = self._cells(self.header, places, None)
        header = self.dialect.join([*map(cell, edit.before), *kept, *map(cell, edit.after)])
        records = [record(row) for row in range(len(self))]
        return TextRows(names, header, records, self.dialect, {**edit.before, **edit.after})

    def written_as(self, kind: str) -> "TextRows":
        """Return the rows as a file of another kind holds them: the same texts, other quotes."""
        if kind == self.dialect.kind:
            return self
        other = replace(self.dialect, kind=kind, separator=SEPARATORS[kind])

        def convert(record: str) -> str:
            body = _body(record)
            texts = map(self.dialect.unquoted, self.dialect.split(body))
            return other.join(map(other.cell, texts)) + record[len(body) :]

        records = list(map(convert, self.records))
        return replace(self, header=convert(self.header), records=records, dialect=other)

    def _cells(
        self, record: str, places: Sequence[int], fills: Mapping[int, str] | None
    ) -> list[str]:
        """Return some cells of a record, with some replaced; a short record is missing its last."""
        cells = self.dialect.split(record)
        cells += [""] * (len(self.names) - len(cells))
        for place, text in (fills or {}).items():
            cells[place] = text
        return [cells[place] for place in places]


def text_rows(source: io.BufferedReader, kind: str, rows: int) -> Generator[TextRows, None, None]:
    """Read a text table in parts of at most `rows` rows; one without rows is one empty part."""
    layout = recognise(source, kind)
    names, dialect = layout.names, layout.dialect
    text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
    try:
        records = dialect.records(text)
        next(records)  # the header
        start = 0
        while (part := list(itertools.islice(records, rows))) or start == 0:
            for number, record in enumerate(part, start=start):
                _check_length(dialect, record, names, number)
            yield TextRows(names, layout.header, part, dialect)
            start += max(1, len(part))
    finally:
        with contextlib.suppress(ValueError):  # already closed
            text.detach()


@final
class TextSink:
    """Write a table in parts to an open text file.

    Args:
        file: The file.
        kind: "csv" or "tsv".
    """

    def __init__(self, file: Any, kind: str) -> None:
        self.file, self.kind = file, kind
        self.first, self.ended = True, True

    def append(self, part: pd.DataFrame | TextRows) -> None:
        """Write rows: those of a frame as text, those of a text table as they are written."""
        if isinstance(part, pd.DataFrame):
            options = {"sep": SEPARATORS[self.kind], "lineterminator": "\n"}
            part.to_csv(self.file, header=self.first, index=False, **options)
        else:
            self._append(part.written_as(self.kind))
        self.first = False

    def close(self) -> None:
        """Write what is buffered."""
        self.file.flush()

    def _append(self, rows: TextRows) -> None:
        newline = rows.dialect.newline
        if self.first:
            self.file.write("\ufeff" * rows.dialect.mark + rows.header + newline)
        if not self.ended and len(rows):  # the last line of a file may lack its end
            self.file.write(newline)
        self.file.write("".join(rows.records))
        self.ended = not len(rows) or rows.records[-1].endswith(("\n", "\r"))


def _body(record: str) -> str:
    """Return a record without its line end."""
    return record.rstrip("\r\n")


def _check_length(dialect: Dialect, record: str, names: Sequence[str], number: int) -> None:
    if record.count(dialect.separator) < len(names):
        return
    cells = dialect.split(_body(record))
    if any(cells[len(names) :]):
        raise FileError(
            f"Expected {len(names)} cells in each row, as in the header; got {len(cells)} in row "
            f"{number}, counted from 0. Quote cells that hold the separator "
            f"{dialect.separator!r}, or name every column in the header."
        )
