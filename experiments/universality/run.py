"""Fitting models of growing width and measuring how far their CDFs are off."""

import itertools
import time
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from experiments.context import Context
from experiments.registry import Record
from experiments.universality.targets import TARGETS, Rows, Target
from marginals import Density, build, fit

EMPIRICAL = "rows"  # the empirical CDF of the rows, which has no size
WAYS = ("distance", "likelihood", "paper")


@final
@dataclass(frozen=True)
class Settings:
    """See `configs/universality.toml`."""

    targets: tuple[str, ...]
    ways: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: int
    validation: int
    hidden: int
    batch: int
    steps: int
    rate: float
    grid: int


def jobs(settings: Settings, seed: int) -> list[Record]:
    """Return each target, way of fitting and number of components."""
    return [
        {"target": target, "way": way, "size": size}
        for target in settings.targets
        for way, size in ((EMPIRICAL, 0), *itertools.product(settings.ways, settings.sizes))
    ]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the largest error of F."""
    name, way, size, device = job["target"], job["way"], job["size"], context.device
    if name not in TARGETS:
        raise SystemExit(f"Expected `targets` to be among {', '.join(TARGETS)}; got {name!r}.")
    target = TARGETS[name]
    rows = target.draw(settings.rows + settings.validation, np.random.default_rng(seed))
    points = grid_of(target, settings.grid)
    started = time.perf_counter()
    if way == EMPIRICAL:
        values = empirical(rows[: settings.rows], points)
    else:
        model = _fitted(settings, target, rows, way, size, seed, device)
        with torch.no_grad():
            x = torch.as_tensor(points, dtype=torch.float64, device=device)
            values = model.double().cdf(x).cpu().numpy()
    off = np.abs(values - target.cdf(points))
    seconds = round(time.perf_counter() - started, 2)
    return {"error": float(off.max()), "mean_error": float(off.mean()), "fit_s": seconds}


def grid_of(target: Target, count: int) -> Rows:
    """Return the points of comparison: a line of count squared, or a square of that side."""
    if target.columns == 1:
        return np.linspace(-target.end, target.end, count**2)[:, None]
    side = np.linspace(-target.end, target.end, count)
    return np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)


def empirical(rows: Rows, points: Rows) -> Rows:
    """Return the empirical CDF at the points of `grid_of`."""
    if rows.shape[1] == 1:
        return np.searchsorted(np.sort(rows[:, 0]), points[:, 0], side="right") / len(rows)
    side = np.unique(points[:, 0])
    places = np.searchsorted(side, rows)  # of the first point that is no less
    inside = (places < len(side)).all(1)
    counts = np.zeros((len(side), len(side)))
    np.add.at(counts, tuple(places[inside].T), 1)
    found: Rows = counts.cumsum(0).cumsum(1).ravel() / len(rows)
    return found


def _fitted(
    settings: Settings, target: Target, rows: Rows, way: str, size: int, seed: int, device: str
) -> Density:
    if way not in WAYS:
        raise SystemExit(f"Expected `ways` to be among {', '.join(WAYS)}; got {way!r}.")
    x = torch.as_tensor(rows, dtype=torch.float32, device=device)
    train, held = x[: settings.rows], x[settings.rows :]
    model = build(
        train,
        width=size,
        leaves="neural",
        hidden=settings.hidden,
        tree="balanced",
        init="paper" if way == "paper" else "data",
        seed=seed,
    )
    if way == "distance":
        _approximate(model, settings, target, rows, seed, device)
    else:
        fit(
            model,
            train,
            validation=held,
            batch_size=settings.batch,
            max_steps=settings.steps,
            seed=seed,
            progress=False,
        )
    return model


def _approximate(
    model: Density, settings: Settings, target: Target, rows: Rows, seed: int, device: str
) -> None:
    """Fit the CDF itself by least squares: what remains is no matter of chance."""
    generator = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.rate, total_steps=settings.steps
    )
    for _ in range(settings.steps):
        # Columns of different rows: points also where the target itself has hardly any.
        chosen = generator.integers(len(rows), size=(settings.batch, target.columns))
        points = rows[chosen, np.arange(target.columns)]
        x, wanted = (
            torch.as_tensor(each, dtype=torch.float32, device=device)
            for each in (points, target.cdf(points))
        )
        optimiser.zero_grad()
        ((model.cdf(x) - wanted) ** 2).mean().backward()
        optimiser.step()
        schedule.step()
