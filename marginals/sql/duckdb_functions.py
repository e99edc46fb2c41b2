"""SQL functions of a fitted model, vectorised over Arrow batches of DuckDB."""

import contextlib
import functools
import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, final

import numpy as np
import pandas as pd

from marginals.columns import Categorical, Column, Integer
from marginals.columns.dtypes import family, zone
from marginals.columns.plain_values import did_you_mean
from marginals.columns.table_coercion import as_frame
from marginals.engines import ArrowFunction, Impute
from marginals.engines.model_columns import model_frame
from marginals.engines.row_jobs import anomaly_detector, batch_seed
from marginals.engines.row_queries import query_probabilities
from marginals.io.arrow_tables import ArrowRows, pyarrow
from marginals.io.safe_files import Path
from marginals.queries.table_density import TableDensity, TableView
from marginals.runtime.extras import optional

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def duckdb_module() -> Any:
    """Import DuckDB, and see that pyarrow is there, by which it passes rows."""
    optional("pyarrow", "marginals[sql]")
    return optional("duckdb", "marginals[sql]")


def register(
    connection: Any,
    model: Path | TableDensity,
    name: str,
    *,
    ignore: Collection[str] = (),
    handle_unknown: str | None = None,
) -> Any:
    """Add the functions of a fitted model to a DuckDB connection.

    A row is a struct: a table's name or alias stands for its row, and `{'age': age}` selects some
    of its columns. NULL is missing. Names ignore case, as in SQL; a column that the model lacks
    raises an error that names it. With the name "wine":

    - `wine_logpdf(row)`, `wine_logpdf(row, given)`: the log density, as `MDMA.logpdf`.
    - `wine_prob(query)`, `wine_prob(query, row)`: the probability of an event, given the query's
      evidence and the row's other cells. The query, such as `'proline > 1000 | alcohol = 13'`, may
      differ by row.
    - `wine_ppf(level, column)`, `wine_ppf(level, column, row)`: a quantile of a numeric column
      given the row's other cells; `wine_mean(column, row)` likewise.
    - `wine_tail(row)`: the share of the model's draws that are at least as extreme, as in
      `MDMAOutlierDetector`; a small share is unusual.
    - `wine_fill(row)`, `wine_fill(row, method)`: the model's columns with missing cells filled.
    - `FROM wine_filled(table)`: these columns as a table; `wine_filled(table, method := 'draw')`.
    - `FROM wine_sample(n)`: draws; `wine_sample(n, seed := 1)`.
    - `FROM t, wine_sample_given(t, n)`: n draws given each row, new ones in each call.

    Args:
        connection: from `duckdb.connect()`.
        model: a fitted model, or the path or address of its file.
        name: the prefix of the functions' names.
        ignore: columns of rows that the model lacks, such as an identifier.
        handle_unknown: how to treat categories not seen in training: "error" or "missing"; None
            keeps the model's setting.

    Returns:
        The connection. A model registered earlier under the same name is replaced.
    """
    duckdb_module()
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"Expected `name` to be letters, digits and underscores; got {name!r}. Choose a name "
            "such as 'wine'."
        )
    view = ArrowFunction(model, Impute(), handle_unknown=handle_unknown).view
    functions = _Functions(view, frozenset(str(column).casefold() for column in ignore))
    struct = ", ".join(f"{_quoted(str(c.name))} {_sql_type(c)}" for c in view.schema_)
    for suffix, function, returned in (
        ("logpdf", functions.logpdf, "DOUBLE"),
        ("prob", functions.prob, "DOUBLE"),
        ("ppf", functions.ppf, "DOUBLE"),
        ("mean", functions.mean, "DOUBLE"),
        ("tail", functions.tail, "DOUBLE"),
        ("fill", functions.fill, f"STRUCT({struct})"),
        ("draws", functions.draws, f"STRUCT({struct})[]"),
    ):
        with contextlib.suppress(duckdb_module().InvalidInputException):
            connection.remove_function(f"{name}_{suffix}")  # of an earlier model of that name
        connection.create_function(
            f"{name}_{suffix}",
            _variadic(function),
            None,
            returned,
            type="arrow",
            null_handling="special",
            side_effects=suffix in ("fill", "draws"),  # draws for equal rows differ
        )
    for macro in (
        f"{name}_filled(\"table\", method := 'mean') AS TABLE "
        f'SELECT unnest({name}_fill(r, method)) FROM query_table("table") r',
        f"{name}_sample(n, seed := 0) AS TABLE "
        f"SELECT unnest({name}_draws(n, seed), recursive := true)",
        f'{name}_sample_given("row", n, seed := 0) AS TABLE '
        f'SELECT unnest({name}_draws(n, seed, "row"), recursive := true)',
    ):
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
    return connection


