"""A uniform random sample of a file of any size, and the categories of the whole file."""

import contextlib
import io
import itertools
import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.io.arrow_tables import distinct_values, is_categorical, pyarrow, to_pandas
from marginals.io.safe_files import Path
from marginals.io.tables import arrow_parts, format_of, opened, peekable, selected
from marginals.io.text_dialect import SEPARATORS, recognise
from marginals.io.text_tables import Dtypes, is_text, raw_batches, read_text, retyped

BATCH_ROWS = 65_536  # read at a time
MOST_CATEGORIES = 100_000  # a text column with more distinct values is an identifier

Part = TypeVar("Part")
Mask = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True)
class Sample:
    """Rows of a table, and what the rest of the table held.

    Args:
        frame: The rows, in the table's order.
        rows: The number of rows in the whole table.
        categories: By column, the distinct values in the whole table, in order of appearance; empty
            if `frame` is the whole table.
        crowded: Text columns with too many distinct values to list.
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
    watch: Callable[[Any], None] | None = None,
) -> Sample:
    """Read a table, or draw `rows` of its rows uniformly without replacement if it has more.

    The file is read in batches: memory holds the sample, whatever the size of the file. The
    categories of text columns are collected from all rows.

    Args:
        path, format, columns, dtypes: As in `marginals.io.tables.read`.
        rows: The most rows to keep.
        seed: The same seed gives the same rows.
        listed: Columns whose distinct values are collected whatever their type.
        ignored: Columns whose distinct values are not collected.
        watch: Called with each batch of a Parquet or Arrow table, an Arrow table.
    """
    if rows < 1:
        raise ValueError(f"Expected `rows` to be at least 1; got {rows}.")
    kind = format_of(path, format)

    def wanted(name: str, categorical: bool) -> bool:
        return name not in ignored and (categorical or name in listed)

    with opened(path, kind) as source:
        if kind in SEPARATORS:
            found = _from_text(source, kind, dtypes, rows, seed, wanted)
        else:
            parts = arrow_parts(source, kind, columns, BATCH_ROWS)
            first = next(parts)  # a table without rows is one empty batch
            selected(to_pandas(first.slice(0, 0)), columns, path)  # raises if a column is absent
            every: Iterable[Any] = itertools.chain([first], parts)
            every = every if watch is None else _watched(every, watch)
            found = _from_arrow(first.schema, every, rows, seed, wanted)
    frame = selected(found.frame, columns, path)
    return Sample(frame, found.rows, found.categories, found.crowded)


def _watched(tables: Iterable[Any], watch: Callable[[Any], None]) -> Iterator[Any]:
    for table in tables:
        watch(table)
        yield table


Wanted = Callable[[str, bool], bool]  # by a column's name and whether it holds categories


def _from_arrow(schema: Any, tables: Iterable[Any], rows: int, seed: int, wanted: Wanted) -> Sample:
    pool = Reservoir(rows, seed, _select_arrow, _join_arrow)
    distinct = _Distinct(f.name for f in schema if wanted(f.name, is_categorical(f.type)))
    for table in tables:
        for name in list(distinct.found):
            distinct.add(name, distinct_values(table.column(name)))
        pool.add(table, table.num_rows)
    frame = to_pandas(pool.rows_kept())
    for name in list(distinct.found):
        if name in frame and isinstance(frame[name].dtype, pd.CategoricalDtype):
            # A pandas category carries its categories, in their order.
            every = dict.fromkeys(frame[name].cat.categories) | distinct.found.pop(name)
            frame[name] = frame[name].cat.set_categories(list(every))
    return _sample(frame, pool.seen, distinct)


def _from_text(
    source: io.BufferedReader, kind: str, dtypes: Dtypes, rows: int, seed: int, wanted: Wanted
) -> Sample:
    with _seekable(source) as file:
        layout = recognise(file, kind)
        start = read_text(file, layout.dialect, layout.names, dtypes, rows + 1)
        if len(start) <= rows:  # the whole file: types are inferred from whole columns
            return Sample(start, len(start))
        distinct = _Distinct(name for name in start if wanted(name, is_text(start[name])))
        del start
        file.seek(0)
        pool = Reservoir(rows, seed, _select_frame, pd.concat)
        for batch in raw_batches(file, layout, BATCH_ROWS):
            for name in list(distinct.found):
                distinct.add(name, batch[name].unique())
            pool.add(batch, len(batch))
    # Types are inferred from the sample as they would be from a file of these rows.
    frame = retyped(pool.rows_kept(), layout.dialect, dtypes)
    for name, values in distinct.found.items():
        cells = pd.DataFrame({name: list(values)})
        typed = retyped(cells, layout.dialect, dtypes)[name] if len(values) else []
        distinct.found[name] = dict.fromkeys(value for value in typed if not pd.isna(value))
    return _sample(frame, pool.seen, distinct)


@contextlib.contextmanager
def _seekable(source: io.BufferedReader) -> Iterator[io.BufferedReader]:
    """Yield a file that can be read twice: what comes through a pipe goes to disk first."""
    if source.seekable():
        yield source
        return
    with tempfile.TemporaryFile() as disk:
        while block := source.read(1 << 20):
            disk.write(block)
        disk.seek(0)
        with peekable(disk) as file:
            yield file


def _select_frame(frame: pd.DataFrame, mask: Mask) -> pd.DataFrame:
    return frame[mask]


def _select_arrow(table: Any, mask: Mask) -> Any:
    return table.filter(pyarrow().array(mask))


def _join_arrow(tables: Sequence[Any]) -> Any:
    return pyarrow().concat_tables(tables).unify_dictionaries()


def _sample(frame: pd.DataFrame, rows: int, distinct: "_Distinct") -> Sample:
    if len(frame) == rows:
        return Sample(frame, rows)
    return Sample(frame, rows, {k: list(v) for k, v in distinct.found.items()}, distinct.crowded)


@final
class _Distinct:
    """Collect distinct values by column, in order of appearance, unless there are too many."""

    def __init__(self, names: Iterable[str]) -> None:
        self.found: dict[str, dict[Any, None]] = {name: {} for name in names}
        self.crowded: tuple[str, ...] = ()

    def add(self, name: str, values: Iterable[Any]) -> None:
        self.found[name].update(dict.fromkeys(values))
        if len(self.found[name]) > MOST_CATEGORIES:
            del self.found[name]
            self.crowded += (name,)


@final
class Reservoir(Generic[Part]):
    """A uniform random sample of rows that come in parts.

    Each row draws a key, and the rows with the smallest keys stay. Which rows these are depends on
    the seed alone, not on how the rows are split into parts.

    Args:
        rows: How many stay.
        seed: Seed for the keys.
        select: Returns the rows of a part where a mask is true.
        join: Makes one part of several.

    >>> pool = Reservoir(3, 0, lambda part, mask: part[mask], np.concatenate)
    >>> for start in range(0, 100, 10):
    ...     pool.add(np.arange(start, start + 10), 10)
    >>> len(pool.rows_kept()), pool.seen
    (3, 100)
    """

    def __init__(
        self,
        rows: int,
        seed: int,
        select: Callable[[Part, Mask], Part],
        join: Callable[[Sequence[Part]], Part],
    ) -> None:
        self.rows, self.seen = rows, 0
        self._select, self._join = select, join
        self._random = np.random.default_rng(seed)
        self._parts: list[Part] = []
        self._keys: list[npt.NDArray[np.float64]] = []
        self._held, self._highest = 0, math.inf

    def add(self, part: Part, count: int) -> None:
        """Consider the `count` rows of a part."""
        keys = self._random.random(count)
        keep = keys < self._highest
        self.seen += count
        # One empty part is kept for its columns.
        if not keep.any() and self._parts:
            return
        self._parts.append(part if keep.all() else self._select(part, keep))
        self._keys.append(keys[keep])
        self._held += int(keep.sum())
        if self._held > self.rows + max(self.rows // 2, BATCH_ROWS):
            self._shrink()

    def rows_kept(self) -> Part:
        """Return the sample, in the order in which rows came."""
        self._shrink()
        return self._parts[0]

    def _shrink(self) -> None:
        keys, part = np.concatenate(self._keys), self._join(self._parts)
        if len(keys) > self.rows:
            keep = np.zeros(len(keys), dtype=bool)
            keep[np.argpartition(keys, self.rows)[: self.rows]] = True
            keys, part = keys[keep], self._select(part, keep)
            self._highest = float(keys.max())
        self._parts, self._keys, self._held = [part], [keys], len(keys)
