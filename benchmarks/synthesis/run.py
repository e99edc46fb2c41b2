"""Quality of synthetic rows of mixed tables, beside plain baselines."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.data import data_folder
from benchmarks.pages import command
from benchmarks.records import Record, done, earlier, key_of, origin, write
from benchmarks.synthesis.models import DRAWERS
from benchmarks.synthesis.report import KEY
from benchmarks.synthesis.tables import FILES, cut, load, with_gaps
from marginals.synthesis import synthesis_report

MODELS = (*DRAWERS, "holdout")
PACKAGES = ("numpy", "scikit-learn")


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmark, or `report` on result files."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] == "report":
        from benchmarks.synthesis.report import main as report

        report(words[1:])
        return
    arguments = _parser().parse_args(words)
    folder, out = data_folder(arguments.data), Path(arguments.out)
    records = earlier(out, arguments.append)
    made = {**origin(PACKAGES), "command": command("benchmarks.synthesis", words)}
    for name in arguments.tables:
        frame = load(folder, name)
        for seed in arguments.seeds:
            for model in arguments.models:
                job = {"table": name, "model": model, "seed": seed}
                if key_of(job, KEY) in done(records, KEY):
                    continue
                records.append({**job, **measured(frame, model, seed), **made})
                write(out, records)
                print(job, records[-1]["summary"], flush=True)


def measured(frame: pd.DataFrame, model: str, seed: int, **options: Any) -> Record:
    """Draw as many rows as are fitted and report on them; "holdout" is the rows held out.

    Gaps of random real rows are put into drawn rows, so that no model is told by them.
    """
    real, unseen = cut(frame, seed)
    started = time.perf_counter()
    if model == "holdout":
        # Half of them stand for synthetic rows, the others judge.
        middle = len(unseen) // 2
        drawn, unseen = unseen.iloc[:middle], unseen.iloc[middle:]
    else:
        drawn = DRAWERS[model](real, len(real), seed, **options)
        drawn = with_gaps(drawn, real, seed)
    seconds = time.perf_counter() - started
    report = synthesis_report(real, drawn, unseen, random_state=seed)
    told = report.to_dict()
    return {
        **{"rows": told["rows"], "columns": real.shape[1], "seconds": round(seconds, 2)},
        **{"summary": told["summary"], "two_sample": told["two_sample"]},
        "copying": told["copying"],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthesis", description=__doc__)
    parser.add_argument("--data", help="folder of data", default=os.environ.get("MARGINALS_DATA"))
    parser.add_argument("--out", required=True, help="result file")
    parser.add_argument("--append", action="store_true", help="go on with a result file")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    return parser
