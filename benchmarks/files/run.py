"""Seconds and peak memory of the commands on a large Parquet file.

The file is made in row groups and deleted at the end, or is one that was made before. Each command
runs in a process of its own, whose peak memory the system reports.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import describe_machine

PROGRAM = "from marginals.cli import main; main()"
GROUP = 1_000_000  # rows of a row group
CITIES = ["Bergen", "Oslo", "Stavanger", "Tromsø", "Trondheim"]


def make(path: Path, rows: int) -> None:
    """Write a table of an integer, a continuous column, a category and one with gaps."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, GROUP):
        table = part(min(GROUP, rows - start), rng)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def part(rows: int, rng: np.random.Generator) -> pa.Table:
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


def measured(arguments: list[str]) -> dict[str, Any]:
    """Run a command of the program; return its seconds and peak memory in MB."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise RuntimeError(f"Expected {arguments[0]} to succeed; got status {status}.")
    return {
        "command": " ".join(["marginals", *(Path(a).name if "/" in a else a for a in arguments)]),
        "seconds": round(seconds, 2),
        "peak_mb": round(usage.ru_maxrss / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.files")
    parser.add_argument("--out", required=True, help="result file, JSON")
    parser.add_argument("--data", help="a table that `make` wrote, kept; default: make one")
    parser.add_argument("--rows", type=int, default=20_000_000, help="of a table that is made")
    parser.add_argument("--sample", type=int, default=100_000, help="rows to learn from")
    parser.add_argument("--width", type=int, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(args.data or f"{folder}/large.parquet")
        if args.data is None:
            make(data, args.rows)
        write(Path(args.out), run_all(Path(folder), data, args), args)


def run_all(folder: Path, data: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit and score; the settings of the fit are those of a quick one."""
    model, rows = folder / "model.mdma", pq.ParquetFile(data).metadata.num_rows
    facts = {"rows": rows, "file_mb": round(data.stat().st_size / 2**20, 1)}
    settings = ["--rows", str(args.sample), "--width", str(args.width), "--set", "max_steps=200"]
    commands = [
        ["fit", str(data), "-o", str(model), *settings],
        ["score", str(model), str(data), "-o", str(folder / "scores.parquet")],
    ]
    runs = []
    for arguments in commands:
        run = {**facts, **measured(arguments)}
        run["rows_per_second"] = round(rows / run["seconds"])
        print(json.dumps(run), flush=True)
        runs.append(run)
    assert pq.ParquetFile(folder / "scores.parquet").metadata.num_rows == rows
    return runs


def write(path: Path, runs: list[dict[str, Any]], args: argparse.Namespace) -> None:
    command = {key: value for key, value in vars(args).items() if key not in ("data", "out")}
    libraries = {name: version(name) for name in ("marginals", "pandas", "pyarrow", "numpy")}
    machine = {**describe_machine(), **libraries, "cores": os.cpu_count()}
    content = {"command": command, "machine": machine, "runs": runs}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
