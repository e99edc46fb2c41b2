"""A fresh environment with the built wheel and its core dependencies, made without a network."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


@dataclass(frozen=True)
class Environment:
    """The folder of a virtual environment."""

    folder: Path

    def run(self, *words: str | Path, cwd: Path, code: int = 0) -> str:
        """Run a program of the environment and return what it wrote to both streams."""
        done = subprocess.run(
            [self.folder / "bin" / words[0], *words[1:]],
            cwd=cwd,
            env={"PATH": os.defpath, "HOME": str(cwd), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, done.stdout
        return done.stdout


def succeed(*command: str | Path) -> None:
    """Run a command, and show what it wrote if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both files."""
    succeed(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def core_environment(folder: Path, wheel: Path) -> Environment:
    """Install the wheel into a new environment that has only the core dependencies.

    They are links to the packages of this environment: nothing is downloaded, and no extra's
    package can be imported.
    """
    succeed(sys.executable, "-m", "venv", "--without-pip", folder)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    for found in core_distributions():
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():  # packages that share a folder link it once
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    succeed(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    succeed(*pip, "check")  # what was linked meets the wheel's requirements
    return Environment(folder)


def core_distributions() -> list[Distribution]:
    """Return the installed distributions that a core install brings, directly or not."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in project()["dependencies"]]
    while waiting:
        name = waiting.pop().name.lower()
        if name not in found:
            found[name] = distribution(name)
            waiting += _requirements(found[name])
    return list(found.values())


def _requirements(found: Distribution) -> Iterator[Requirement]:
    for requirement in map(Requirement, found.requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement
