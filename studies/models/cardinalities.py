"""Estimators of how many rows meet a conjunction of ranges and equalities."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
import pandas as pd

from marginals import MDMA
from studies.harness.available import Unavailable, installed
from studies.harness.study import Settings

Floats = np.ndarray[Any, Any]


@final
@dataclass(frozen=True)
class Predicate:
    """A condition on one column: low <= x <= high, or x = low if both are the same object."""

    column: str
    low: Any
    high: Any

    @property
    def equal(self) -> bool:
        """Whether it is an equality."""
        return isinstance(self.low, str) or self.low == self.high

    def sql(self) -> str:
        """Return it as SQL."""
        if self.equal:
            return f'"{self.column}" = {_literal(self.low)}'
        return f'"{self.column}" BETWEEN {_literal(self.low)} AND {_literal(self.high)}'


Conjunction = Sequence[Predicate]


class Estimator(Protocol):
    """What the study needs of an estimator."""

    def estimate(self, queries: Sequence[Conjunction]) -> Floats:
        """Return the estimated number of rows of each query, all at once."""
        ...


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def true_counts(frame: pd.DataFrame, queries: Sequence[Conjunction]) -> Floats:
    """Count the rows that meet each query, exactly; missing cells meet none."""
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    return np.array([_matches(columns, query).sum() for query in queries])


def _matches(columns: Mapping[str, Any], query: Conjunction) -> Any:
    kept: Any = True
    for part in query:
        values = columns[part.column]
        own = values == part.low if part.equal else (values >= part.low) & (values <= part.high)
        kept = own & kept
    return kept


# Ours -------------------------------------------------------------------------------------------


def fitted(frame: pd.DataFrame, settings: Settings, seed: int) -> MDMA:
    """Fit a tree: the probabilities of its boxes are exact."""
    limit = {"max_steps": settings.max_steps} if settings.max_steps else {}
    return MDMA(
        tensor="ht",
        leaves=settings.leaves,
        width=settings.width,
        max_seconds=settings.fit_seconds,
        random_state=seed,
        progress=False,
        **limit,
    ).fit(frame)


@final
class Ours:
    """A tree fitted to the table."""

    def __init__(self, frame: pd.DataFrame, settings: Settings, seed: int) -> None:
        self.model = fitted(frame, settings, seed)

    def estimate(self, queries: Sequence[Conjunction]) -> Floats:
        """Return the expected number of rows of each query."""
        return np.asarray(self.model.count([event_of(query) for query in queries]).value)


def event_of(query: Conjunction) -> dict[str, Any]:
    """Return a query as an event of `MDMA.count`."""
    return {
        part.column: part.low if part.equal else pd.Interval(part.low, part.high, closed="both")
        for part in query
    }


# Peers ------------------------------------------------------------------------------------------


@final
class Sample:
    """A uniform sample of the rows, scaled up."""

    def __init__(self, frame: pd.DataFrame, settings: Settings, seed: int) -> None:
        part = frame.sample(frac=settings.sampled, random_state=seed)
        self.columns = {name: part[name].to_numpy() for name in part.columns}
        self.scale = len(frame) / max(1, len(part))

    def estimate(self, queries: Sequence[Conjunction]) -> Floats:
        """Return the scaled counts of the sample."""
        found = [np.sum(_matches(self.columns, query)) for query in queries]
        return self.scale * np.array(found, dtype=float)


@final
class Histograms:
    """Independent columns: frequent values, and bins of equal counts for the others."""

    def __init__(self, frame: pd.DataFrame, settings: Settings, seed: int) -> None:
        self.rows = len(frame)
        self.frequent = {n: frame[n].value_counts().head(settings.bins) for n in frame}
        self.rest = {}
        for name in frame.columns:
            others = frame[name][~frame[name].isin(self.frequent[name].index)].dropna()
            text = not pd.api.types.is_numeric_dtype(frame[name])
            edges = None
            if len(others) and not text:
                edges = np.quantile(others, np.linspace(0, 1, settings.bins + 1))
            self.rest[name] = len(others), others.nunique(), edges

    def _share(self, part: Predicate) -> float:
        frequent = self.frequent[part.column]
        count, distinct, edges = self.rest[part.column]
        if part.equal:
            known = float(frequent.get(part.low, 0))
            return (known or count / max(1, distinct)) / self.rows
        inside = float(frequent[(frequent.index >= part.low) & (frequent.index <= part.high)].sum())
        if edges is not None:
            levels = np.linspace(0, 1, len(edges))
            low, high = np.interp([part.low, part.high], edges, levels, left=0.0, right=1.0)
            inside += count * (high - low)
        return inside / self.rows

    def estimate(self, queries: Sequence[Conjunction]) -> Floats:
        """Return the products of the columns' shares."""
        shares = [np.prod([self._share(part) for part in query]) for query in queries]
        return self.rows * np.array(shares)