@final
class _Functions:
    """The functions of one model, of Arrow columns as DuckDB gives them.

    Args:
        model: the model.
        ignore: columns of rows that are left out, in lower case.
    """

    def __init__(self, model: TableView, ignore: frozenset[str]) -> None:
        self.model, self.ignore = model, ignore
        # SQL ignores case, unless columns of the model differ in nothing else.
        own = [str(column) for column in model.schema_.names]
        folded = Counter(map(str.casefold, own))
        self._names = {n.casefold(): n for n in own if folded[n.casefold()] == 1}
        self._names |= {n: n for n in own}
        self._lock = threading.Lock()  # DuckDB calls from several threads
        self._calls = itertools.count(1)  # each has its own draws

    def logpdf(self, row: Any, *given: Any) -> Any:
        """Return the log density of rows, perhaps given others."""
        frame = self._frame(row)
        evidence = self._frame(given[0]) if given else None
        return _answers(self.model.logpdf(frame, given=evidence), row, *given)

    def prob(self, query: Any, *row: Any) -> Any:
        """Return the probability of each row's query given the row."""
        texts = query.to_pylist()
        known = [i for i, text in enumerate(texts) if text is not None]
        frame = self._frame(row[0]) if row else pd.DataFrame(index=range(len(texts)))
        found = np.full(len(texts), np.nan)
        chosen = [texts[i] for i in known]
        found[known] = query_probabilities(self.model, chosen, frame.iloc[known])
        return _answers(found, query, *row)

    def ppf(self, level: Any, column: Any, *row: Any) -> Any:
        """Return quantiles of columns given rows."""

        def quantiles(name: Any, index: list[int], given: Any) -> Any:
            levels = np.array(level.take(index).to_pylist(), dtype=np.float64)
            found = np.full(len(index), np.nan)
            for one in np.unique(levels[~np.isnan(levels)]):
                at = np.flatnonzero(levels == one)
                part = None if given is None else given.iloc[at]
                found[at] = np.asarray(self.model.ppf([one], name, given=part)).reshape(-1)
            return found

        return _answers(self._by_column(column, row, quantiles), level, column, *row)

    def mean(self, column: Any, *row: Any) -> Any:
        """Return means of columns given rows."""

        def means(name: Any, index: list[int], given: Any) -> Any:
            return self.model.mean(name, given=given)

        return _answers(self._by_column(column, row, means), column, *row)

    def tail(self, row: Any) -> Any:
        """Return the share of draws as extreme as each row."""
        with self._lock:
            detector = self._detector
        return _answers(np.exp(detector.score_samples(self._frame(row))), row)

    def fill(self, row: Any, *method: Any) -> Any:
        """Return the model's columns with missing cells filled."""
        how = method[0][0].as_py() if method and len(row) else "mean"
        frame = self._frame(row)
        names = self.model.schema_.names
        full = self.model.impute(
            frame, method=how, random_state=next(self._calls), columns=list(names)
        )
        return self._structs(full)

    def draws(self, n: Any, seed: Any, *row: Any) -> Any:
        """Return a list of draws for each row."""
        pa = pyarrow()
        counts = [int(count or 0) for count in n.to_pylist()]
        seeds = seed.to_pylist()
        if row:
            most = max(counts, default=0)
            state = batch_seed(int(seeds[0] or 0), next(self._calls)) if seeds else 0
            drawn = self._drawn(most, self._frame(row[0]), state)
            kept = [i * most + k for i, count in enumerate(counts) for k in range(count)]
            found = drawn.take(pa.array(kept, pa.int64()))
        else:
            lists = [self._drawn(*each) for each in zip(counts, itertools.repeat(None), seeds)]
            found = pa.concat_arrays(lists)
        offsets = np.cumsum([0, *counts])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found)

    def _drawn(self, count: int, given: Any, seed: int) -> Any:
        drawn = self.model.sample(count, given=given, random_state=seed)
        return self._structs(as_frame(drawn, self.model.schema_.names))

    # Parts --------------------------------------------------------------------------------------

    @functools.cached_property
    def _detector(self) -> Any:
        return anomaly_detector(self.model)

    def _by_column(
        self, column: Any, row: tuple[Any, ...], answer: Callable[[Any, list[int], Any], Any]
    ) -> Any:
        """Return an answer for each row, computed for all rows that name the same column."""
        names = column.to_pylist()
        frame = self._frame(row[0]) if row else None
        found = np.full(len(names), np.nan)
        for text in dict.fromkeys(name for name in names if name is not None):
            full = self._name(text)
            (own,) = (c for c in self.model.schema_ if str(c.name) == full)
            _check_numbers(own)
            index = [i for i, name in enumerate(names) if name == text]
            given = None
            if frame is not None:
                given = frame.iloc[index].drop(columns=own.name, errors="ignore")
                given = given if given.shape[1] else None
            found[index] = answer(own.name, index, given)
        return found

    def _frame(self, row: Any) -> pd.DataFrame:
        """Return rows, a column of structs, as the model's columns; NULL is missing."""
        pa = pyarrow()
        if not pa.types.is_struct(row.type):
            raise TypeError(
                "Expected a row: the name of a table, or a struct such as {'age': age}; got "
                f"{row.type}."
            )
        structs = row.combine_chunks()
        names = [field.name for field in row.type if field.name.casefold() not in self.ignore]
        columns = dict(zip((f.name for f in row.type), structs.flatten(), strict=True))
        table = pa.table({self._name(name): _plain(columns[name]) for name in names})
        return model_frame(self.model.schema_, ArrowRows(table))

    def _name(self, name: str) -> str:
        """Return a column's name in the model."""
        found = self._names.get(name) or self._names.get(name.casefold())
        if found is None:
            own = [str(column) for column in self.model.schema_.names]
            raise ValueError(
                f"Expected a column of the model; got {name!r}. {did_you_mean(name, own)} Leave "
                "other columns out, or name them in `ignore`."
            )
        return found

    def _structs(self, frame: pd.DataFrame) -> Any:
        """Return a table with all of the model's columns as structs."""
        pa = pyarrow()
        frame = frame[list(self.model.schema_.names)].rename(columns=str)
        table = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks()
        arrays = [_arrow(c, table.column(str(c.name))) for c in self.model.schema_]
        return pa.StructArray.from_arrays(arrays, names=table.column_names)


