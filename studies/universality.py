"""Universality in practice: the largest error of a CDF by the number of components."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, final

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from marginals import Density, build
from studies.copulas.truth import clayton_cdf, draw_clayton
from studies.data.density import Rows
from studies.harness.available import check_choice
from studies.harness.drawing import COLOURS, legend, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import present, spread, table, values
from studies.models.ours import fit_tensor, in_parts


@final
@dataclass(frozen=True)
class Target:
    """A distribution of one or two columns.

    Args:
        label: what it is.
        columns: their number.
        end: CDFs are compared from -end to end in each column.
        draw: a number of rows and a generator to rows (N, D).
        cdf: points (N, D) to values (N,).
    """

    label: str
    columns: int
    end: float
    draw: Callable[[int, np.random.Generator], Rows]
    cdf: Callable[[Rows], Rows]


CLAWS = np.arange(5) / 2 - 1  # centres of the narrow modes
BOXES = ((-2.0, -1.0, 0.5), (0.0, 0.5, 0.3), (1.5, 2.0, 0.2))  # ends and mass of each
SIDE = 4  # squares along a side of the board, each of side 1


def _draw_claw(count: int, generator: np.random.Generator) -> Rows:
    wide = generator.random(count) < 0.5
    narrow = CLAWS[generator.integers(5, size=count)] + 0.1 * generator.normal(size=count)
    return np.where(wide, generator.normal(size=count), narrow)[:, None]


def _cdf_claw(points: Rows) -> Rows:
    found: Rows = 0.5 * ndtr(points[:, 0]) + 0.1 * ndtr((points - CLAWS) / 0.1).sum(1)
    return found


def _draw_boxes(count: int, generator: np.random.Generator) -> Rows:
    low, high, mass = (np.array(each) for each in zip(*BOXES, strict=True))
    which = generator.choice(len(BOXES), count, p=mass)
    return (low[which] + (high - low)[which] * generator.random(count))[:, None]


def _cdf_boxes(points: Rows) -> Rows:
    low, high, mass = (np.array(each) for each in zip(*BOXES, strict=True))
    found: Rows = (mass * np.clip((points - low) / (high - low), 0, 1)).sum(1)
    return found


def _draw_clayton(count: int, generator: np.random.Generator) -> Rows:
    drawn: Rows = ndtri(draw_clayton(count, generator))
    return drawn


def _cdf_clayton(points: Rows) -> Rows:
    u, v = ndtr(points).T
    with np.errstate(divide="ignore"):  # at 0, where the copula is 0
        found: Rows = clayton_cdf(u, v)
    return found


def _draw_board(count: int, generator: np.random.Generator) -> Rows:
    first = generator.integers(SIDE, size=count)
    second = 2 * generator.integers(SIDE // 2, size=count) + first % 2
    places = np.stack([first, second], 1) + generator.random((count, 2))
    drawn: Rows = places - SIDE / 2
    return drawn


def _cdf_board(points: Rows) -> Rows:
    squares = np.arange(SIDE) - SIDE / 2  # where they begin
    x, y = (np.clip(points[:, [j]] - squares, 0, 1) for j in range(2))  # (N, SIDE), lengths
    found: Rows = sum(x[:, i::2].sum(1) * y[:, i::2].sum(1) for i in range(2)) / (SIDE**2 / 2)
    return found


TARGETS = {
    "claw": Target("claw: a normal and five narrow ones", 1, 4.0, _draw_claw, _cdf_claw),
    "boxes": Target("three boxes", 1, 3.0, _draw_boxes, _cdf_boxes),
    "clayton": Target("Clayton's copula, normal columns", 2, 4.0, _draw_clayton, _cdf_clayton),
    "board": Target("checkerboard of two columns", 2, 2.5, _draw_board, _cdf_board),
}


# Running ------------------------------------------------------------------------------------------

EMPIRICAL = "rows"  # the empirical CDF of the rows, which has no size
WAYS = ("distance", "likelihood", "paper")


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return each target, way of fitting and number of components."""
    return [
        {"target": target, "way": way, "size": size}
        for target in settings.targets
        for way, size in ((EMPIRICAL, 0), *itertools.product(settings.ways, settings.sizes))
    ]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the largest error of F."""
    name, way, size, device = job["target"], job["way"], job["size"], context.device
    target = TARGETS[check_choice("`targets`", name, TARGETS)]
    rows = target.draw(settings.rows + settings.validation, np.random.default_rng(seed))
    points = grid_of(target, settings.grid)
    started = time.perf_counter()
    if way == EMPIRICAL:
        found = empirical(rows[: settings.rows], points)
    else:
        model = _fitted(settings, target, rows, way, size, seed, device).double()
        found = in_parts(model.cdf, points, model)
    off = np.abs(found - target.cdf(points))
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
    check_choice("`ways`", way, WAYS)
    init = "paper" if way == "paper" else "data"
    built = {"width": size, "leaves": "neural", "hidden": settings.hidden, "tree": "balanced"}
    train, held = rows[: settings.rows], rows[settings.rows :]
    if way == "distance":
        x = torch.as_tensor(train, dtype=torch.float32, device=device)
        model = build(x, init=init, seed=seed, **built)
        _approximate(model, settings, target, rows, seed, device)
        return model
    how = {"batch": settings.batch, "steps": settings.steps, "seed": seed, "device": device}
    fitted: Density = fit_tensor(train, held, init=init, **how, **built).model
    return fitted


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


# Tables -------------------------------------------------------------------------------------------

LABELS = {
    "distance": "least squares of F",
    "likelihood": "likelihood",
    "paper": "likelihood, paper's start",
}


def tables(records: Records, paper: Paper) -> str:
    """Return the largest error for each target, way of fitting and number of components."""
    sizes = sorted({r["size"] for r in records if r["way"] != EMPIRICAL})
    lines = []
    for name in dict.fromkeys(r["target"] for r in records):
        for way, label in LABELS.items():
            cells = [
                spread(values(records, "error", target=name, way=way, size=size), 4)
                for size in sizes
            ]
            if any(cells):
                lines.append([TARGETS[name].label, label, *cells])
        chance = spread(values(records, "error", target=name, way=EMPIRICAL), 4)
        empty = [""] * (len(sizes) - 1)
        lines.append([TARGETS[name].label, "empirical CDF of the rows", *empty, chance])
    told = (
        "Largest |F − exact F| on a grid (mean over seeds, ± their standard deviation), by the "
        "number of components m. The empirical CDF, which has no m, is in the last column: it "
        "shows the sampling noise of the same rows."
    )
    head = ["target", "fitted by", *(f"m = {size}" for size in sizes)]
    return f"{told}\n\n{table(head, lines)}"


# The picture --------------------------------------------------------------------------------------

HUES = {"distance": "#cc79a7", "likelihood": COLOURS["ours"], "paper": COLOURS["paper"]}
MARKS = {"distance": "^", "likelihood": "o", "paper": "s"}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Return one figure with a panel for each target."""
    names = present(TARGETS, (r["target"] for r in records))
    if not names:
        return {}
    figure, axes = panels(2.3 * len(names) + 0.4, 2.9, len(names), sharey=True)
    for panel, name in zip(axes[0], names, strict=True):
        _panel(panel, records, name)
    axes[0, 0].set_ylabel("largest |F − exact F|")
    legend(figure, axes[0, 0])
    return {"errors": figure}


def _panel(axes: Any, records: Records, name: str) -> None:
    sizes = sorted({r["size"] for r in records if r["way"] != EMPIRICAL})
    for way, label in LABELS.items():
        every = [values(records, "error", target=name, way=way, size=size) for size in sizes]
        drawn = [(size, found) for size, found in zip(sizes, every, strict=True) if found]
        style = {"color": HUES[way], "marker": MARKS[way], "markersize": 3.5, "linewidth": 1}
        axes.plot([size for size, _ in drawn], [fmean(v) for _, v in drawn], label=label, **style)
    chance = values(records, "error", target=name, way=EMPIRICAL)
    if chance:
        dashed = {"color": "black", "linestyle": "--", "linewidth": 0.8}
        axes.axhline(fmean(chance), label="empirical CDF of the rows", **dashed)
    axes.set(xscale="log", yscale="log", xlabel="components m", title=TARGETS[name].label)
    axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=6)
    axes.minorticks_off()
    axes.grid(linewidth=0.3, alpha=0.5)


STUDIES = (
    Study(
        "universality",
        "Universality in practice",
        measure,
        tables,
        figures,
        jobs=jobs,
        key=("target", "way", "size"),
        parts=("targets", "ways", "sizes"),
    ),
)