@final
class DuckDB:
    """The cardinality that DuckDB's EXPLAIN states."""

    def __init__(self, frame: pd.DataFrame, settings: Settings, seed: int) -> None:
        self.database = installed("duckdb").connect()
        self.database.register("frame", frame)
        self.database.execute("CREATE TABLE t AS SELECT * FROM frame")
        self.database.execute("ANALYZE t")

    def estimate(self, queries: Sequence[Conjunction]) -> Floats:
        """Return the estimates of the plans' roots."""
        return np.array([self._one(query) for query in queries])

    def _one(self, query: Conjunction) -> float:
        text = f"EXPLAIN (FORMAT json) SELECT * FROM t WHERE {_where(query)}"
        (plan,) = json.loads(self.database.execute(text).fetchall()[0][1])
        return float(plan.get("extra_info", {}).get("Estimated Cardinality", 0))


@final
class PostgreSQL:
    """The rows that PostgreSQL's EXPLAIN states; the server is that of psql's environment.

    Args:
        frame: the table.
        settings: of the study.
        seed: ignored.
        extended: whether to create statistics of several columns.
    """

    table = "marginals_selectivity"

    def __init__(
        self, frame: pd.DataFrame, settings: Settings, seed: int, extended: bool = False
    ) -> None:
        if shutil.which("psql") is None:
            raise Unavailable("Expected psql; got none. Install PostgreSQL's client.")
        kinds = {"i": "bigint", "f": "double precision"}
        columns = ", ".join(f'"{n}" {kinds.get(frame[n].dtype.kind, "text")}' for n in frame)
        self._psql(f"DROP TABLE IF EXISTS {self.table}; CREATE TABLE {self.table} ({columns})")
        rows = frame.to_csv(index=False, header=False)
        self._psql(f"\\copy {self.table} FROM pstdin WITH (FORMAT csv)", rows)
        if extended:
            self._psql("; ".join(self._statistics(list(frame.columns), settings.target)))
        self._psql(f"ANALYZE {self.table}")

    def _statistics(self, names: list[str], target: int) -> Iterator[str]:
        """Yield statements: all pairs, and groups of eight columns, the most that it allows."""
        groups = [names[i : i + 8] for i in range(0, len(names), 8) if len(names[i : i + 8]) > 2]
        pairs = [[a, b] for i, a in enumerate(names) for b in names[i + 1 :]]
        yield f"ALTER TABLE {self.table} " + ", ".join(
            f'ALTER COLUMN "{name}" SET STATISTICS {target}' for name in names
        )
        for number, group in enumerate([*groups, *pairs]):
            listed = ", ".join(f'"{name}"' for name in group)
            yield (
                f"CREATE STATISTICS {self.table}_{number} (dependencies, mcv) "
                f"ON {listed} FROM {self.table}"
            )

    def estimate(self, queries: Sequence[Conjunction]) -> Floats:
        """Return the estimates of the plans' roots."""
        text = "\n".join(
            f"EXPLAIN (FORMAT json) SELECT * FROM {self.table} WHERE {_where(query)};"
            for query in queries
        )
        lines = self._psql(None, text).splitlines()
        plans = "".join(line.rstrip("+") for line in lines).replace("][", "]\n[").splitlines()
        return np.array([json.loads(plan)[0]["Plan"]["Plan Rows"] for plan in plans], dtype=float)

    def _psql(self, command: str | None, text: str = "") -> str:
        words = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        words += [] if command is None else ["-c", command]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(
                f"Expected a PostgreSQL server at PGHOST; psql says: {done.stderr[:200]}"
            )
        return done.stdout


def _where(query: Conjunction) -> str:
    return " AND ".join(part.sql() for part in query)


ESTIMATORS: dict[str, Callable[[pd.DataFrame, Settings, int], Estimator]] = {
    "marginals": Ours,
    "postgres": PostgreSQL,
    "postgres-extended": lambda *given: PostgreSQL(*given, extended=True),
    "duckdb": DuckDB,
    "sample": Sample,
    "histograms": Histograms,
}


def latency(estimator: Estimator, queries: Sequence[Conjunction], alone: int) -> dict[str, float]:
    """Time all queries at once, and some of them one by one, in milliseconds a query.

    It is CPU time, which other programs on the machine change little; PostgreSQL runs elsewhere.
    """
    server = isinstance(estimator, PostgreSQL)
    clock = time.perf_counter if server else time.process_time
    started = clock()
    estimator.estimate(queries)
    together = 1e3 * (clock() - started) / len(queries)
    if server:  # psql itself takes longer to start than to answer
        return {"batch_ms": round(together, 4)}
    times = []
    for query in queries[:alone]:
        started = clock()
        estimator.estimate([query])
        times.append(1e3 * (clock() - started))
    return {"batch_ms": round(together, 4), "alone_ms": round(float(np.median(times)), 3)}
