"""Result files: one JSON record to a line, whole after each, with where it was measured."""

import json
import math
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine

PACKAGES = ("numpy", "scikit-learn", "zuko", "spflow", "pyvinecopulib")

Record = dict[str, Any]


def origin() -> Record:
    """Return the machine, the commit, the date and the versions."""
    versions = {name: found for name in PACKAGES if (found := _version(name)) is not None}
    return {**describe_machine(), "versions": versions}


def write(path: Path, records: Sequence[Record]) -> None:
    """Write all records at once, so that an interrupted run leaves a whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(_plain(record), allow_nan=False) for record in records)
    draft = path.with_name(path.name + ".part")
    draft.write_text(f"[\n{lines}\n]\n")
    os.replace(draft, path)


def earlier(out: Path, append: bool) -> list[Record]:
    """Read the records that a run adds to: none for a new file, and no old one unless told so."""
    if not out.exists():
        return []
    if not append:
        raise SystemExit(
            f"Expected `--out` to be a new file; got {out}, which is there. Give --append to add "
            "what it lacks, or another name."
        )
    return read(out)


def read(path: Path) -> list[Record]:
    """Read records; figures that JSON cannot hold were written as words."""
    if not path.exists():
        raise SystemExit(f"Expected a result file; got {path}, which is not there.")
    return [_figures(record) for record in json.loads(path.read_text())]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _plain(record: Record) -> Record:
    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {name: plain(value) for name, value in record.items()}


def _figures(record: Record) -> Record:
    words = ("inf", "-inf", "nan")
    return {
        name: float(value) if isinstance(value, str) and value in words else value
        for name, value in record.items()
    }
