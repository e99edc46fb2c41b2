"""Selectivity: how many rows meet a conjunction of ranges and equalities, estimated.

Queries are drawn as in the study of learned estimators by Wang et al. (VLDB 2021): a random number
of columns, centres from the data, ranges of uniform or exponential width, equalities of categories
and of numbers with few values. The error of an estimate is max(estimate, true) / min(...), both at
least one row.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from studies.data.tables import read_table
from studies.harness.available import check_choice
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import best_bold, shown, table
from studies.latency import make_table
from studies.models.cardinalities import (
    ESTIMATORS,
    Conjunction,
    Predicate,
    fitted,
    latency,
    true_counts,
)

FEW_VALUES = 100  # numbers with at most so many values have equalities, half of the time
LABELS = {
    "marginals": "marginals (tree)",
    "postgres": "PostgreSQL",
    "postgres-extended": "PostgreSQL, extended statistics",
    "duckdb": "DuckDB",
    "sample": "sample of 1 %",
    "histograms": "independent histograms",
}
AT_ONCE = 20_000  # boxes that are checked together
ROUNDING = 1e-12  # relative error of a count
QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Build one estimator of one table and put the queries to it."""
    check_choice("`estimators`", job["estimator"], ESTIMATORS)
    frame = context.once(job["table"], lambda: read(job["table"], settings, context, seed))
    queries, counts = context.once(
        ("queries", job["table"]), lambda: _workload(frame, settings.queries, seed)
    )
    started = time.perf_counter()
    estimator = ESTIMATORS[job["estimator"]](frame, settings, seed)
    built = time.perf_counter() - started
    errors = q_errors(estimator.estimate(queries), counts)
    figures = {name: round(float(np.quantile(errors, q)), 4) for name, q in QUANTILES.items()}
    times = latency(estimator, queries, settings.alone)
    return {**figures, **times, "build_s": round(built, 2), "queries": len(queries)}


def read(name: str, settings: Settings, context: Context, seed: int) -> pd.DataFrame:
    """Return a table; the time of power is the number of its minute."""
    if name == "made":
        frame = make_table(settings.rows or 2000, seed)
    elif name == "power":
        parts = "power", "household_power_2006-12-16_to_2007-06-30.parquet"
        frame = pd.read_parquet(context.file(*parts))
        minutes = (frame["datetime"] - frame["datetime"].min()) // pd.Timedelta(minutes=1)
        frame["datetime"] = minutes.astype(np.int64)
    elif name == "cover":
        values = np.load(context.file("adbench", "10_cover.npz"))["X"]
        frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])
    else:
        frame = read_table(name, context)
    rows = settings.rows
    return frame.sample(rows, random_state=seed) if 0 < rows < len(frame) else frame


def _workload(frame: pd.DataFrame, count: int, seed: int) -> tuple[list[Conjunction], Any]:
    queries = list(drawn_queries(frame, count, np.random.default_rng(seed)))
    return queries, true_counts(frame, queries)


def drawn_queries(
    frame: pd.DataFrame, count: int, random: np.random.Generator
) -> Iterator[Conjunction]:
    """Draw conjunctions on 1 to all columns around rows of the table."""
    complete = frame.dropna()
    distinct = {name: frame[name].nunique() for name in frame.columns}
    spans = {
        name: (frame[name].min(), frame[name].max())
        for name in frame.columns
        if pd.api.types.is_numeric_dtype(frame[name])
    }
    for _ in range(count):
        row = complete.iloc[int(random.integers(len(complete)))]
        number = int(random.integers(1, len(frame.columns) + 1))
        chosen = random.choice(frame.columns.to_numpy(), number, replace=False)
        yield [_predicate(name, row[name], spans, distinct, random) for name in chosen]


def _predicate(
    name: str, centre: Any, spans: dict[str, Any], distinct: dict[str, int], random: Any
) -> Predicate:
    if name not in spans:
        return Predicate(name, str(centre), str(centre))
    whole = isinstance(spans[name][0], int | np.integer)  # a row of numbers is one of floats
    value = int(centre) if whole else float(centre)
    if distinct[name] <= FEW_VALUES and random.random() < 0.5:
        return Predicate(name, value, value)
    span = float(spans[name][1] - spans[name][0])
    width = random.uniform(0, span) if random.random() < 0.5 else random.exponential(span / 10)
    low, high = value - width / 2, value + width / 2
    return Predicate(name, *((int(np.floor(low)), int(np.ceil(high))) if whole else (low, high)))


def q_errors(estimates: Any, counts: Any) -> Any:
    """Return the factor by which each estimate is wrong; counts below one row are one.

    >>> q_errors(np.array([10.0, 0.2, 4.0]), np.array([5.0, 0.0, 4.0])).tolist()
    [2.0, 1.0, 1.0]
    """
    estimates, counts = np.maximum(estimates, 1.0), np.maximum(counts, 1.0)
    return np.maximum(estimates, counts) / np.minimum(estimates, counts)


# Consistency ------------------------------------------------------------------------------------


