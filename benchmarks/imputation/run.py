"""Imputation: cells of complete tables are hidden, filled by each method, and compared.

Every method sees the table with gaps alone, and fills the table that it learned from.
"""

import argparse
import itertools
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.clock import cpu_seconds
from benchmarks.data import data_folder
from benchmarks.imputation import report
from benchmarks.imputation.filled import MissingPackageError
from benchmarks.imputation.masks import MECHANISMS, hidden
from benchmarks.imputation.methods import LEVEL, METHODS
from benchmarks.imputation.metrics import figures
from benchmarks.imputation.report import KEY
from benchmarks.imputation.tables import MEASURED, MOST_ROWS, TABLES, MissingTableError, load
from benchmarks.pages import command
from benchmarks.records import Record, done, earlier, key_of, merged, origin, write

PACKAGES = ("numpy", "pandas", "scikit-learn", "miceforest", "lightgbm")


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmark, or `report` what was measured."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["report"]:
        report.main(words[1:])
        return
    arguments = _parser().parse_args(words)
    out = Path(arguments.out)
    records = earlier(out, arguments.append)
    told = command("benchmarks.imputation", words)
    for record in measured(arguments, records):
        records = merged([*records, {**record, "command": told}], KEY)
        write(out, records)
        print(_line(record), flush=True)


def measured(arguments: argparse.Namespace, earlier: Sequence[Record]) -> Iterator[Record]:
    """Yield a record for each fill that is not among the earlier ones; failures are tried again."""
    known = done(earlier, KEY)
    missing: set[str] = set()
    folder = data_folder(arguments.data) if arguments.data else None
    settings = itertools.product(arguments.seeds, arguments.shares, arguments.mechanisms)
    for seed, share, mechanism in settings:
        for name in arguments.tables:
            try:
                table = load(name, folder, arguments.rows)
            except MissingTableError as cause:
                print(f"{name} skipped: {cause}", flush=True)
                continue
            for method in arguments.methods:
                about = {
                    **{"table": name, "method": method, "mechanism": mechanism},
                    **{"share": share, "seed": seed},
                }
                if key_of(about, KEY) in known or method in missing:
                    continue
                try:
                    yield {**about, **_measure(table, about), **origin(PACKAGES)}
                except MissingPackageError as cause:
                    missing.add(method)
                    print(f"{method} skipped: {cause}", flush=True)
                except Exception as cause:
                    # One failure must not end a run of hours; it is shown in the table.
                    traceback.print_exc()
                    told = f"{type(cause).__name__}: {cause}"
                    yield {**about, "error": told, **origin(PACKAGES)}


def _measure(table: pd.DataFrame, about: Record) -> Record:
    mask = hidden(table, about["mechanism"], about["share"], about["seed"])
    holes = table.mask(mask)
    started = time.process_time()
    with cpu_seconds():
        filled = METHODS[about["method"]](holes, about["seed"])
    seconds = time.process_time() - started
    return {
        **figures(table, mask, filled, LEVEL),
        "rows": len(table),
        "columns": table.shape[1],
        "seconds": round(seconds, 3),
        "fit_s": None if filled.fit_s is None else round(filled.fit_s, 3),
        "draws": len(filled.draws),
        "settings": filled.settings,
    }


def _line(record: Record) -> str:
    start = (
        f"{record['table']} {record['mechanism']} {record['share']:.0%} seed {record['seed']} "
        f"{record['method']}:"
    )
    if "error" in record:
        return f"{start} failed, {record['error']}"
    found = [
        f"{name} {record[name]:.3f}"
        for name in ("rmse", "crps", "coverage", "accuracy")
        if record[name] is not None
    ]
    return f"{start} {', '.join(found)}, {record['seconds']:.1f} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        prog="python -m benchmarks.imputation",
        epilog="`python -m benchmarks.imputation report FILE...` prints the tables.",
    )
    parser.add_argument("--data", help="folder of data sets; without it, scikit-learn's own alone")
    parser.add_argument("--out", required=True, help="result file, JSON")
    parser.add_argument("--tables", nargs="+", default=list(MEASURED), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="the most rows of a table")
    parser.add_argument("--append", action="store_true", help="add to the file what it lacks")
    return parser
