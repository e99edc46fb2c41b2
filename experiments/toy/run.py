"""Fitting the toy densities, scoring held-out rows and keeping what the figures show."""

import itertools
import time
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.likelihood.sets import Rows, Split
from experiments.context import Context
from experiments.registry import Record
from experiments.toy.densities import TOYS, Toy
from experiments.toy.models import Model, fit_flow, fit_ours, fit_paper

PAIRS = ((0, 1), (1, 2), (0, 2))
THIRDS = (-0.5, 0.0, 0.5)  # values of the third column in the conditionals
LINE = 100  # points and bins of a density of one column
LINE_END = 5.0


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/toy.toml`."""

    sets: tuple[str, ...]
    models: tuple[str, ...]
    rows: int
    held_out: int
    width: int
    width_checkerboard: int
    batch: int
    epochs: int
    effort: str
    ours_seconds: float
    nsf_seconds: float
    grid: int
    shown: int


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each density by itself and with each model."""
    every = itertools.product(settings.sets, ("truth", *settings.models))
    return [{"set": name, "model": model} for name, model in every]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the held-out log-likelihood of a density itself, if it is known, or of a model."""
    name, model = job["set"], job["model"]
    toy, split = TOYS[name], split_of(settings, name, seed)
    pictured = f"{name}/{'data' if model == 'truth' else model}/rows" in context.arrays
    if model == "truth":
        if not pictured:
            _keep_data(settings, context, name, split.train)
        scores = toy.logpdf(split.test) if toy.logpdf else None
        # The record is there for every density, since it stands for the data of the figures.
        return {"test": None if scores is None else float(scores.mean())}
    started = time.perf_counter()
    fitted = _fitted(settings, model, split, seed, context.device)
    fit_s = round(time.perf_counter() - started, 2)
    scores = fitted.logpdf(split.test)
    if not pictured and fitted.density is not None:
        _keep_model(settings, context, name, model, fitted)
    return {
        "test": float(scores.mean()),
        "test_min": float(scores.min()),
        "fit_s": fit_s,
        "fitted": fitted.settings,
    }


def split_of(settings: Settings, name: str, seed: int) -> Split:
    """Draw training, validation and test rows."""
    count = settings.rows + 2 * settings.held_out
    drawn = TOYS[name].draw(count, np.random.default_rng(seed))
    ends = [settings.rows, settings.rows + settings.held_out]
    train, val, test = np.split(drawn, ends)
    return Split(name, None, train, val, test)


def _fitted(settings: Settings, model: str, split: Split, seed: int, device: str) -> Model:
    if model == "paper":
        board = split.name == "checkerboard"
        return fit_paper(
            split,
            width=settings.width_checkerboard if board else settings.width,
            batch=settings.batch,
            epochs=settings.epochs,
            seed=seed,
            device=device,
        )
    if model == "ours":
        seconds = settings.ours_seconds
        return fit_ours(split, effort=settings.effort, seconds=seconds, seed=seed, device=device)
    if model == "nsf":
        return fit_flow(split, seconds=settings.nsf_seconds, seed=seed, device=device)
    raise SystemExit(f"Expected `models` to be among paper, ours and nsf; got {model!r}.")


# What the figures show --------------------------------------------------------------------------


def ends_of(toy: Toy) -> tuple[float, float, float]:
    """Return how far each axis reaches in the figures."""
    return 4.0, 4.0, toy.third


def _keep_data(settings: Settings, context: Context, name: str, rows: Rows) -> None:
    ends = ends_of(TOYS[name])
    context.keep(f"{name}/data/rows", rows[: settings.shown], np.float16)
    pairs = []
    for a, b in PAIRS:
        limits = [(-ends[a], ends[a]), (-ends[b], ends[b])]
        counts, *_ = np.histogram2d(rows[:, a], rows[:, b], settings.grid, limits, density=True)
        pairs.append(counts.T)
    context.keep(f"{name}/data/pairs", _shades(pairs), np.uint8)
    lines = [
        np.histogram(rows[:, j], LINE, (-LINE_END, LINE_END), density=True)[0] for j in range(3)
    ]
    context.keep(f"{name}/data/lines", lines, np.float16)


def _keep_model(settings: Settings, context: Context, name: str, model: str, fitted: Model) -> None:
    assert fitted.density is not None
    ends, grid = ends_of(TOYS[name]), settings.grid
    drawn = np.asarray(fitted.sample(settings.shown))
    context.keep(f"{name}/{model}/rows", drawn, np.float16)
    pairs = [
        fitted.density(_square(ends[a], ends[b], grid), (a, b), None).reshape(grid, grid)
        for a, b in PAIRS
    ]
    context.keep(f"{name}/{model}/pairs", _shades(pairs), np.uint8)
    square = _square(ends[0], ends[1], grid)
    given = [fitted.density(square, (0, 1), third).reshape(grid, grid) for third in THIRDS]
    context.keep(f"{name}/{model}/given", _shades(given), np.uint8)
    points = _middles(LINE_END, LINE)[:, None]
    lines = [fitted.density(points, (column,), None) for column in range(3)]
    context.keep(f"{name}/{model}/lines", lines, np.float16)


def _shades(pictures: list[Rows]) -> list[Rows]:
    """Return each picture in 256 shades of its highest density, as many as a screen shows."""
    return [np.round(255 * picture / picture.max()) for picture in pictures]


def _middles(end: float, count: int) -> Rows:
    """Return the middles of so many bins from -end to end."""
    return (np.arange(count) + 0.5) * (2 * end / count) - end


def _square(first: float, second: float, count: int) -> Rows:
    """Return the points of a grid, (count * count, 2), the first column running fastest."""
    x, y = np.meshgrid(_middles(first, count), _middles(second, count))
    return np.stack([x.ravel(), y.ravel()], 1)
