"""The scoreboard: held-out likelihood and times of our models and of their peers.

Every model sees the same rows. Everything is chosen on validation; test rows are scored once, and
none is dropped from any mean.
"""

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import data_folder
from benchmarks.likelihood import report
from benchmarks.likelihood.classical import fit_gmm, fit_kde, fit_vine
from benchmarks.likelihood.fitted import Fitted, MissingPackageError
from benchmarks.likelihood.neural import fit_einet, fit_nsf
from benchmarks.likelihood.ours import EFFORTS, fit_default, fit_paper
from benchmarks.likelihood.record import KEY, PACKAGES, measure
from benchmarks.likelihood.sets import LARGE, NAMES, Split, splits
from benchmarks.records import Record, done, earlier, key_of, merged, origin, write

MODELS: dict[str, Callable[..., Fitted]] = {
    **{effort: partial(fit_default, effort=effort) for effort in EFFORTS},
    "paper": fit_paper,
    "gmm": fit_gmm,
    "kde": fit_kde,
    "vine": fit_vine,
    "einet": fit_einet,
    "nsf": fit_nsf,
}
TAKES_GAPS = frozenset({*EFFORTS, "paper"})
TAKES_SECONDS = frozenset({"paper", "einet", "nsf"})


def main(words: Sequence[str] | None = None) -> None:
    """Run the scoreboard, or `report` what was measured."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["report"]:
        report.main(words[1:])
        return
    arguments = _parser().parse_args(words)
    out = Path(arguments.out)
    records = earlier(out, arguments.append)
    folder = data_folder(arguments.data) if set(arguments.sets) & set(LARGE) else None
    for record in measured(arguments, folder, records):
        records = merged([*records, record], KEY)
        write(out, records)
        print(_line(record), flush=True)


def measured(
    arguments: argparse.Namespace, folder: Path | None, earlier: Sequence[Record]
) -> Iterator[Record]:
    """Yield a record for each fit that is not among the earlier ones; failures are tried again."""
    known = done(earlier, KEY)
    missing: dict[str, str] = {}
    for seed in arguments.seeds:
        for name in arguments.sets:
            for split in splits(name, folder):
                for model in arguments.models:
                    given = _given(split, model, arguments.partial)
                    about = _about(given, model, seed)
                    if key_of(about, KEY) in known or model in missing:
                        continue
                    try:
                        found = _measure(given, model, seed, arguments)
                        yield {**about, **found, **origin(PACKAGES)}
                    except MissingPackageError as cause:
                        missing[model] = str(cause)
                        print(f"{model} skipped: {cause}", flush=True)
                    except Exception as cause:
                        # One failure must not end a run of hours; it is shown in the table.
                        traceback.print_exc()
                        told = f"{type(cause).__name__}: {cause}"
                        yield {**about, "error": told, **origin(PACKAGES)}


def _given(split: Split, model: str, wanted: bool) -> Split:
    return split if wanted and model in TAKES_GAPS else replace(split, partial=None)


def _about(split: Split, model: str, seed: int) -> Record:
    added = split.partial is not None
    return {"set": split.name, "model": model, "seed": seed, "fold": split.fold, "partial": added}


def _measure(split: Split, model: str, seed: int, arguments: argparse.Namespace) -> Record:
    options: dict[str, Any] = {"seed": seed, "device": arguments.device}
    if model in TAKES_SECONDS:
        options["seconds"] = arguments.seconds
    found = measure(split, lambda: MODELS[model](split, **options))
    limit = arguments.seconds if model in TAKES_SECONDS else None
    return {**found, "device": arguments.device, "seconds_limit": limit}


def _line(record: Record) -> str:
    fold = "" if record["fold"] is None else f" fold {record['fold']}"
    start = f"{record['set']} {record['model']} seed {record['seed']}{fold}:"
    if "error" in record:
        return f"{start} failed, {record['error']}"
    return (
        f"{start} test {record['test_mean']:.3f} (median {record['test_median']:.2f}, min "
        f"{record['test_min']:.1f}, {record['rows_minus_inf']} at -inf), fit {record['fit_s']:.1f} "
        f"s, {record['settings']}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        prog="python -m benchmarks.likelihood",
        epilog="`python -m benchmarks.likelihood report FILE...` prints the table.",
    )
    parser.add_argument("--data", help="folder of data sets, default MARGINALS_DATA")
    parser.add_argument("--out", required=True, help="result file, JSON")
    parser.add_argument("--sets", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="limit of a fit of paper, einet and nsf"
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="add training rows with gaps for models that take them",
    )
    parser.add_argument("--append", action="store_true", help="add to the file what it lacks")
    return parser
