"""Toy densities of three columns: held-out likelihood, and the paper's pictures of them."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, final

import numpy as np
from scipy.special import logsumexp

from studies.data.density import Rows, Split
from studies.harness.available import check_choice
from studies.harness.drawing import blank
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, spread, table
from studies.models.densities import fit_density
from studies.models.fitted import Fitted


@final
@dataclass(frozen=True)
class Toy:
    """A density of three columns.

    Args:
        draw: a number of rows and a generator to rows (N, 3).
        logpdf: rows to log densities (N,), None where there is no closed form.
        third: the ends of the third axis of the figures; the others are from -4 to 4.
    """

    draw: Callable[[int, np.random.Generator], Rows]
    logpdf: Callable[[Rows], Rows] | None
    third: float


def draw_spirals(count: int, generator: np.random.Generator) -> Rows:
    """Draw from two spirals, one the mirror image of the other, that part along the third axis."""
    angle = np.sqrt(generator.random(count)) * 3 * math.pi
    x = -np.cos(angle) * angle + generator.random(count) / 2
    y = np.sin(angle) * angle + generator.random(count) / 2
    arm = np.stack([x, y, np.hypot(x, y) / 3], 1) / 3  # (N, 3)
    side = generator.choice([-1.0, 1.0], (count, 1))
    return side * arm + 0.1 * generator.normal(size=(count, 3))


_HALF = math.sqrt(0.5)
_CENTRES = (4 / 1.414) * np.array(
    [
        *([1, 0, -1], [-1, 0, 0.14], [0, 1, -0.43], [0, -1, 0.71]),
        *([_HALF, _HALF, -0.71], [_HALF, -_HALF, 1]),
        *([-_HALF, _HALF, -0.14], [-_HALF, -_HALF, 0.43]),
    ]
)  # (8, 3)
_SPREAD = 0.5 / 1.414


def draw_gaussians(count: int, generator: np.random.Generator) -> Rows:
    """Draw from eight Gaussians on a ring, at different heights."""
    centres = _CENTRES[generator.integers(8, size=count)]
    drawn: Rows = centres + _SPREAD * generator.normal(size=(count, 3))
    return drawn


def logpdf_gaussians(rows: Rows) -> Rows:
    """Return the log density of the eight Gaussians."""
    squares = (((rows[:, None] - _CENTRES) / _SPREAD) ** 2).sum(-1)  # (N, 8)
    constant = math.log(8) + 3 * math.log(_SPREAD * math.sqrt(2 * math.pi))
    found: Rows = logsumexp(-squares / 2, axis=1) - constant
    return found


def draw_checkerboard(count: int, generator: np.random.Generator) -> Rows:
    """Draw from cubes of side 2 in [-4, 4]^3: those whose places are all even, or all odd."""
    odd = generator.integers(2, size=(count, 1))
    places = 2 * generator.integers(2, size=(count, 3)) + odd
    return 2 * (places + generator.random((count, 3))) - 4


def logpdf_checkerboard(rows: Rows) -> Rows:
    """Return the log density of the checkerboard: 16 cubes of volume 8, equally likely."""
    places = np.floor((rows + 4) / 2)
    inside = ((places >= 0) & (places < 4)).all(1)
    alike = (places % 2 == places[:, :1] % 2).all(1)
    return np.where(inside & alike, -math.log(16 * 8), -np.inf)


TOYS = {
    "spirals": Toy(draw_spirals, None, 2.0),
    "gaussians": Toy(draw_gaussians, logpdf_gaussians, 4.0),
    "checkerboard": Toy(draw_checkerboard, logpdf_checkerboard, 4.0),
}

# Running ------------------------------------------------------------------------------------------

PAIRS = ((0, 1), (1, 2), (0, 2))
THIRDS = (-0.5, 0.0, 0.5)  # values of the third column in the conditionals
LINE = 100  # points and bins of a density of one column
LINE_END = 5.0


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the held-out log-likelihood of a density itself, if it is known, or of a model."""
    name, model = check_choice("`sets`", job["set"], TOYS), job["model"]
    toy, split = TOYS[name], split_of(settings, name, seed)
    pictured = f"{name}/{'data' if model == 'truth' else model}/rows" in context.arrays
    if model == "truth":
        if not pictured:
            _keep_data(settings, context, name, split.train)
        # There is a record for every density, since it stands for the data of the figures.
        return {"test": float(toy.logpdf(split.test).mean()) if toy.logpdf else None}
    started = time.perf_counter()
    options = _options(settings, model, split)
    fitted = fit_density(model, split, seed=seed, device=context.device, options=options)
    fit_s = round(time.perf_counter() - started, 2)
    scores = fitted.exact(split.test)
    if not pictured and fitted.logpdf is not None:
        _keep_model(settings, context, name, model, fitted)
    return {
        "test": float(scores.mean()),
        "test_min": float(scores.min()),
        "fit_s": fit_s,
        "fitted": fitted.told,
    }