def check(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Count random boxes that exceed a larger one, or differ from the sum of their halves."""
    frame = read(job["table"], settings, context, seed)
    model = fitted(frame, settings, seed)
    return violations(model, frame, settings.pairs, seed)


def violations(model: Any, frame: pd.DataFrame, pairs: int, seed: int) -> Record:
    """Divide random boxes in two, thousands at a time; compare the parts with the whole."""
    random = np.random.default_rng(seed + 1)
    found: Record = {"pairs": 0, "not_monotone": 0, "not_additive": 0, "worst": 0.0}
    started = time.process_time()
    while found["pairs"] < pairs:
        for whole, left, right in divided_boxes(frame, min(AT_ONCE, pairs), random):
            counts, below, above = (model.count(boxes).value for boxes in (whole, left, right))
            rest = np.abs(counts - below - above)
            found["pairs"] += len(counts)
            found["not_monotone"] += int((np.maximum(below, above) > (1 + ROUNDING) * counts).sum())
            found["not_additive"] += int((rest > ROUNDING * counts).sum())
            found["worst"] = max(found["worst"], float((rest / np.maximum(counts, 1e-300)).max()))
    return {**found, "cpu_s": round(time.process_time() - started, 1)}


def divided_boxes(
    frame: pd.DataFrame, count: int, random: np.random.Generator
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]]:
    """Yield random boxes with their two halves, by the column that is divided."""
    centres = frame.dropna().sample(count, replace=True, random_state=int(random.integers(2**31)))
    centres = centres.reset_index(drop=True)
    names = list(frame.columns)
    order = random.random((count, len(names))).argsort(1).argsort(1)
    used = order < random.integers(1, len(names) + 1, count)[:, None]
    numeric = [name for name in names if pd.api.types.is_numeric_dtype(frame[name])]
    used[:, names.index(numeric[0])] |= ~used[:, [names.index(n) for n in numeric]].any(1)
    ends = {name: _ranges(frame[name], centres[name], random) for name in numeric}
    boxes = {
        name: centres[name].where(used[:, at]) for at, name in enumerate(names) if name not in ends
    }
    split = np.array([random.choice([n for n in numeric if u[names.index(n)]]) for u in used])
    for name in numeric:
        rows = np.flatnonzero(split == name)
        if not len(rows):
            continue
        whole = pd.DataFrame({other: cells.iloc[rows] for other, cells in boxes.items()})
        for other in numeric:
            cells = np.where(used[rows, names.index(other)], ends[other][:, rows], np.nan)
            whole[other] = pd.arrays.IntervalArray.from_arrays(*cells, closed="both")
        low, high = ends[name][:, rows]
        middle = low + random.random(len(rows)) * (high - low)
        halves = (low, middle, "both"), (middle, high, "right")
        yield (
            whole,
            *(
                whole.assign(**{name: pd.arrays.IntervalArray.from_arrays(a, b, closed=closed)})
                for a, b, closed in halves
            ),
        )


def _ranges(column: pd.Series, centres: pd.Series, random: np.random.Generator) -> Any:
    """Return ranges around values, (2, N): of uniform or exponential width."""
    values, span = centres.to_numpy(dtype=float), float(column.max() - column.min())
    uniform, narrow = (
        random.uniform(0, span, len(values)),
        random.exponential(span / 10, len(values)),
    )
    width = np.where(random.random(len(values)) < 0.5, uniform, narrow)
    return np.stack([values - width / 2, values + width / 2])


def consistency_tables(records: Records, paper: Paper) -> str:
    """Return a line for each data set."""
    head = ["table", "pairs", "parts that exceed the whole", "wholes that differ from their parts"]
    lines = [
        [
            *(r["table"], f"{r['pairs']:,}", str(r["not_monotone"])),
            f"{r['not_additive']} (largest relative difference {r['worst']:.0e})",
        ]
        for r in records
    ]
    return table(head, lines)


# Tables -----------------------------------------------------------------------------------------


def tables(records: Records, paper: Paper) -> str:
    """Return a table of errors and times for each data set."""
    parts = []
    for name in dict.fromkeys(r["table"] for r in records):
        own = {r["estimator"]: r for r in records if r["table"] == name}
        marked = {
            figure: best_bold({e: r[figure] for e, r in own.items()}, 2, smaller=True)
            for figure in QUANTILES
        }
        lines = [
            [
                LABELS[e],
                *(marked[figure][e] for figure in QUANTILES),
                f"{r['batch_ms']:.3f}",
                shown(r.get("alone_ms"), 2),
                f"{r['build_s']:.0f}",
            ]
            for e, r in own.items()
        ]
        head = [name, "50 %", "95 %", "99 %", "max", "ms, together", "ms, alone", "build, s"]
        parts.append(table(head, lines))
    return "\n\n".join(parts)


STUDIES = (
    Study(
        "selectivity",
        "Selectivity",
        measure,
        tables,
        grid={"table": "tables", "estimator": "estimators"},
        own=("marginals",),
        page="engines",
    ),
    Study(
        "consistency",
        "Consistency of counts",
        check,
        consistency_tables,
        grid={"table": "tables"},
        page="engines",
    ),
)
