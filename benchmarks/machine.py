"""What a result must say of where it was measured."""

import datetime
import os
import platform
import shutil
import subprocess
from typing import Any

import torch


def describe_machine() -> dict[str, Any]:
    """Return date, commit, versions and hardware."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "gpu": device,
    }


def _commit() -> str:
    """Return what MARGINALS_COMMIT says, for machines without the repository, or git."""
    told = os.environ.get("MARGINALS_COMMIT")
    if told or not shutil.which("git"):
        return told or "unknown"
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found or "unknown"