def split_of(settings: Settings, name: str, seed: int) -> Split:
    """Draw training, validation and test rows."""
    count = settings.rows + 2 * settings.held_out
    drawn = TOYS[name].draw(count, np.random.default_rng(seed))
    ends = [settings.rows, settings.rows + settings.held_out]
    train, val, test = np.split(drawn, ends)
    return Split(name, None, train, val, test)


def _options(settings: Settings, model: str, split: Split) -> dict[str, Any]:
    if model == "ours":
        return {"effort": settings.effort, "max_seconds": settings.ours_seconds}
    if model == "paper":
        board = split.name == "checkerboard"
        return {
            "width": settings.width_checkerboard if board else settings.width,
            "depth": 1,
            "hidden": 3,
            "batch": settings.batch,
            "steps": settings.epochs * len(split.train) // settings.batch,
        }
    return {"seconds": settings.nsf_seconds}


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


def _keep_model(
    settings: Settings, context: Context, name: str, model: str, fitted: Fitted
) -> None:
    def density(points: Rows, columns: Sequence[int], given: Mapping[int, float] | None) -> Rows:
        assert fitted.logpdf is not None
        return np.exp(fitted.logpdf(points, columns, given))

    ends, grid = ends_of(TOYS[name]), settings.grid
    drawn = np.asarray(fitted.sample(settings.shown))
    context.keep(f"{name}/{model}/rows", drawn, np.float16)
    pairs = [
        density(_square(ends[a], ends[b], grid), (a, b), None).reshape(grid, grid) for a, b in PAIRS
    ]
    context.keep(f"{name}/{model}/pairs", _shades(pairs), np.uint8)
    square = _square(ends[0], ends[1], grid)
    given = [density(square, (0, 1), {2: third}).reshape(grid, grid) for third in THIRDS]
    context.keep(f"{name}/{model}/given", _shades(given), np.uint8)
    points = _middles(LINE_END, LINE)[:, None]
    lines = [density(points, (column,), None) for column in range(3)]
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


# Tables -------------------------------------------------------------------------------------------

COLUMNS = {
    "truth": "the density itself",
    "paper": "paper's model",
    "ours": "ours",
    "nsf": "NSF (zuko)",
}
LABELS = {"spirals": "two spirals", "gaussians": "8 Gaussians", "checkerboard": "checkerboard"}


def tables(records: Records, paper: Paper) -> str:
    """Return held-out log-likelihood and seconds of fitting of the models that were run."""
    shown = present(COLUMNS, (r["model"] for r in records))
    names = list(dict.fromkeys(r["set"] for r in records))
    likelihood = (
        "Held-out log-likelihood, nats per row (mean over seeds, ± their standard deviation); in "
        "brackets its shortfall from the density itself."
    )
    fitted = [model for model in shown if model != "truth"]
    scores = {name: [_cell(records, name, model) for model in shown] for name in names}
    seconds = {name: [_seconds(records, name, model) for model in fitted] for name in names}
    told = "Seconds of fitting (steps):"
    parts = [likelihood, _table(shown, scores), told, _table(fitted, seconds)]
    return "\n\n".join(parts)


