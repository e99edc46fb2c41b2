"""Result files: JSON with where each record was measured, and the arrays of figures next to it.

A file lists its runs (command, settings, commit, versions, machine); each record has the number of
its run. Both files are written whole after each record.
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from studies.harness.config import SIZES, Size
from studies.harness.study import Record, Study, find

FOLDER = Path(__file__).parents[1] / "results"


@final
@dataclass
class Results:
    """The content of a result file."""

    path: Path
    study: str
    size: Size
    runs: list[Record] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    @property
    def good(self) -> list[Record]:
        """The records without failures."""
        return [record for record in self.records if "failure" not in record]

    def write(self) -> None:
        """Write both files, the arrays first: a record has what its figures need."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.arrays:
            target = self.path.with_suffix(".npz")
            draft = target.with_name(f"{target.stem}.part.npz")
            np.savez_compressed(draft, **self.arrays)  # type: ignore[arg-type]
            os.replace(draft, target)
        head = {"study": self.study, "size": self.size, "runs": self.runs}
        lines = ",\n  ".join(json.dumps(_plain(each), allow_nan=False) for each in self.records)
        draft = self.path.with_name(f"{self.path.name}.part")
        opened = json.dumps(_plain(head), indent=1, allow_nan=False).removesuffix("\n}")
        draft.write_text(f'{opened},\n "records": [\n  {lines}\n ]\n}}\n', encoding="utf-8")
        os.replace(draft, self.path)


def read(path: Path) -> Results:
    """Read a result file and its arrays."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        if path.with_suffix(".npz").exists():
            with np.load(path.with_suffix(".npz")) as stored:
                arrays = {name: stored[name] for name in stored.files}
        records = [_figures(record) for record in content["records"]]
        return Results(path, content["study"], content["size"], content["runs"], records, arrays)
    except (OSError, ValueError, TypeError, KeyError) as cause:
        raise SystemExit(
            f"Expected a result file of a study; got {path}, which cannot be read as one: "
            f"{type(cause).__name__}: {cause}."
        ) from cause


def newest(name: str, folder: Path = FOLDER, sizes: Sequence[Size] = SIZES) -> Path | None:
    """Return the newest result file of a study, of the first size that has one."""
    for size in sizes:
        if files := sorted(folder.glob(f"{name}_{size}_*.json")):
            return files[-1]
    return None


def merge(paths: Sequence[Path], folder: Path = FOLDER, replace: bool = False) -> Path:
    """Add result files of other seeds or parts to the newest in a folder, and return its path.

    All must be of one study and size, with the same settings apart from the study's parts.

    Args:
        paths: The files to add.
        folder: Where the newest file is.
        replace: Whether records that were measured before are replaced; otherwise they are refused.
    """
    found = [read(path) for path in paths]
    kinds = {(each.study, each.size) for each in found}
    if len(kinds) != 1:
        listed = ", ".join(sorted(" ".join(kind) for kind in kinds)) or "no file"
        raise SystemExit(f"Expected result files of one study and size; got {listed}.")
    ((name, size),) = kinds
    study, into = find(name), newest(name, folder, (size,))
    target = Results(folder / paths[0].name, name, size) if into is None else read(into)
    for each in found:
        for run in each.runs:
            check_settings(study, target, run["settings"])
        twice = _keys(study, each) & _keys(study, target)
        if replace:
            target.records = [r for r in target.records if _key(study, r) not in twice]
        elif twice:
            listed = ", ".join(str(value) for value in min(twice, key=str) if value is not None)
            raise SystemExit(
                f"Expected records that {target.path} lacks; got seed {listed} again in "
                f"{each.path}."
            )
        before = len(target.runs)
        target.runs += each.runs
        target.records += [{**r, "run": r["run"] + before} for r in each.records]
        target.arrays = {**each.arrays, **target.arrays}  # pictures are of the first seed
    _drop_runs(target)
    target.write()
    return target.path


def _drop_runs(results: Results) -> None:
    """Drop the runs of which no record is left."""
    kept = sorted({record["run"] for record in results.records})
    results.runs = [results.runs[number] for number in kept]
    results.records = [{**r, "run": kept.index(r["run"])} for r in results.records]


def _keys(study: Study, results: Results) -> set[tuple[Any, ...]]:
    return {_key(study, record) for record in results.good}


def _key(study: Study, record: Record) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in ("seed", *study.key))


def check_settings(study: Study, results: Results, now: Record) -> None:
    """Refuse to add a run to a file whose runs had other settings."""
    for run in results.runs:
        before = run["settings"]
        for name in shared_settings(study, now, before):
            if name in before and now[name] != before[name]:
                raise SystemExit(
                    f"Expected the settings of {results.path} to add to it: {name!r} was "
                    f"{before[name]!r}; got {now[name]!r}. Set it alike, or write another file."
                )


def shared_settings(study: Study, now: Record, before: Record) -> list[str]:
    """Return the settings in which two runs must agree to share a file."""

    def is_shared(name: str) -> bool:
        owner = next((model for model in study.own if name.startswith(f"{model}_")), None)
        both = (now, before) if owner is not None else ()
        chosen = [run.get("models") or run.get("shown") or [owner] for run in both]
        return all(any(each.split("_")[0] == owner for each in names) for names in chosen)

    return [name for name in now if name not in study.parts and is_shared(name)]


def _plain(value: Any) -> Any:
    """Return what JSON can hold: figures that are not finite become words."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _figures(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _figures(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_figures(each) for each in value]
    return float(value) if value in ("inf", "-inf", "nan") else value