def _variadic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of any number of columns: DuckDB takes each parameter as required."""

    def call(*columns: Any) -> Any:
        return function(*columns)

    return call


def _answers(values: Any, *arguments: Any) -> Any:
    """Return numbers as DuckDB takes them: NULL where an argument is NULL."""
    null = np.zeros(len(arguments[0]), dtype=bool)
    for argument in arguments:
        null |= argument.is_null().to_numpy(zero_copy_only=False)
    return pyarrow().array(np.asarray(values, dtype=np.float64), mask=null)


def _plain(column: Any) -> Any:
    """Return a column without decimals, which are DuckDB's exact numbers, and of a single chunk."""
    pa = pyarrow()
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def _quoted(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def _check_numbers(column: Column) -> None:
    if isinstance(column.kind, Categorical) or family(column.dtype) != "number":
        raise TypeError(
            f"Expected a column of numbers; got {column.name!r}, a column of {column.dtype}. Draw "
            "rows, or ask for the probability of an event."
        )


def _sql_type(column: Column) -> str:
    """Return the SQL type of a column of the model."""
    if isinstance(column.kind, Categorical):
        types = {type(value) for value in column.kind.categories or ()}
        common = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}
        return common.get(next(iter(types)), "VARCHAR") if len(types) == 1 else "VARCHAR"
    if family(column.dtype) == "number":
        return "BIGINT" if isinstance(column.kind, Integer) else "DOUBLE"
    if family(column.dtype) == "span":
        return "INTERVAL"
    return "TIMESTAMP" if zone(column.dtype) is None else "TIMESTAMPTZ"


def _arrow(column: Column, values: Any) -> Any:
    """Return the cells of a column in the Arrow type that belongs to its SQL type."""
    pa, sql = pyarrow(), _sql_type(column)
    kinds = {"BOOLEAN": pa.bool_(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    one = values.combine_chunks()
    if sql == "VARCHAR":
        cells = [None if cell is None else str(cell) for cell in one.to_pylist()]
        return pa.array(cells, pa.string())
    if sql in kinds:
        return one.cast(kinds[sql], safe=False)
    if sql == "INTERVAL":
        return one.cast(pa.duration("us"), safe=False)
    at = zone(column.dtype)
    return one.cast(pa.timestamp("us", None if at is None else str(at)), safe=False)
