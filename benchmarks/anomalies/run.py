"""AUROC and average precision of detectors on the sets of ADBench, with and without gaps."""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.anomalies.models import (
    IMPUTATIONS,
    MODELS,
    OURS,
    available,
    finite,
    fit_ours,
    fit_peer,
)
from benchmarks.anomalies.report import KEY
from benchmarks.anomalies.sets import FILES, MISSING, Split, cut, load
from benchmarks.data import data_folder
from benchmarks.pages import command
from benchmarks.records import Record, done, earlier, key_of, merged, origin, write

PACKAGES = ("numpy", "scikit-learn", "pyod")


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmark, or `report` on result files."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] == "report":
        from benchmarks.anomalies.report import main as report

        report(words[1:])
        return
    arguments = _parser().parse_args(words)
    folder, out = data_folder(arguments.data), Path(arguments.out)
    records = earlier(out, arguments.append)
    models = [name for name in arguments.models if _told(name)]
    made = {**origin(PACKAGES), "command": command("benchmarks.anomalies", words)}
    for name in arguments.sets:
        rows, labels = load(folder, name)
        for seed in arguments.seeds:
            for missing in arguments.missing:
                split = cut(name, rows, labels, seed, missing)
                for job in _jobs(split, models, seed, missing):
                    if key_of(job, KEY) in done(records, KEY):
                        continue
                    record = {**job, **measured(split, job), **made}
                    print({k: record.get(k) for k in (*KEY, "auroc", "ap", "fit_s", "error")})
                    sys.stdout.flush()
                    records = merged([*records, record], KEY)
                    write(out, records)


def measured(split: Split, job: Record) -> Record:
    """Fit one detector to the training rows and score the test rows."""
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of iterative imputation that has not converged
            if job["model"] == OURS:
                score = fit_ours(split.train, job["seed"])
            else:
                score = fit_peer(job["model"], split.train, job["seed"], job["imputation"])
            fitted = time.perf_counter()
            found = finite(score(split.test))
    except Exception as error:  # a peer's failure is a result
        return {"error": f"{type(error).__name__}: {error}"}
    done = time.perf_counter()
    return {
        "auroc": float(roc_auc_score(split.labels, found)),
        "ap": float(average_precision_score(split.labels, found)),
        "train_rows": len(split.train),
        "test_rows": len(split.test),
        "columns": split.train.shape[1],
        "test_anomalies": int(split.labels.sum()),
        "fit_s": round(fitted - started, 3),
        "score_s": round(done - fitted, 3),
    }


def _jobs(split: Split, models: Sequence[str], seed: int, missing: float) -> Iterator[Record]:
    for model in models:
        fills = IMPUTATIONS if missing and model != OURS else (None,)
        for fill in fills:
            job = {"set": split.name, "model": model, "seed": seed}
            yield {**job, "missing": missing, "imputation": fill}


def _told(name: str) -> bool:
    """Say why a model is skipped."""
    reason = available(name)
    if reason:
        print(f"{name} skipped: {reason}")
    return reason is None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anomalies", description=__doc__)
    parser.add_argument(
        "--data", help="folder of data sets", default=os.environ.get("MARGINALS_DATA")
    )
    parser.add_argument("--out", required=True, help="result file")
    parser.add_argument("--append", action="store_true", help="go on with a result file")
    parser.add_argument("--sets", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--missing", nargs="+", type=float, default=[0.0, MISSING])
    return parser
