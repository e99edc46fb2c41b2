"""A uniform random sample of a file of any size, and every category of the whole file."""

import contextlib
import itertools
import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.io.arrow_tables import is_listed, joined, select, table_batches, to_pandas, unique
from marginals.io.table_formats import SEPARATORS, FrameError, Path, explained, format_of
from marginals.io.table_reading import chosen, opened
from marginals.io.text_tables import Dtypes, is_text, raw_batches, read_text, retyped

_BATCH = 65_536  # rows read at a time
_MOST_CATEGORIES = 100_000  # a column of text with more distinct values is an identifier

Part = TypeVar("Part")


@final
@dataclass(frozen=True)
class Sample:
    """Rows of a table, and what the others held.

    Args:
        frame: the rows, in the order of the table.
        rows: of the whole table.
        categories: by column, the distinct values of the whole table, in order of appearance.
            There are none if `frame` is the whole table.
        crowded: columns of text with too many distinct values to be listed.
    """

    frame: pd.DataFrame
    rows: int
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    crowded: tuple[str, ...] = ()


def sample(
    path: Path,
    rows: int,
    seed: int = 0,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    *,
    listed: Collection[str] = (),
    ignored: Collection[str] = (),
) -> Sample:
    """Read a table that has at most `rows` rows, else so many drawn uniformly without replacement.

    The file is read in batches: memory is taken by the sample, whatever the size of the file. The
    categories of columns of text are collected from all rows.

    Args:
        path, format, columns, dtypes: as of `read`.
        rows: the most rows to keep.
        seed: the same seed gives the same rows.
        listed: columns whose distinct values are collected whatever their type.
        ignored: columns whose distinct values are not collected.
    """
    if rows < 1:
        raise ValueError(f"Expected `rows` to be at least 1; got {rows}.")
    kind = format_of(path, format)
    with opened(path, kind) as source, explained(path, kind):
        if kind in SEPARATORS:
            found = _from_text(source, kind, dtypes, rows, seed, _Wish(listed, ignored))
        else:
            tables = table_batches(source, kind, columns, _BATCH)
            first = next(tables)  # a table without rows is one empty batch
            chosen(to_pandas(first.slice(0, 0)), columns, path)  # raises if one is not there
            every = itertools.chain([first], tables)
            found = _from_tables(first.schema, every, rows, seed, _Wish(listed, ignored))
    return Sample(chosen(found.frame, columns, path), found.rows, found.categories, found.crowded)


@final
@dataclass(frozen=True)
class _Wish:
    """Which columns' distinct values are wanted."""

    listed: Collection[str]
    ignored: Collection[str]

    def of(self, name: str, text: bool) -> bool:
        return name not in self.ignored and (text or name in self.listed)


# Columnar files -------------------------------------------------------------------------------


def _from_tables(schema: Any, tables: Iterable[Any], rows: int, seed: int, wish: _Wish) -> Sample:
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise FrameError(f"Expected each column name once; got {twice[0]!r} twice. Rename one.")
    pool = Reservoir(rows, seed, select, joined)
    distinct = _Distinct(f.name for f in schema if wish.of(f.name, is_listed(f.type)))
    for table in tables:
        for name in distinct.open:
            distinct.add(name, unique(table.column(name)))
        pool.add(table, table.num_rows)
    frame = to_pandas(pool.parts())
    for name in distinct.open:
        if name in frame and isinstance(frame[name].dtype, pd.CategoricalDtype):
            # Categories of pandas' own come with the column, in its order.
            every = dict.fromkeys(frame[name].cat.categories) | distinct.found.pop(name)
            frame[name] = frame[name].cat.set_categories(list(every))
    return _sample(frame, pool.seen, distinct)


# Text -----------------------------------------------------------------------------------------


