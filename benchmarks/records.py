"""Records of what was measured: what each is of, where it was made, and the files of them.

A benchmark names the fields that say what a record is of, its key, and the packages it depends on.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine

Record = dict[str, Any]


def key_of(record: Record, names: Sequence[str]) -> tuple[Any, ...]:
    """Return what a record is of; a later record of the same replaces it.

    >>> key_of({"set": "wine", "seed": 0, "score": 2.0}, ["set", "seed", "fold"])
    ('wine', 0, None)
    """
    return tuple(record.get(name) for name in names)


def merged(records: Iterable[Record], names: Sequence[str]) -> list[Record]:
    """Keep the last record of each key."""
    return list({key_of(record, names): record for record in records}.values())


def done(records: Iterable[Record], names: Sequence[str]) -> set[tuple[Any, ...]]:
    """Return the keys that need not be measured again; failures are not among them."""
    return {key_of(record, names) for record in records if "error" not in record}


def origin(packages: Iterable[str]) -> Record:
    """Return the machine, the commit, the date and the versions of packages that are there."""
    versions = {name: found for name in packages if (found := _version(name)) is not None}
    return {**describe_machine(), "versions": versions}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# Files ------------------------------------------------------------------------------------------


def write(path: Path, records: Iterable[Record]) -> None:
    """Write records, one per line."""
    lines = ",\n".join(json.dumps(_plain(record), allow_nan=False) for record in records)
    replace_text(path, f"[\n{lines}\n]\n")


def replace_text(path: Path, text: str) -> None:
    """Write a file in one step, so that an interrupted run leaves a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, encoding="utf-8")
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
    return [_figures(record) for record in json.loads(path.read_text(encoding="utf-8"))]


def joined(files: Iterable[Path], names: Sequence[str]) -> list[Record]:
    """Read result files; later ones take precedence."""
    return merged((record for file in files for record in read(file)), names)


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
