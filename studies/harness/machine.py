"""Where a result was measured, by which command, and limits in processor seconds."""

import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PACKAGES = (
    *("marginals", "torch", "numpy", "pandas", "scikit-learn", "pyarrow", "causal-learn"),
    *("networkx", "zuko", "spflow", "pyvinecopulib", "npeet-plus", "miceforest", "lightgbm"),
    "pyod",
    *("sdmetrics", "xgboost"),
)
FOLDERS = ("--data", "--output", "--reference")


def describe_machine(device: str) -> dict[str, Any]:
    """Return date, commit, versions and hardware."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "python": platform.python_version(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "device": device,
        "versions": {name: found for name in PACKAGES if (found := _version(name)) is not None},
    }


def _processor() -> str:
    """Return the name of the processor; where the system does not say, its architecture."""
    try:
        with open("/proc/cpuinfo") as lines:
            named = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            ]
    except OSError:
        named = []
    return (named or [platform.processor() or platform.machine()])[0]


def _commit() -> str:
    """Return MARGINALS_COMMIT, for machines without the repository, or what git says."""
    given = os.environ.get("MARGINALS_COMMIT")
    if given or not shutil.which("git"):
        return given or "unknown"
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found or "unknown"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def command_of(words: Sequence[str]) -> str:
    """Return a command as result files have it: without folders and without `--resume`.

    >>> command_of(["toy", "--data", "/a/b", "--resume", "--set", "sets=['a']"])
    'python -m studies toy --data DATA --set "sets=[\\'a\\']"'
    """
    shown = list(words)
    for place, word in enumerate(words[:-1]):
        if word in FOLDERS:
            shown[place + 1] = word.strip("-").upper()
    return " ".join(["python -m studies", *(quoted(w) for w in shown if w != "--resume")])


def quoted(word: str) -> str:
    """Return a word as a shell takes it, in quotes if it needs them."""
    plain = re.fullmatch(r"[\w=.,:/+-]*", word) or word.startswith('"')
    return word if plain else f'"{word}"'


class _ProcessorClock:
    """The module `time`, but `monotonic` counts the seconds that this process computes."""

    monotonic = staticmethod(time.process_time)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def processor_seconds(device: str = "cpu") -> Iterator[None]:
    """Let the time limits of our fits count processor seconds; on a GPU, change nothing.

    A limit in wall seconds would cut a fit short whenever another process takes the core. On an
    idle machine with one thread the two are the same.
    """
    changed: list[Any] = []
    if device == "cpu":
        ours = [m for name, m in list(sys.modules.items()) if name.startswith("marginals.")]
        changed = [module for module in ours if getattr(module, "time", None) is time]
    try:
        for module in changed:
            module.time = _ProcessorClock()
        yield
    finally:
        for module in changed:
            module.time = time
