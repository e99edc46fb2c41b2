"""Rows per second and peak memory of each engine, by the number of rows.

A folder of Parquet files is scored by each engine, and fitted as a stream. Each command runs in a
process of its own. From two sizes follow the time to start and the time of a row.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from studies import files
from studies.harness.available import check_choice, installed
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import table

GROUP = 65_536  # rows of a row group
CLUSTER = 100  # workers of the cluster that the tables extrapolate to
CLEARLY = 1.5  # how much longer the largest table must take for a law to be stated
LABELS = {
    "local": "`score`, local",
    "ray": "`score --engine ray`, two workers (memory: of the driver)",
    "duckdb": "`sql`, DuckDB: `sum(m_logpdf(t))`",
    "stream": "`fit --stream`, one model, one pass of steps over the rows",
}


def _commands(settings: Settings, folder: Path, rows: int) -> dict[str, Callable[[], list[str]]]:
    model, data, out = str(folder / "m.mdma"), str(folder / "rows"), str(folder / "out")
    sql = f"SELECT sum(m_logpdf(t)) FROM '{data}/*.parquet' t"
    steps = max(1, rows // settings.batch)
    fit = ["fit", data, "-o", f"{out}.mdma", "--stream", "--buffer", str(settings.buffer)]
    fit += ["--width", str(settings.width), "--set", "tensor=ht", "--set", f"max_steps={steps}"]
    score = ["score", model, data, "-o"]
    return {
        "local": lambda: [*score, f"{out}.parquet"],
        "ray": lambda: [*score, out, "--engine", "ray", "--workers", "2"],
        "duckdb": lambda: ["sql", model, sql],
        "stream": lambda: [*fit, "--set", f"batch_size={settings.batch}"],
    }


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return every engine at every size, and the local ones at the largest with more columns."""
    few, *more = settings.columns
    sized = [(engine, rows, few) for engine in settings.engines for rows in settings.sizes]
    alone = [engine for engine in settings.engines if engine in ("local", "stream")]
    wide = [(engine, max(settings.sizes), columns) for engine in alone for columns in more]
    return [{"engine": e, "rows": r, "columns": c} for e, r, c in sized + wide]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Make the folder and a model, and run one engine."""
    check_choice("`engines`", job["engine"], LABELS)
    if job["engine"] in ("ray", "duckdb"):
        installed(job["engine"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "rows", job["rows"], job["columns"], seed)
        first = str(folder / "rows" / "part-0000.parquet")
        limits = ["--width", str(settings.width), "--set", f"max_steps={settings.steps}"]
        if job["engine"] != "stream":
            sampled = ["--rows", str(settings.sample), "--set", "tensor=ht"]
            files.measured(["fit", first, "-o", str(folder / "m.mdma"), *sampled, *limits])
        found = files.measured(_commands(settings, folder, job["rows"])[job["engine"]]())
    return {name: found[name] for name in ("seconds", "peak_mb")}


def make(folder: Path, rows: int, columns: int, seed: int, dtype: str = "float64") -> None:
    """Write a folder of Parquet files of normal columns that depend on two hidden ones."""
    pa, parquet = installed("pyarrow"), installed("pyarrow.parquet")
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(2, columns))
    folder.mkdir()
    for number, start in enumerate(range(0, rows, 10 * GROUP)):
        count = min(10 * GROUP, rows - start)
        hidden, noise = (rng.standard_normal((count, n), dtype) for n in (2, columns))
        values = hidden @ loadings.astype(dtype) + noise
        data = pa.table({f"x{i}": values[:, i] for i in range(columns)})
        parquet.write_table(data, folder / f"part-{number:04d}.parquet", row_group_size=GROUP)


def tables(records: Records, paper: Paper) -> str:
    """Return a line for each engine and size, and the law that follows from two sizes."""
    head = ["engine", "rows", "columns", "seconds", "rows per second", "peak, MB"]
    lines = [
        [
            *(LABELS[r["engine"]], f"{r['rows']:,}", str(_columns(r)), f"{r['seconds']:.1f}"),
            *(f"{r['rows'] / r['seconds']:,.0f}", f"{r['peak_mb']:,.0f}"),
        ]
        for r in records
    ]
    laws = []
    for engine in dict.fromkeys(r["engine"] for r in records):
        few = min(map(_columns, records))
        alike = [r for r in records if (r["engine"], _columns(r)) == (engine, few)]
        own = sorted((r["rows"], r["seconds"]) for r in alike)
        start, cost = law(own)
        # Where starting takes most of the time, the difference of two runs is mostly noise.
        if own[-1][1] > CLEARLY * own[0][1]:
            workers = 2 if engine == "ray" else 1
            hours = 1e9 * cost * workers / CLUSTER / 3600
            cluster = f"{hours:.2f}" if engine in ("local", "ray") else ""
            laws.append([LABELS[engine], f"{start:.1f}", f"{1e6 * cost:.2f}", cluster])
    if not laws:
        return table(head, lines)
    names = ["engine", "seconds to start", "microseconds a row"]
    names.append(f"hours for 1e9 rows on {CLUSTER} workers, by this law")
    return table(head, lines) + "\n\n" + table(names, laws)


def _columns(record: Record) -> int:
    return int(record.get("columns", 10))  # the only number in the first results


def law(sizes: list[tuple[int, float]]) -> tuple[float, float]:
    """Return the seconds to start and the seconds of a row, from the smallest and largest table.

    >>> law([(100, 3.0), (300, 5.0)])
    (2.0, 0.01)
    """
    (few, short), (many, long) = sizes[0], sizes[-1]
    cost = (long - short) / (many - few) if many > few else 0.0
    return short - cost * few, cost


STUDIES = (
    Study(
        "engines",
        "Engines",
        measure,
        tables,
        jobs=jobs,
        key=("engine", "rows", "columns"),
        parts=("engines", "sizes", "columns"),
        page="engines",
    ),
)