def _table(models: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    head = ["", *(COLUMNS[model] for model in models)]
    return table(head, [[LABELS[name], *cells] for name, cells in rows.items()])


def _cell(records: Records, name: str, model: str) -> str:
    own, truth = _by_seed(records, name, model), _by_seed(records, name, "truth")
    if not own:
        return "not in closed form" if model == "truth" else ""
    lacks = [truth[seed] - value for seed, value in own.items() if seed in truth]
    gap = f" ({fmean(lacks):.3f})" if lacks and model != "truth" else ""
    return f"{spread(list(own.values()))}{gap}"


def _seconds(records: Records, name: str, model: str) -> str:
    own = pick(records, set=name, model=model)
    steps = [r["fitted"]["steps"] for r in own if "steps" in r.get("fitted", {})]
    told = f" ({fmean(steps):.0f})" if steps else ""
    return f"{fmean(r['fit_s'] for r in own):.0f}{told}" if own else ""


def _by_seed(records: Records, name: str, model: str) -> dict[int, float]:
    return {
        record["seed"]: record["test"]
        for record in records
        if (record["set"], record["model"]) == (name, model) and record["test"] is not None
    }


# Pictures -----------------------------------------------------------------------------------------

NAMES = ("$x_1$", "$x_2$", "$x_3$")
HUES = ("#0072b2", "#d55e00", "#009e73")
VIEWS = {"spirals": (20, 10), "gaussians": (30, 55), "checkerboard": (30, -60)}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Return a figure for each density and each model whose marginals were kept."""
    return {
        f"{name}_{model}": _figure(name, model, arrays)
        for name in TOYS
        for model in ("paper", "ours")
        if f"{name}/{model}/pairs" in arrays
    }


def _figure(name: str, model: str, arrays: Arrays) -> Any:
    figure = blank(7.2, 5.8)
    figure.suptitle(f"{LABELS[name]}: {COLUMNS[model]}", fontsize=9)
    for row, kind in enumerate(("data", model)):
        shown = "training rows" if kind == "data" else "samples"
        axes = figure.add_subplot(3, 4, 1 + 4 * row, projection="3d")
        _scatter(axes, name, arrays[f"{name}/{kind}/rows"], shown)
        for place, (a, b) in enumerate(PAIRS):
            axes = figure.add_subplot(3, 4, 2 + 4 * row + place)
            title = (
                f"data, {NAMES[a]} and {NAMES[b]}"
                if kind == "data"
                else f"p({NAMES[a]}, {NAMES[b]})"
            )
            _heat(axes, name, (a, b), arrays[f"{name}/{kind}/pairs"][place], title)
    _lines(figure.add_subplot(3, 4, 9), name, model, arrays)
    for place, third in enumerate(THIRDS):
        title = f"p({NAMES[0]}, {NAMES[1]} | {NAMES[2]} = {third:g})"
        axes = figure.add_subplot(3, 4, 10 + place)
        _heat(axes, name, (0, 1), arrays[f"{name}/{model}/given"][place], title)
    return figure


def _scatter(axes: Any, name: str, rows: Any, title: str) -> None:
    ends = ends_of(TOYS[name])
    inside = (np.abs(rows) <= ends).all(1)
    axes.scatter(*rows[inside].T.astype(float), s=0.6, color=HUES[0], depthshade=False)
    axes.set(xlim=(-ends[0], ends[0]), ylim=(-ends[1], ends[1]), zlim=(-ends[2], ends[2]))
    for axis, label in zip("xyz", NAMES, strict=True):
        axes.set(**{f"{axis}ticklabels": []})
        getattr(axes, f"set_{axis}label")(label, labelpad=-14)
    axes.zaxis.set_rotate_label(False)
    axes.zaxis.label.set_rotation(0)
    axes.view_init(*VIEWS[name])
    axes.set_title(title)


def _heat(axes: Any, name: str, pair: tuple[int, int], values: Any, title: str) -> None:
    first, second = (ends_of(TOYS[name])[column] for column in pair)
    axes.imshow(
        values.astype(float),
        origin="lower",
        extent=(-first, first, -second, second),
        aspect=first / second,
        vmin=0,
        interpolation="nearest",
    )
    axes.set(xticks=[], yticks=[], title=title)
    axes.set_xlabel(NAMES[pair[0]], labelpad=1)
    axes.set_ylabel(NAMES[pair[1]], labelpad=1)


def _lines(axes: Any, name: str, model: str, arrays: Arrays) -> None:
    x = _middles(LINE_END, LINE)
    own, data = arrays[f"{name}/{model}/lines"], arrays[f"{name}/data/lines"]
    for column in range(3):
        label = f"p({NAMES[column]})"
        axes.plot(x, data[column], "x", color=HUES[column], markersize=2, markeredgewidth=0.4)
        axes.plot(x, own[column], color=HUES[column], linewidth=1, label=label)
    axes.set(xlim=(-LINE_END, LINE_END), title="one column, × data", yticks=[])
    axes.set_ylim(bottom=0, top=1.35 * max(float(own.max()), float(data.max())))
    axes.legend(fontsize=6, handlelength=1, loc="upper right", ncols=3, columnspacing=0.6)


STUDIES = (
    Study(
        "toy",
        "Toy densities",
        measure,
        tables,
        figures,
        grid={"set": "sets", "model": "models"},
        own=("ours", "nsf"),
    ),
)
