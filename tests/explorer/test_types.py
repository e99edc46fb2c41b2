"""The types of the front end, by TypeScript's own checker."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "marginals" / "explorer" / "static"


def checker() -> str | None:
    """Return TypeScript's compiler: the one that make installed, or any other."""
    own = Path(sys.prefix) / "node" / "node_modules" / ".bin" / "tsc"
    return str(own) if own.exists() else shutil.which("tsc")


def test_types_are_right() -> None:
    command = checker()
    if command is None:
        pytest.skip("TypeScript is not installed: the front end's types were not checked.")
    done = subprocess.run(
        [command, "--noEmit", "-p", str(STATIC)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_every_module_is_checked() -> None:
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        assert "@ts-nocheck" not in text
        assert "@ts-ignore" not in text
