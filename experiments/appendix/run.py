"""Fits for the figures of the appendix, and the times of two ways to draw rows."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch

from benchmarks.likelihood.sets import SMALL, Rows, Split, splits
from experiments.context import Context
from experiments.registry import Record
from marginals import build, fit
from marginals.densities.autoregressive import sample_autoregressive

PAIRS = {"power": (5, 2), "hepmass": (7, 4)}  # time of day and kitchen; two bent columns
FEATURE = 3  # the paper's j = 4
FEATURES = 10
POINTS = 500  # rows in the scatter plots and histograms, as in the paper
LINE = 300
STARTS = ("paper", "data")
STRUCTURES = {
    "coupled": {"tensor": "ht", "tree": "coupled"},
    "balanced": {"tensor": "ht", "tree": "balanced"},
    "random": {"tensor": "ht", "tree": "random"},
    "mera": {"tensor": "mera", "tree": "coupled"},
}
WAYS = ("components", "autoregressive")
CHUNK = 5_000  # rows evaluated at a time


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/appendix.toml`."""

    shown: tuple[str, ...]
    pictured: tuple[str, ...]
    width: int
    steps: int
    seconds: float
    grid: int
    sets: tuple[str, ...]
    structures: tuple[str, ...]
    structure_width: int
    structure_steps: int
    structure_seconds: float
    columns: tuple[int, ...]
    sampling_width: int
    sampling_draws: int
    sampling_repetitions: int


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each fit and each time of the parts that are shown."""
    return [job for part in settings.shown for job in _jobs(settings, part)]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the record of a fit or a time."""
    return _MEASURES[job["part"]](settings, seed, context, job)


def _jobs(settings: Settings, part: str) -> list[Record]:
    if part not in _MEASURES:
        raise SystemExit(f"Expected `shown` to be among {', '.join(_MEASURES)}; got {part!r}.")
    if part == "marginals":
        return [{"part": part, "set": name} for name in settings.pictured]
    if part == "features":
        return [{"part": part, "set": settings.pictured[0], "start": each} for each in STARTS]
    if part == "structures":
        return [
            {"part": part, "set": name, "structure": each}
            for name in settings.sets
            for each in settings.structures
        ]
    return [{"part": part, "columns": d, "way": way} for d in settings.columns for way in WAYS]


def _split(context: Context, name: str) -> Split:
    return splits(name, None if name in SMALL else context.data)[0]


