"""Estimating copulas and comparing what they say with what is known."""

import itertools
import time
from dataclasses import asdict, dataclass
from typing import final

import numpy as np

from experiments.context import Context
from experiments.copulas.models import Estimated, gaussian, ours, paper, ranks, vine
from experiments.copulas.truth import SETS, Rows, counted
from experiments.paper_model import Training
from experiments.registry import Record


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/copulas.toml`."""

    sets: tuple[str, ...]
    models: tuple[str, ...]
    rows: int
    validation: int
    test: int
    thresholds: tuple[float, ...]
    width: int
    depth: int
    hidden: int
    batch: int
    steps: int
    ours_seconds: float


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each copula with what is known of it, and with each model."""
    every = itertools.product(settings.sets, ("truth", *settings.models))
    return [{"set": name, "model": model} for name, model in every]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return what is known of a copula, or what a model says of it."""
    name, model = job["set"], job["model"]
    if name not in SETS:
        raise SystemExit(f"Expected `sets` to be among {', '.join(SETS)}; got {name!r}.")
    streams = np.random.default_rng(seed).spawn(3)
    counts = (settings.rows, settings.validation, settings.test)
    train, val, test = (
        SETS[name].draw(count, stream) for count, stream in zip(counts, streams, strict=True)
    )
    started = time.perf_counter()
    found = _estimated(settings, name, model, train, val, seed, context.device)
    fit_s = round(time.perf_counter() - started, 2)
    score = None if found.logpdf is None else float(found.logpdf(test).mean())
    told = {"thresholds": list(settings.thresholds), "test": score, "fitted": found.told}
    return {**asdict(found.known), **told, "fit_s": fit_s}


def _estimated(
    settings: Settings, name: str, model: str, train: Rows, val: Rows, seed: int, device: str
) -> Estimated:
    q = settings.thresholds
    if model == "truth":
        return Estimated(SETS[name].logpdf, SETS[name].known(q), {})
    if model == "rows":
        return Estimated(None, counted(ranks(train), q), {})
    if model == "ours":
        return ours(train, val, q, settings.ours_seconds, seed, device)
    if model == "paper":
        shape = {"width": settings.width, "depth": settings.depth, "hidden": settings.hidden}
        how = {"batch": settings.batch, "steps": settings.steps, "seed": seed}
        return paper(train, val, q, Training(**shape, **how, device=device))
    # What needs no validation has those rows for training.
    whole = np.concatenate([train, val])
    if model == "gaussian":
        return gaussian(whole, q)
    if model == "vine":
        return vine(whole, q, seed)
    known = "rows, paper, ours, gaussian and vine"
    raise SystemExit(f"Expected `models` to be among {known}; got {model!r}.")
