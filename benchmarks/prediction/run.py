"""Prediction: a column given the others, with its distribution, complete and with gaps.

Every model learns from the same rows, and test rows are predicted once.
"""

import argparse
import itertools
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.clock import cpu_seconds
from benchmarks.data import data_folder
from benchmarks.imputation.run import PACKAGES
from benchmarks.imputation.tables import MissingTableError
from benchmarks.pages import command
from benchmarks.prediction import metrics, report
from benchmarks.prediction.models import LEVELS, MODELS
from benchmarks.prediction.report import KEY
from benchmarks.prediction.tasks import CLASSES, MOST_ROWS, TARGETS, Task, make_task
from benchmarks.records import Record, done, earlier, key_of, merged, origin, write

TABLES = [*TARGETS, *CLASSES]


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmark, or `report` what was measured."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["report"]:
        report.main(words[1:])
        return
    arguments = _parser().parse_args(words)
    out = Path(arguments.out)
    records = earlier(out, arguments.append)
    told = command("benchmarks.prediction", words)
    for record in measured(arguments, records):
        records = merged([*records, {**record, "command": told}], KEY)
        write(out, records)
        print({k: record[k] for k in record if k not in ("versions", "command")}, flush=True)


def measured(arguments: argparse.Namespace, earlier: Sequence[Record]) -> Iterator[Record]:
    """Yield a record for each fit that is not among the earlier ones; failures are tried again."""
    known = done(earlier, KEY)
    folder = data_folder(arguments.data) if arguments.data else None
    choices = itertools.product(arguments.seeds, arguments.missing, arguments.tables)
    for seed, missing, name in choices:
        try:
            task = make_task(name, folder, missing, seed, arguments.rows)
        except MissingTableError as cause:
            print(f"{name} skipped: {cause}", flush=True)
            continue
        for model in arguments.models:
            about = {"table": name, "model": model, "missing": missing, "seed": seed}
            if key_of(about, KEY) in known:
                continue
            try:
                yield {**about, **_measure(task, model, seed), **origin(PACKAGES)}
            except Exception as cause:
                # One failure must not end the run; it is shown in the table.
                traceback.print_exc()
                told = f"{type(cause).__name__}: {cause}"
                yield {**about, "error": told, **origin(PACKAGES)}


def _measure(task: Task, model: str, seed: int) -> Record:
    started = time.process_time()
    with cpu_seconds():
        answer, other = MODELS[model](task, seed)
    seconds = time.process_time() - started
    if task.is_class:
        found = metrics.of_classes(answer, other, task.y_test)
    else:
        found = metrics.of_numbers(answer, other, LEVELS, task.y_test.to_numpy(dtype=float))
    sizes = {"rows": len(task.y), "test_rows": len(task.y_test), "features": task.x.shape[1]}
    return {**found, **sizes, "seconds": round(seconds, 3)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        prog="python -m benchmarks.prediction",
        epilog="`python -m benchmarks.prediction report FILE...` prints the tables.",
    )
    parser.add_argument("--data", help="folder of data sets; without it, scikit-learn's own alone")
    parser.add_argument("--out", required=True, help="result file, JSON")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--missing", nargs="+", type=float, default=[0.0, 0.3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="the most rows of a table")
    parser.add_argument("--append", action="store_true", help="add to the file what it lacks")
    return parser
