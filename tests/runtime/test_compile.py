"""Every kernel compiles for a GPU, not only in the interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")


@pytest.mark.slow
def test_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    words = [sys.executable, "-W", "ignore", "-m", "tests.runtime.compile_all"]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert {"_forward", "_backward", "_invert", "_open", "_root_back"} <= set(done.stdout.split())
