"""Result files: JSON with where each record was measured, and the arrays of figures beside it.

A file lists its runs (command, settings, commit, versions, machine); each record names its own by
number. Both files are written whole after each record.
"""

import datetime
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import numpy as np

from benchmarks.likelihood.fitted import MissingPackageError
from benchmarks.machine import describe_machine
from experiments.config import SIZES, Config, Size, load
from experiments.context import Context
from experiments.progress import Bar
from experiments.registry import Experiment, Record, find

FOLDER = Path(__file__).parent / "results"
PACKAGES = (
    *("marginals", "torch", "numpy", "pandas", "scikit-learn"),
    *("zuko", "spflow", "pyvinecopulib", "causal-learn", "networkx"),
)


@final
@dataclass
class Results:
    """The content of a result file."""

    path: Path
    experiment: str
    size: Size
    runs: list[Record] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def write(self) -> None:
        """Write both files, the arrays first: a record has what its figures need."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.arrays:
            target = self.path.with_suffix(".npz")
            draft = target.with_name(f"{target.stem}.part.npz")
            np.savez_compressed(draft, **self.arrays)  # type: ignore[arg-type]
            os.replace(draft, target)
        head = {"experiment": self.experiment, "size": self.size, "runs": self.runs}
        lines = ",\n  ".join(json.dumps(_plain(each), allow_nan=False) for each in self.records)
        draft = self.path.with_name(f"{self.path.name}.part")
        opened = json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}")
        draft.write_text(f'{opened},\n "records": [\n  {lines}\n ]\n}}\n')
        os.replace(draft, self.path)


def read(path: Path) -> Results:
    """Read a result file and its arrays."""
    content = json.loads(path.read_text())
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    if path.with_suffix(".npz").exists():
        with np.load(path.with_suffix(".npz")) as stored:
            arrays = {name: stored[name] for name in stored.files}
    records = [_figures(record) for record in content["records"]]
    return Results(path, content["experiment"], content["size"], content["runs"], records, arrays)


def newest(name: str, folder: Path = FOLDER, sizes: Sequence[Size] = SIZES) -> Path | None:
    """Return the newest result file of an experiment, of the first size that has one."""
    for size in sizes:
        if files := sorted(folder.glob(f"{name}_{size}_*.json")):
            return files[-1]
    return None


def merge(paths: Sequence[Path], folder: Path = FOLDER) -> Path:
    """Add result files of other seeds or parts to the newest in a folder, and return its path.

    All must be of one experiment and size, with the same settings but for the parts.
    """
    found = [_given(path) for path in paths]
    kinds = {(each.experiment, each.size) for each in found}
    if len(kinds) != 1:
        told = ", ".join(sorted(" ".join(kind) for kind in kinds)) or "no file"
        raise SystemExit(f"Expected result files of one experiment and size; got {told}.")
    ((name, size),) = kinds
    into = newest(name, folder, (size,))
    target = Results(folder / paths[0].name, name, size) if into is None else read(into)
    for each in found:
        for settings in (run["settings"] for run in each.runs):
            _check_settings(find(name), target, settings)
        twice = _keys(each) & _keys(target)
        if twice:
            told = ", ".join(str(value) for value in min(twice, key=str))
            raise SystemExit(
                f"Expected records that {target.path} lacks; got seed {told} again in {each.path}."
            )
        before = len(target.runs)
        target.runs += each.runs
        target.records += [{**r, "run": r["run"] + before} for r in each.records]
        target.arrays = {**each.arrays, **target.arrays}  # pictures are of the first seed
    target.write()
    return target.path


def _given(path: Path) -> Results:
    try:
        return read(path)
    except (OSError, ValueError, TypeError, KeyError) as cause:
        raise SystemExit(
            f"Expected a result file of an experiment; got {path}, which cannot be read as one: "
            f"{type(cause).__name__}: {cause}."
        ) from cause


def run(
    experiment: Experiment,
    size: Size,
    config: Config,
    *,
    command: str,
    device: str,
    data: str | None = None,
    folder: Path = FOLDER,
    resume: bool = False,
) -> Path:
    """Run an experiment for each seed, and return the result file, which is kept whole."""
    results = _opened(experiment, size, folder, resume)
    _check_settings(experiment, results, _as_json(config.settings))
    results.runs.append(
        {
            "command": command,
            "settings": _as_json(config.settings),
            **describe_machine(),
            "device": device,
            "versions": _versions(),
        }
    )
    for seed in config.seeds:
        _run_seed(experiment, results, config, seed, device, data)
    return results.path


def _run_seed(
    experiment: Experiment,
    results: Results,
    config: Config,
    seed: int,
    device: str,
    data: str | None,
) -> None:
    context = Context(device, data, results.arrays)
    jobs = experiment.jobs(config.settings, seed)
    bar = Bar(f"{experiment.name}, seed {seed}", len(jobs))
    with bar.shown:
        for job in jobs:
            about = {"seed": seed, **job}
            if any(about.items() <= _words(record).items() for record in results.records):
                bar.advance()
                continue
            bar.doing(", ".join(str(value) for value in job.values()))
            started = time.perf_counter()
            try:
                found = experiment.measure(config.settings, seed, context, job)
            except MissingPackageError as missing:
                bar.advance(f"skipped: {missing}")
                continue
            seconds = round(time.perf_counter() - started, 2)
            record = {**about, **found, "seconds": seconds, "run": len(results.runs) - 1}
            results.records.append(record)
            results.write()
            bar.advance(f"{seconds:.1f} s")


def _keys(results: Results) -> set[tuple[Any, ...]]:
    """Return what each record is of: its seed, and its values under the names that jobs have."""
    experiment = find(results.experiment)
    jobs = experiment.jobs(load(experiment, results.size).settings, 0)
    names = ["seed", *dict.fromkeys(name for job in jobs for name in job)]
    return {tuple(record.get(name) for name in names) for record in results.records}


def _words(record: Record) -> Record:
    """Return what a record may be of: its words and numbers."""
    return {name: each for name, each in record.items() if not isinstance(each, dict | list)}


def _opened(experiment: Experiment, size: Size, folder: Path, resume: bool) -> Results:
    earlier = newest(experiment.name, folder, (size,)) if resume else None
    if earlier is not None:
        return read(earlier)
    date = datetime.datetime.now(datetime.UTC).date()
    path = folder / f"{experiment.name}_{size}_{date}.json"
    if path.exists():
        raise SystemExit(
            f"Expected no result file of today; got {path}. Give --resume to add what it lacks, "
            "another --output, or remove it."
        )
    return Results(path, experiment.name, size)


def _check_settings(experiment: Experiment, results: Results, now: Record) -> None:
    for earlier in results.runs:
        before = earlier["settings"]
        told = _shared(experiment, now, before)
        differ = [name for name in told if now[name] != before.get(name)]
        if differ:
            name = differ[0]
            raise SystemExit(
                f"Expected the settings of {results.path} to add to it: {name!r} was "
                f"{before.get(name)!r}; got {now[name]!r}. Set it alike, or write another file."
            )


def _shared(experiment: Experiment, now: Record, before: Record) -> list[str]:
    """Return the settings in which two runs must agree to share a file."""

    def is_shared(name: str) -> bool:
        owner = next((model for model in experiment.own if name.startswith(f"{model}_")), None)
        both = (now, before) if owner is not None else ()
        chosen = [run.get("models") or run["shown"] for run in both]
        return all(any(each.split("_")[0] == owner for each in names) for names in chosen)

    return [name for name in now if name not in experiment.parts and is_shared(name)]


def _as_json(settings: Any) -> Record:
    plain: Record = json.loads(json.dumps(asdict(settings)))
    return plain


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> Any:
    """Return what JSON can hold; figures that it cannot are written as words."""
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
