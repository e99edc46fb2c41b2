"""Fitting detectors to rows with missing cells and scoring others that miss as many."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.impute import SimpleImputer
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from benchmarks.anomalies.models import finite
from benchmarks.anomalies.sets import FILES, Labels, Rows, Split, cut, load
from experiments.context import Context
from experiments.paper_model import Training, fit_paper, logpdf
from experiments.registry import Record
from marginals import MDMAOutlierDetector

SIMULATED = "simulated"
# Rows to scores, high for anomalies.
Score = Callable[[Rows], Any]


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/anomalies.toml`."""

    sets: tuple[str, ...]
    shares: tuple[float, ...]
    models: tuple[str, ...]
    most_rows: int
    width: int
    depth: int
    hidden: int
    batch: int
    steps: int


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each set, share of missing cells and detector."""
    every = itertools.product(settings.sets, settings.shares, settings.models)
    return [{"set": name, "share": share, "model": model} for name, share, model in every]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return AUROC and average precision of a detector."""
    split = split_of(settings, context, job["set"], job["share"], seed)
    return _measured(settings, job["model"], split, seed, context.device)


def split_of(settings: Settings, context: Context, name: str, share: float, seed: int) -> Split:
    """Return training and test rows of a set, with a share of their cells struck out."""
    if name == SIMULATED:
        rows, labels = simulated(seed)
    elif name in FILES:
        rows, labels = load(context.data, name)
    else:
        raise SystemExit(
            f"Expected `sets` to be among {', '.join((*FILES, SIMULATED))}; got {name!r}."
        )
    chosen = np.random.default_rng(seed).permutation(len(rows))[: settings.most_rows]
    return cut(name, rows[chosen], labels[chosen], seed, share)


def simulated(seed: int, count: int = 300) -> tuple[Rows, Labels]:
    """Return a cloud of rows and some far from it, for tests without data sets."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(count) % 10 == 0).astype(np.int64)
    rows = generator.normal(size=(count, 3)) * np.where(labels, 4.0, 1.0)[:, None]
    return rows, labels


def _measured(settings: Settings, model: str, split: Split, seed: int, device: str) -> Record:
    started = time.perf_counter()
    score = _fitted(settings, model, split.train, seed, device)
    fitted = time.perf_counter()
    found = finite(score(split.test))
    return {
        "auroc": float(roc_auc_score(split.labels, found)),
        "ap": float(average_precision_score(split.labels, found)),
        "train_rows": len(split.train),
        "test_anomalies": int(split.labels.sum()),
        "fit_s": round(fitted - started, 2),
        "score_s": round(time.perf_counter() - fitted, 2),
    }


def _fitted(settings: Settings, model: str, train: Rows, seed: int, device: str) -> Score:
    if model == "ours":
        detector = MDMAOutlierDetector(random_state=seed).fit(train)
        return lambda rows: -detector.score_samples(rows)
    if model == "paper":
        return _density(settings, train, seed, device)
    if model == "forest":
        imputer = SimpleImputer(keep_empty_features=True)
        forest = IsolationForest(random_state=seed).fit(imputer.fit_transform(train))
        return lambda rows: -forest.score_samples(imputer.transform(rows))
    raise SystemExit(f"Expected `models` to be among ours, paper and forest; got {model!r}.")


def _density(settings: Settings, train: Rows, seed: int, device: str) -> Score:
    """Score rows by minus the log density of their known cells under the paper's model."""
    scaler = StandardScaler().fit(train)
    held = len(train) // 10
    rows = scaler.transform(train)
    shape = {"width": settings.width, "depth": settings.depth, "hidden": settings.hidden}
    how = {"batch": settings.batch, "steps": settings.steps, "seed": seed}
    known = rows[~np.isnan(rows).all(1)]
    model, _ = fit_paper(known[held:], known[:held], Training(**shape, **how, device=device))
    model.double()
    return lambda points: -logpdf(model, scaler.transform(points))
