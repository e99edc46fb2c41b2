"""Several runs of studies at once, each in a process and with a folder of its own."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch


def run_lines(lines: Sequence[str], folder: Path, jobs: int, seconds: float) -> list[int]:
    """Run the arguments of each line as `python -m studies ...`, some at a time, in their order.

    Args:
        lines: arguments of runs.
        folder: where line i writes its result file and `log.txt`, in a folder named i.
        jobs: processes at a time, each with one thread.
        seconds: end what still runs after this, and start no more.

    Returns:
        The exit status of each run.
    """
    end = time.monotonic() + seconds
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    where = {"PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}

    def run(job: tuple[int, str]) -> int:
        number, line = job
        own = folder / str(number)
        own.mkdir(parents=True, exist_ok=True)
        left = end - time.monotonic()
        with (own / "log.txt").open("w") as log:
            if left <= 0:
                log.write("Not started: out of time.\n")
                return 1
            # Our estimators would take a GPU by default, whatever the study's device.
            hidden = {} if "cuda" in line else {"CUDA_VISIBLE_DEVICES": ""}
            command = [sys.executable, "-m", "studies", *shlex.split(line), "--output", str(own)]
            try:
                return subprocess.run(
                    command,
                    env={**os.environ, **threads, **where, **hidden},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=left,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                log.write("Ended: out of time.\n")
                return 1

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, enumerate(lines)))


def cores() -> int:
    """Return the number of cores this process may use, less one for a GPU's fits."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (found or 1) - torch.cuda.is_available())
