"""What a result must say of where it was measured."""

import datetime
import os
import platform
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
    """Ask git, or on a machine without it the environment variable MARGINALS_COMMIT."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        found = ""
    return found or os.environ.get("MARGINALS_COMMIT", "unknown")
