"""Fitting each model to each set, and scoring the test rows."""

import itertools
import math
import time
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

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


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each set and model."""
    every = itertools.product(settings.sets, settings.models)
    return [{"set": name, "model": model} for name, model in every]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the test log-likelihood of a model on a set."""
    name, model = job["set"], job["model"]
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
