"""Fitting rows with missing cells and scoring complete rows."""

import time
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from benchmarks.likelihood.sets import Split
from experiments.context import Context
from experiments.missing.data import GAPS, load, strike
from experiments.missing.models import Fitted, filled, flow, ours, paper
from experiments.paper_model import Training
from experiments.registry import Record

# Without gaps all ways to fill them are one: the flow is fitted once, under this name.
COMPLETE = "nsf_mice"


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/missing.toml`."""

    sets: tuple[str, ...]
    shares: tuple[float, ...]
    models: tuple[str, ...]
    train: int
    validation: int
    test: int
    width: int
    depth: int
    hidden: int
    batch: int
    steps: int
    ours_seconds: float
    nsf_transforms: int
    nsf_hidden: int
    nsf_seconds: float


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each set, share of cells struck out (None: gaps of its own) and model."""
    found: list[tuple[str, float | None, str]] = []
    for name in settings.sets:
        if name == GAPS:
            dropped = sorted({f"{model.split('_')[0]}_drop" for model in settings.models})
            found += [(name, None, model) for model in (*settings.models, *dropped)]
            continue
        for share in settings.shares:
            once = [m for m in settings.models if not m.startswith("nsf") or m == COMPLETE]
            found += [(name, share, model) for model in (settings.models if share else once)]
    return [{"set": name, "share": share, "model": model} for name, share, model in found]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the log-likelihood of complete test rows under a model."""
    counts, share = (settings.train, settings.validation, settings.test), job["share"]
    split = load(job["set"], lambda: context.data, counts, seed)
    split = strike(split, share, seed) if share else split
    score, told = _fitted(settings, job["model"], split, seed, context.device)
    scores = score(split.test)
    return {
        "test": float(scores.mean()),
        "test_median": float(np.median(scores)),
        "rows": len(split.train),
        "gaps": round(float(np.isnan(split.train).mean()), 4),
        **told,
    }


def _fitted(settings: Settings, model: str, split: Split, seed: int, device: str) -> Fitted:
    kind, _, fill = model.partition("_")
    started = time.perf_counter()
    if fill:
        split = filled(split, fill, seed)
    filled_at = time.perf_counter()
    score, fitted = _fit(settings, kind, split, seed, device)
    told = {
        "fill_s": round(filled_at - started, 2),
        "fit_s": round(time.perf_counter() - filled_at, 2),
        "fitted": fitted,
    }
    return score, told


def _fit(settings: Settings, kind: str, split: Split, seed: int, device: str) -> Fitted:
    if kind == "paper":
        shape = {"width": settings.width, "depth": settings.depth, "hidden": settings.hidden}
        how = {"batch": settings.batch, "steps": settings.steps, "seed": seed}
        return paper(split, Training(**shape, **how, device=device))
    if kind == "ours":
        return ours(split, settings.ours_seconds, seed, device)
    if kind == "nsf":
        torch.manual_seed(seed)
        seconds = settings.nsf_seconds
        return flow(split, settings.nsf_transforms, settings.nsf_hidden, seconds, device)
    raise SystemExit(f"Expected `models` to be paper, ours or nsf_<fill>; got {kind!r}.")