def _from_text(
    source: IO[bytes], kind: str, dtypes: Dtypes, rows: int, seed: int, wish: _Wish
) -> Sample:
    with _seekable(source) as file:
        start = read_text(file, kind, dtypes, rows + 1)
        if len(start) <= rows:  # it is all: types are guessed from the whole column
            return Sample(start, len(start))
        wanted = [name for name in start.columns if wish.of(name, is_text(start[name]))]
        del start
        file.seek(0)
        pool = Reservoir(rows, seed, _rows_of, _stacked)
        distinct = _Distinct(wanted)
        for batch in raw_batches(file, kind, _BATCH):
            for name in distinct.open:
                distinct.add(name, batch[name].unique())
            pool.add(batch, len(batch))
    # Types are guessed from the sample as they would be from a file of these rows.
    frame = retyped(pool.parts(), dtypes)
    for name, values in distinct.found.items():
        typed = retyped(pd.DataFrame({name: list(values)}), dtypes)[name] if len(values) else []
        distinct.found[name] = dict.fromkeys(value for value in typed if not pd.isna(value))
    return _sample(frame, pool.seen, distinct)


@contextlib.contextmanager
def _seekable(source: IO[bytes]) -> Iterator[IO[bytes]]:
    """Give a file that can be read twice: what comes through a pipe goes to disk first."""
    if source.seekable():
        yield source
        return
    with tempfile.TemporaryFile() as file:
        while block := source.read(1 << 20):
            file.write(block)
        file.seek(0)
        yield file


def _rows_of(frame: pd.DataFrame, mask: npt.NDArray[np.bool_]) -> pd.DataFrame:
    return frame[mask]


def _stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts)


# Parts ----------------------------------------------------------------------------------------


def _sample(frame: pd.DataFrame, rows: int, distinct: "_Distinct") -> Sample:
    if len(frame) == rows:
        return Sample(frame, rows)
    return Sample(frame, rows, {k: list(v) for k, v in distinct.found.items()}, distinct.crowded)


@final
class _Distinct:
    """Distinct values of columns, in order of appearance, of each column up to a number."""

    def __init__(self, names: Iterable[str]) -> None:
        self.found: dict[str, dict[Any, None]] = {name: {} for name in names}
        self.crowded: tuple[str, ...] = ()

    @property
    def open(self) -> list[str]:
        """The columns that are collected."""
        return list(self.found)

    def add(self, name: str, values: Iterable[Any]) -> None:
        """Take values that are distinct among themselves."""
        self.found[name].update(dict.fromkeys(values))
        if len(self.found[name]) > _MOST_CATEGORIES:
            del self.found[name]
            self.crowded += (name,)


@final
class Reservoir(Generic[Part]):
    """A uniform random sample of rows that come in parts.

    Each row draws a key, and the rows with the least keys stay. Which rows these are depends on the
    seed alone, not on how the rows are split into parts.

    Args:
        rows: how many stay.
        seed: of the keys.
        take: gives the rows of a part where a mask is true.
        join: makes one part of several.

    >>> pool = Reservoir(3, 0, lambda part, mask: part[mask], np.concatenate)
    >>> for start in range(0, 100, 10):
    ...     pool.add(np.arange(start, start + 10), 10)
    >>> len(pool.parts()), pool.seen
    (3, 100)
    """

    def __init__(
        self,
        rows: int,
        seed: int,
        take: Callable[[Part, npt.NDArray[np.bool_]], Part],
        join: Callable[[Sequence[Part]], Part],
    ) -> None:
        self.rows, self.seen = rows, 0
        self._take, self._join = take, join
        self._random = np.random.default_rng(seed)
        self._parts: list[Part] = []
        self._keys: list[npt.NDArray[np.float64]] = []
        self._held, self._highest = 0, math.inf

    def add(self, part: Part, count: int) -> None:
        """Take a part of `count` rows."""
        keys = self._random.random(count)
        keep = keys < self._highest
        self.seen += count
        # An empty part is kept once, for its columns.
        if not keep.any() and self._parts:
            return
        self._parts.append(part if keep.all() else self._take(part, keep))
        self._keys.append(keys[keep])
        self._held += int(keep.sum())
        if self._held > self.rows + max(self.rows // 2, _BATCH):
            self._shrink()

    def parts(self) -> Part:
        """Return the rows that stayed, in their order."""
        self._shrink()
        return self._parts[0]

    def _shrink(self) -> None:
        keys, part = np.concatenate(self._keys), self._join(self._parts)
        if len(keys) > self.rows:
            keep = np.zeros(len(keys), dtype=bool)
            keep[np.argpartition(keys, self.rows)[: self.rows]] = True
            keys, part = keys[keep], self._take(part, keep)
            self._highest = float(keys.max())
        self._parts, self._keys, self._held = [part], [keys], len(keys)
