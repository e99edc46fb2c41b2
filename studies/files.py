"""Seconds and peak memory of the command line on a large Parquet file.

The file is made in row groups and deleted at the end. Each command runs in a process of its own,
which reports its own peak memory.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from studies.harness.available import installed
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import table

# The process writes its own peak memory to a file when it ends. What the system reports to the
# parent (`ru_maxrss`) is never less than the memory of the parent itself, from which it was forked.
PROGRAM = """
import atexit, re, sys

def report(path=sys.argv.pop(1)):
    peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
    open(path, "w").write(peak)

atexit.register(report)
from marginals.cli import main
main()
"""
GROUP = 1_000_000  # rows of a row group
CITIES = ["Bergen", "Oslo", "Stavanger", "Tromsø", "Trondheim"]


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return the one job: the second command needs what the first one makes."""
    return [{"rows": settings.rows}]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Iterator[Record]:
    """Make the file, fit a model to a sample of it, and score all of it."""
    parquet = installed("pyarrow.parquet")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, model, scores = (
            folder / n for n in ("large.parquet", "model.mdma", "scores.parquet")
        )
        make(data, settings.rows, seed)
        size = round(data.stat().st_size / 2**20, 1)
        options = {"--rows": settings.sample, "--width": settings.width}
        words = [str(word) for pair in options.items() for word in pair]
        limit = ["--set", f"max_steps={settings.steps}"]
        fit = ["fit", str(data), "-o", str(model), *words, *limit]
        for command in (fit, ["score", str(model), str(data), "-o", str(scores)]):
            found = measured(command)
            rate = round(settings.rows / found["seconds"])
            yield {**found, "file_mb": size, "rows_per_second": rate}
        assert parquet.ParquetFile(scores).metadata.num_rows == settings.rows


def make(path: Path, rows: int, seed: int) -> None:
    """Write a table of an integer, a continuous column, a category and one with gaps."""
    parquet = installed("pyarrow.parquet")
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, rows, GROUP):
        part = _part(min(GROUP, rows - start), rng)
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def _part(rows: int, rng: np.random.Generator) -> Any:
    pa = installed("pyarrow")
    age = rng.integers(18, 90, rows)
    rain = rng.normal(size=rows) + age / 30
    codes = pa.array(rng.integers(0, len(CITIES), rows), pa.int8())
    return pa.table(
        {
            "age": age,
            "income": np.exp(rng.normal(7, 1, rows) + age / 60),
            "city": pa.DictionaryArray.from_arrays(codes, CITIES).cast(pa.string()),
            "rain": pa.array(rain, mask=rng.random(rows) < 0.1),
        }
    )


def measured(words: list[str]) -> Record:
    """Run a command of the program; return its seconds and peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        peak, started = Path(folder, "peak"), time.perf_counter()
        command = [sys.executable, "-c", PROGRAM, str(peak), *words]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        seconds = time.perf_counter() - started
        if done.returncode:
            raise RuntimeError(f"Expected {words[0]} to succeed; got status {done.returncode}.")
        kilobytes = int(peak.read_text())
    return {
        "command": " ".join(["marginals", *(Path(w).name if "/" in w else w for w in words)]),
        "seconds": round(seconds, 2),
        "peak_mb": round(kilobytes / 1024, 1),
    }


def tables(records: Records, paper: Paper) -> str:
    """Return a line for each command."""
    head = ["command", "rows", "file, MB", "seconds", "rows per second", "peak, MB"]
    rows = [
        [
            *(f"`{r['command']}`", f"{r['rows']:,}", f"{r['file_mb']:g}", f"{r['seconds']:g}"),
            *(f"{r['rows_per_second']:,}", f"{r['peak_mb']:g}"),
        ]
        for r in records
    ]
    return table(head, rows)


STUDIES = (
    Study(
        "files",
        "Large files",
        measure,
        tables,
        jobs=jobs,
        key=("rows", "command"),
        parts=("rows",),
        page=None,
    ),
)
