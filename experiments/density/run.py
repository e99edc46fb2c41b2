"""Fitting each model to each set, and scoring the test rows."""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from benchmarks.likelihood.fitted import MissingPackageError
from benchmarks.likelihood.record import summary
from benchmarks.likelihood.sets import Rows
from experiments.context import Context
from experiments.density.models import Budget, fit_model, takes_gaps
from experiments.density.published import split_of
from experiments.registry import Record

FLOOR = math.log(1e-40)  # of the authors' likelihood


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/density.toml`."""

    sets: tuple[str, ...]
    models: tuple[str, ...]
    width: int
    steps: int
    seconds: float
    gas_seconds: float
    effort: str
    ours_seconds: float
    einet_seconds: float
    nsf_seconds: float


def run(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Yield the test log-likelihood of each model on each set."""
    jobs = list(itertools.product(settings.sets, settings.models))
    context.bar.expect(len(jobs))
    for name, model in jobs:
        if not context.todo(set=name, model=model):
            continue
        try:
            found = _record(settings, seed, context, name, model)
        except MissingPackageError as missing:
            print(f"{model} skipped: {missing}")
            continue
        yield {"set": name, "model": model, **found}


def _record(settings: Settings, seed: int, context: Context, name: str, model: str) -> Record:
    split, original = split_of(name, lambda: context.data)
    if not takes_gaps(model):
        split = replace(split, partial=None)
    started = time.perf_counter()
    fitted = fit_model(model, split, _budget(settings, name), seed, context.device)
    fit_s = round(time.perf_counter() - started, 2)
    scores = (fitted.exact or fitted.score)(split.test)
    return {
        **summary(scores),
        "test_floored": floored(scores),
        "train_rows": len(split.train),
        "partial_rows": 0 if split.partial is None else len(split.partial),
        "published_split": original,
        "fit_s": fit_s,
        "fitted": _told(fitted.settings),
    }


def floored(scores: Rows) -> float:
    """Return the mean as the authors' code has it, which counts no row below log(1e-40)."""
    return float(np.maximum(np.nan_to_num(scores, nan=-np.inf), FLOOR).mean())


def _budget(settings: Settings, name: str) -> Budget:
    return Budget(
        width=settings.width,
        steps=settings.steps,
        seconds=settings.gas_seconds if name == "gas" else settings.seconds,
        effort=settings.effort,
        ours_seconds=settings.ours_seconds,
        einet_seconds=settings.einet_seconds,
        nsf_seconds=settings.nsf_seconds,
    )


def _told(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a fit; of the members of an ensemble only how many there are."""
    members = fitted.get("members")
    return {**fitted, "members": len(members)} if members is not None else fitted
