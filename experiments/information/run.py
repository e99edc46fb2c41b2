"""Fitting the Gaussian of 16 columns and estimating the information between its parts."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd
import torch

from benchmarks.information.run import gaussian_covariance
from experiments.context import Context
from experiments.default_model import fit_default
from experiments.paper_model import Rows, Training, fit_paper, logpdf
from experiments.registry import Record
from marginals import cross_fit
from marginals.queries import Estimate

# Rows of some columns to log densities of those columns.
Ask = Callable[[Rows, Sequence[int]], Rows]
COLUMNS = 16
PARTS = tuple(range(1, COLUMNS))  # the first k columns against the others


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/information.toml`."""

    rows: tuple[int, ...]
    models: tuple[str, ...]
    held_out: int
    validation: int
    width: int
    depth: int
    hidden: int
    batch: int
    epochs: int
    least_steps: int
    default_seconds: float
    most_crossed: int


@final
@dataclass(frozen=True)
class Sample:
    """Rows to fit to, rows that choose the weights, and rows that only the estimates see."""

    train: Rows
    validation: Rows
    held: Rows


def exact_information() -> list[float]:
    """Return I((X_1..X_k); (X_k+1..X_d)) for each k, from determinants."""
    covariance = gaussian_covariance(COLUMNS)

    def log_det(part: Rows) -> float:
        return float(np.linalg.slogdet(part)[1])

    whole = log_det(covariance)
    return [
        0.5 * (log_det(covariance[:k, :k]) + log_det(covariance[k:, k:]) - whole) for k in PARTS
    ]


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each number of rows and model."""
    return [
        {"rows": rows, "model": model}
        for rows, model in itertools.product(settings.rows, settings.models)
        if model != "cross" or rows <= settings.most_crossed
    ]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the estimates of a model for every k."""
    sample = draw(settings, job["rows"], seed)
    found = MODELS[_known(job["model"])](settings, sample, seed, context.device)
    return {**found, "exact": exact_information()}


def draw(settings: Settings, rows: int, seed: int) -> Sample:
    """Draw the sample of a seed; the rows of a smaller one are the first of a larger one."""
    streams = np.random.default_rng(seed).spawn(3)
    root = np.linalg.cholesky(gaussian_covariance(COLUMNS))
    counts = (rows, settings.validation, settings.held_out)
    parts = [
        stream.normal(size=(count, COLUMNS)) @ root.T
        for stream, count in zip(streams, counts, strict=True)
    ]
    return Sample(*parts)


def information(ask: Ask, rows: Rows) -> Record:
    """Estimate the information for every k as the mean log ratio over rows."""
    joint = ask(rows, range(COLUMNS))
    found = []
    for k in PARTS:
        alone = ask(rows[:, :k], range(k)) + ask(rows[:, k:], range(k, COLUMNS))
        found.append(Estimate.mean_of(torch.as_tensor(joint - alone)))
    return _lists(found)


def _lists(found: Sequence[Estimate]) -> Record:
    return {"values": [each.value for each in found], "stderrs": [each.stderr for each in found]}


# The models -------------------------------------------------------------------------------------


def _paper(settings: Settings, sample: Sample, seed: int, device: str) -> Record:
    rows = len(sample.train)
    steps = max(settings.epochs * rows // settings.batch, settings.least_steps)
    shape = {"width": settings.width, "depth": settings.depth, "hidden": settings.hidden}
    how = Training(**shape, batch=settings.batch, steps=steps, seed=seed, device=device)
    started = time.perf_counter()
    model, fitted = fit_paper(sample.train, sample.validation, how)
    fit_s = round(time.perf_counter() - started, 2)

    found = _both(lambda rows, columns: logpdf(model, rows, columns), sample)
    return {**found, "fit_s": fit_s, "fitted": fitted}


def _default(settings: Settings, sample: Sample, seed: int, device: str) -> Record:
    return _estimator({"max_seconds": settings.default_seconds}, sample, seed, device)


def _quick(settings: Settings, sample: Sample, seed: int, device: str) -> Record:
    """Gaussian mixtures by EM, those of cross-fitting, but fitted once."""
    return _estimator({"effort": "quick"}, sample, seed, device)


def _estimator(options: Record, sample: Sample, seed: int, device: str) -> Record:
    started = time.perf_counter()
    rows = (sample.train, sample.validation)
    model, told = fit_default(*rows, seed=seed, device=device, **options)
    fit_s = round(time.perf_counter() - started, 2)

    def ask(rows: Rows, columns: Sequence[int]) -> Rows:
        return np.asarray(model.logpdf(pd.DataFrame(rows, columns=list(columns))))

    return {**_both(ask, sample), "fit_s": fit_s, "fitted": told}


def _cross(settings: Settings, sample: Sample, seed: int, device: str) -> Record:
    """Cross-fit: every row is judged by a model that has not seen it, so none is held out."""
    started = time.perf_counter()
    folded = cross_fit(sample.train, random_state=seed)
    fit_s = round(time.perf_counter() - started, 2)
    found = [folded.mutual_information(list(range(k)), list(range(k, COLUMNS))) for k in PARTS]
    return {**_lists(found), "fit_s": fit_s, "fitted": {"folds": len(folded.parts)}}


MODELS: dict[str, Callable[[Settings, Sample, int, str], Record]] = {
    "paper": _paper,
    "default": _default,
    "quick": _quick,
    "cross": _cross,
}


def _known(model: str) -> str:
    if model not in MODELS:
        raise SystemExit(f"Expected `models` to be among {', '.join(MODELS)}; got {model!r}.")
    return model


def _both(ask: Ask, sample: Sample) -> Record:
    """Return the estimates from rows held out, and those from as many training rows."""
    seen = information(ask, sample.train[: len(sample.held)])
    return {**information(ask, sample.held), "seen_values": seen["values"]}
