"""Memory over time of a fit to a table that is larger than memory allows.

A folder of Parquet files is made, and `marginals fit FOLDER` runs in a process of its own, whose
memory and that of its children is read every second. The folder is deleted at the end.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.engines import make
from studies.harness.drawing import open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MB = 2**20


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Make the folder, and fit it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "rows", job["rows"], settings.columns, seed, "float32")
        size = sum(file.stat().st_size for file in (folder / "rows").iterdir())
        words = ["fit", str(folder / "rows"), "-o", str(folder / "m.mdma"), "--json"]
        words += ["--rows", str(settings.memory_rows), "--seed", str(seed)]
        words += ["--max-seconds", str(settings.fit_seconds)]
        started = time.perf_counter()
        facts, trace = watched([sys.executable, "-m", "marginals", *words], settings.every)
        model = (folder / "m.mdma").stat().st_size
    context.keep(f"trace_{job['rows']}", trace)
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "file_mb": round(size / MB),
        "model_mb": round(model / MB, 1),
        "steps": facts["steps"],
        "validation_loss": facts["validation_loss"],
        "peak_mb": round(float(trace[:, 1].max())),
    }


def watched(command: list[str], every: float) -> tuple[Record, Any]:
    """Run a command that prints JSON; return it, and seconds and MB over time, (T, 2)."""
    with tempfile.TemporaryFile("w+") as out:
        started, points = time.perf_counter(), []
        process = subprocess.Popen(command, stdout=out)
        while process.poll() is None:
            points.append((time.perf_counter() - started, resident(process.pid) / MB))
            time.sleep(every)
        if process.returncode:
            raise RuntimeError(f"Expected a fit; got status {process.returncode}.")
        out.seek(0)
        return json.load(out), np.array([point for point in points if point[1] > 0])


def resident(process: int) -> int:
    """Return the bytes that a process and its children hold; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/smaps_rollup").read_text()
        below = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    # Pages that processes share are divided among them.
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Pss:"))
    return 1024 * own + sum(resident(int(child)) for child in below)


def tables(records: Records, paper: Paper) -> str:
    """Return a line for each size."""
    head = ["rows", "files, MB", "seconds", "peak of all processes, MB"]
    lines = [
        [f"{r['rows']:,}", f"{r['file_mb']:,}", f"{r['seconds']:.0f}", f"{r['peak_mb']:,}"]
        for r in records
    ]
    return table(head, lines)


def figures(records: Records, arrays: Arrays) -> "dict[str, Figure]":
    """Draw memory over time."""
    figure, axes = panels(6.0, 2.6, 1)
    ax = axes[0, 0]
    for record in records:
        seconds, used = arrays[f"trace_{record['rows']}"].T
        ax.plot(seconds, used / 1024, label=f"{record['rows']:,} rows")
    ax.set(xlabel="seconds", ylabel="memory, GiB", ylim=(0, None))
    ax.legend(frameon=False)
    open_frame(ax)
    return {"memory": figure}


STUDIES = (
    Study(
        "large-fit",
        "Fits larger than memory",
        measure,
        tables,
        figures,
        grid={"rows": "sizes"},
        page="engines",
    ),
)
