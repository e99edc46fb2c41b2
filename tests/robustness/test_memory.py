"""Commands that work in batches need no more memory for more rows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")

ROWS = 40_000
TEXT = 750  # characters per row of a column the model ignores: 30 MB for ROWS

# A fork for each command runs it on a small and a large file and prints by how many MB its peak
# memory rose. Small batches let the allocators settle within the first file: with batches of 65,536
# rows that takes some 300,000 rows.
PROGRAM = """
import json, os, re, sys
from typer.testing import CliRunner
from marginals.cli import app
from marginals.engines import model_columns
from marginals.io import row_sampling

model_columns.ROWS = row_sampling.BATCH_ROWS = 4096

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def rise(command):
    peaks = []
    for data in ("small.parquet", "large.parquet"):
        done = CliRunner().invoke(app, [part.replace("DATA", data) for part in command])
        assert done.exit_code == 0, done.output
        peaks.append(peak())
    return peaks[1] - peaks[0]

for name, command in json.loads(sys.argv[1]).items():
    pid = os.fork()
    if pid == 0:
        print(name, rise(command), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, name
"""


def table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "c"])
    frame["d"] = np.where(rng.random(rows) < 0.02, np.nan, rng.normal(size=rows))
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model and two tables, one with three times the rows of the other."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(1)
    for name, rows in (("small", ROWS), ("large", 3 * ROWS)):
        frame = table(rows)
        # Different text in each row, so that no dictionary encoding makes it small.
        letters = rng.integers(97, 123, rows * TEXT, dtype=np.uint8).tobytes().decode()
        frame["note"] = [letters[i : i + TEXT] for i in range(0, len(letters), TEXT)]
        frame.to_parquet(folder / f"{name}.parquet", row_group_size=20_000)
    MDMA(width=4, max_steps=3, random_state=0, progress=False).fit(table(500)).save(folder / "m")
    return folder


COMMANDS = {
    "score": ["score", "m", "DATA", "--keep", "note", "-o", "out.parquet"],
    "impute": ["impute", "m", "DATA", "--method", "median", "-o", "out.parquet"],
    "anomalies": ["anomalies", "m", "DATA"],
    "fit": [
        *("fit", "DATA", "-o", "n", "--ignore", "note", "--rows", "2000", "--width", "2"),
        *("--set", "max_steps=2"),
    ],
    "stream": [
        *("fit", "DATA", "-o", "n", "--ignore", "note", "--stream", "--buffer", "8000"),
        *("--width", "2", "--set", "max_steps=60", "--set", "batch_size=2000"),
    ],
}


@pytest.mark.slow
def test_memory_does_not_grow_with_rows(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(COMMANDS)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = {name: float(rise) for name, rise in map(str.split, done.stdout.splitlines())}
    assert found.keys() == COMMANDS.keys()
    # The text of all added rows would take 60 MB.
    assert max(found.values()) < 40, found
