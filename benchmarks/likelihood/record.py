"""One line of the scoreboard."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.likelihood.fitted import Fitted
from benchmarks.likelihood.sets import Rows, Split
from benchmarks.records import Record

TIMED = 10_000  # rows scored and drawn for the times
KEY = ("set", "model", "seed", "fold", "partial")
PACKAGES = ("numpy", "scikit-learn", "zuko", "spflow", "pyvinecopulib")


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
