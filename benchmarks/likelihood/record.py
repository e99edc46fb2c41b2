"""One line of the scoreboard, and the files that hold them."""

import json
import math
import os
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.likelihood.fitted import Fitted
from benchmarks.likelihood.sets import Rows, Split
from benchmarks.machine import describe_machine

TIMED = 10_000  # rows scored and drawn for the times
KEY = ("set", "model", "seed", "fold", "partial")
PACKAGES = ("numpy", "scikit-learn", "zuko", "spflow", "pyvinecopulib")

Record = dict[str, Any]


def measure(split: Split, fit: Callable[[], Fitted]) -> Record:
    """Fit a model, score its test rows and take the times."""
    started = time.perf_counter()
    fitted = fit()
    fit_s = time.perf_counter() - started
    repeated = np.resize(split.test, (TIMED, split.test.shape[1]))
    started = time.perf_counter()
    fitted.score(repeated)
    score_s = time.perf_counter() - started
    started = time.perf_counter()
    fitted.sample(TIMED)
    sample_s = time.perf_counter() - started
    exact = fitted.exact or fitted.score
    return {
        **summary(exact(split.test)),
        "val_mean": float(np.mean(exact(split.val))),
        "fit_s": round(fit_s, 3),
        "score_s": round(score_s, 4),
        "sample_s": round(sample_s, 4),
        "train_rows": len(split.train) + (0 if split.partial is None else len(split.partial)),
        "settings": fitted.settings,
    }


def summary(scores: Rows) -> Record:
    """Describe the scores of test rows; every row counts in every figure."""
    undefined = np.isnan(scores)
    # A row without a score is one the model failed on: it counts as impossible.
    scores = np.where(undefined, -np.inf, scores)
    return {
        "test_mean": float(scores.mean()),
        "test_median": float(np.median(scores)),
        "test_min": float(scores.min()),
        "test_rows": len(scores),
        "rows_minus_inf": int(np.isneginf(scores).sum()),
        "rows_undefined": int(undefined.sum()),
    }


def origin() -> Record:
    """Return the machine, the commit, the date and the versions."""
    versions = {name: found for name in PACKAGES if (found := _version(name)) is not None}
    return {**describe_machine(), "versions": versions}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def key(record: Record) -> tuple[Any, ...]:
    """Return what a record is of; a later record of the same replaces it."""
    return tuple(record.get(name) for name in KEY)


def merged(records: Iterable[Record]) -> list[Record]:
    """Keep the last record of each fit."""
    return list({key(record): record for record in records}.values())


def write(path: Path, records: list[Record]) -> None:
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