def _marginals(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit hierarchical Tucker from data; keep the log density of two columns, and rows."""
    name = job["set"]
    split = _split(context, name)
    model, told = _fitted(settings, seed, context, split, "data")
    pair = pair_of(name)
    points = split.train[:POINTS, pair]
    ends = [ends_of(split.train[:, column]) for column in pair]
    middles = [_middles(*end, settings.grid) for end in ends]
    x, y = np.meshgrid(*middles)
    square = torch.as_tensor(np.stack([x.ravel(), y.ravel()], 1), device=context.device)
    with torch.no_grad():
        parts = [model.logpdf(part, pair) for part in square.split(CHUNK)]
    density = torch.cat(parts).reshape(settings.grid, settings.grid).cpu().numpy()
    context.keep(f"marginals/{name}/density", density, np.float16)
    context.keep(f"marginals/{name}/points", points, np.float16)
    context.keep(f"marginals/{name}/ends", ends)
    if name == "power":  # its last column is minutes after midnight, on a lattice
        context.keep(f"marginals/{name}/midnight", _midnight(split.train[:, pair[0]]))
    return told


def _features(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Keep ten features of a column before and after training, and rows of that column."""
    split = _split(context, job["set"])
    values = split.train[:POINTS, FEATURE]
    low, high = ends_of(split.train[:, FEATURE])
    x = torch.linspace(low, high, LINE, dtype=torch.float64, device=context.device)
    kept: list[Any] = []

    def keep(model: Any) -> None:
        leaves = model.leaves.families[0]
        with torch.no_grad():
            z = leaves.evaluate(x[None].to(next(model.parameters()).dtype), [FEATURE]).log_density
        kept.append(z[0, :, :FEATURES].exp().double().cpu().numpy())  # (points, features)

    model, told = _fitted(settings, seed, context, split, job["start"], keep)
    keep(model)
    context.keep(f"features/{job['start']}", np.stack(kept))
    context.keep("features/x", x.cpu().numpy())
    context.keep("features/values", values)
    return told


def _fitted(
    settings: Settings,
    seed: int,
    context: Context,
    split: Split,
    start: str,
    before: Callable[[Any], None] | None = None,
) -> tuple[Any, Record]:
    """Fit the paper's model by Adam; what is to be done with it before is done."""
    rows = torch.as_tensor(split.train, dtype=torch.float32, device=context.device)
    model = build(
        rows,
        width=settings.width,
        tree="coupled" if start == "data" else "balanced",
        init="data" if start == "data" else "paper",
        seed=seed,
    )
    if before is not None:
        before(model)
    told = _trained(model, split, seed, context, settings.steps, settings.seconds)
    return model, {"width": settings.width, **told}


def _trained(
    model: Any, split: Split, seed: int, context: Context, steps: int, seconds: float
) -> Record:
    rows, val = (
        torch.as_tensor(part, dtype=torch.float32, device=context.device)
        for part in (split.train, split.val)
    )
    started = time.perf_counter()
    result = fit(
        model,
        rows,
        validation=val,
        batch_size=min(500, len(rows)),
        max_steps=steps,
        max_seconds=seconds,
        seed=seed,
        progress=False,
    )
    fit_s = time.perf_counter() - started
    model.double()
    with torch.no_grad():
        x = torch.as_tensor(split.test, dtype=torch.float64, device=context.device)
        scores = torch.cat([model.logpdf(part) for part in x.split(CHUNK)])
    return {"test": float(scores.mean()), "steps": result.steps, "fit_s": round(fit_s, 2)}


def _structures(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit one tensor on one tree; all else is the same."""
    split = _split(context, job["set"])
    rows = torch.as_tensor(split.train, dtype=torch.float32, device=context.device)
    if job["structure"] not in STRUCTURES:
        raise SystemExit(
            f"Expected `structures` to be among {', '.join(STRUCTURES)}; got {job['structure']!r}."
        )
    chosen: dict[str, Any] = STRUCTURES[job["structure"]]
    width = settings.structure_width
    model = build(rows, leaves="normal", width=width, seed=seed, **chosen)
    steps, seconds = settings.structure_steps, settings.structure_seconds
    told = _trained(model, split, seed, context, steps, seconds)
    return {"columns": rows.shape[1], "width": width, **told}


def _sampling(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Time one way to draw rows of a model of so many columns: the median, after a first time."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(1000, job["columns"], generator=generator).to(context.device)
    model = build(rows, width=settings.sampling_width, seed=seed)
    own = torch.Generator(context.device).manual_seed(seed)
    draw = model.sample if job["way"] == "components" else partial(sample_autoregressive, model)
    taken = []
    for _ in range(1 + settings.sampling_repetitions):
        started = time.perf_counter()
        draw(settings.sampling_draws, generator=own).cpu()
        taken.append(time.perf_counter() - started)
    about = {"draws": settings.sampling_draws, "width": settings.sampling_width}
    return {**about, "draw_s": statistics.median(taken[1:])}


_MEASURES: dict[str, Callable[[Settings, int, Context, Record], Record]] = {
    "marginals": _marginals,
    "features": _features,
    "structures": _structures,
    "sampling": _sampling,
}


def pair_of(name: str) -> list[int]:
    """Return the two columns that are pictured of a set."""
    return list(PAIRS.get(name, (0, 1)))


def ends_of(values: Rows) -> tuple[float, float]:
    """Return where most of a column is: without the outermost half percent."""
    low, high = np.quantile(values, [0.005, 0.995])
    room = 0.05 * (high - low)
    return float(low - room), float(high + room)


def _midnight(minutes: Rows) -> Sequence[float]:
    """Return where 0:00 is on the standardised scale, and the length of an hour."""
    steps = np.unique(minutes)
    return float(steps[0]), 60 * float(np.median(np.diff(steps)))


def _middles(low: float, high: float, count: int) -> Rows:
    middles: Rows = low + (np.arange(count) + 0.5) * (high - low) / count
    return middles
