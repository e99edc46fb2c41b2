"""What the paper's appendix shows of the model: marginals, features, couplings and sampling."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch

from marginals import build
from marginals.densities import sample_autoregressive
from studies.data.density import Rows, Split, splits
from studies.harness.available import check_choice
from studies.harness.drawing import COLOURS, blank, panels, rows_of_names
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, spread, table
from studies.models.fitted import Fitted
from studies.models.ours import PAPER, fit_tensor

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


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return each fit and each time of the parts that are shown."""
    return [job for part in settings.shown for job in _jobs(settings, part)]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the record of a fit or a time."""
    return _MEASURES[job["part"]](settings, seed, context, job)


def _jobs(settings: Settings, part: str) -> list[Record]:
    check_choice("`shown`", part, _MEASURES)
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


def _marginals(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit hierarchical Tucker from data; keep the log density of two columns, and rows."""
    name = job["set"]
    split = splits(name, context)[0]
    fitted, told = _fitted(settings, seed, context, split, "data")
    pair = pair_of(name)
    points = split.train[:POINTS, pair]
    ends = [ends_of(split.train[:, column]) for column in pair]
    middles = [_middles(*end, settings.grid) for end in ends]
    x, y = np.meshgrid(*middles)
    assert fitted.logpdf is not None
    density = fitted.logpdf(np.stack([x.ravel(), y.ravel()], 1), pair, None)
    density = density.reshape(settings.grid, settings.grid)
    context.keep(f"marginals/{name}/density", density, np.float16)
    context.keep(f"marginals/{name}/points", points, np.float16)
    context.keep(f"marginals/{name}/ends", ends)
    if name == "power":  # its last column is minutes after midnight, on a lattice
        context.keep(f"marginals/{name}/midnight", _midnight(split.train[:, pair[0]]))
    return told


def _features(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Keep ten features of a column before and after training, and rows of that column."""
    split = splits(job["set"], context)[0]
    values = split.train[:POINTS, FEATURE]
    low, high = ends_of(split.train[:, FEATURE])
    x = torch.linspace(low, high, LINE, dtype=torch.float64, device=context.device)
    kept: list[Any] = []

    def keep(model: Any) -> None:
        leaves = model.leaves.families[0]
        with torch.no_grad():
            z = leaves.evaluate(x[None].to(next(model.parameters()).dtype), [FEATURE]).log_density
        kept.append(z[0, :, :FEATURES].exp().double().cpu().numpy())  # (points, features)

    fitted, told = _fitted(settings, seed, context, split, job["start"], keep)
    keep(fitted.model)
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
) -> tuple[Fitted, Record]:
    """Fit hierarchical Tucker from data or as the paper starts it."""
    built = {"tree": "coupled", "init": "data"} if start == "data" else PAPER
    limits = {"steps": settings.steps, "seconds": settings.seconds, "before": before}
    return _trained(split, seed, context, width=settings.width, **limits, **built)


def _trained(split: Split, seed: int, context: Context, **how: Any) -> tuple[Fitted, Record]:
    started = time.perf_counter()
    fitted = fit_tensor(split.train, split.val, seed=seed, device=context.device, **how)
    fit_s = round(time.perf_counter() - started, 2)
    told = {"width": how["width"], "test": float(fitted.exact(split.test).mean())}
    return fitted, {**told, "steps": fitted.settings["steps"], "fit_s": fit_s}


def _structures(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit one tensor on one tree; all else is the same."""
    split = splits(job["set"], context)[0]
    chosen = STRUCTURES[check_choice("`structures`", job["structure"], STRUCTURES)]
    how = {"steps": settings.structure_steps, "seconds": settings.structure_seconds}
    how |= {"width": settings.structure_width, "leaves": "normal", **chosen}
    return {"columns": split.train.shape[1], **_trained(split, seed, context, **how)[1]}


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


# Tables -------------------------------------------------------------------------------------------

COLUMNS = {
    "coupled": "HT, coupled by abs. correlation",
    "balanced": "HT, columns in their order",
    "random": "HT, random tree",
    "mera": "MERA, coupled by abs. correlation",
}
NAMES = {"components": "by components", "autoregressive": "autoregressive"}


def tables(records: Records, paper: Paper) -> str:
    """Return a table for each part that has numbers."""
    parts = []
    if fits := [r for r in records if r["part"] in ("marginals", "features")]:
        parts += ["The fits in the figures, test log-likelihood in nats per row:", _fits(fits)]
    if fits := pick(records, part="structures"):
        told = (
            "Adaptive against naive coupling, and MERA against HT: test log-likelihood in nats per "
            f"row (mean over seeds, ± their standard deviation), {fits[0]['width']} components, "
            "normal leaves on a learned scale (steps; seconds of fitting):"
        )
        parts += [told, _structure_table(fits)]
    if times := pick(records, part="sampling"):
        told = (
            "Rows drawn per second, and the speed-up of the first method, for models of "
            f"{times[0]['width']} components and {times[0]['draws']:,} rows:"
        )
        parts += [told, _times(times)]
    return "\n\n".join(parts)


def _fits(records: Records) -> str:
    rows = []
    for record in records:
        start = record.get("start", "data")
        told = "from data" if start == "data" else "the paper's start"
        shown = [record["part"], record["set"].upper(), told]
        figures = [record["width"], record["steps"], f"{record['fit_s']:.0f}"]
        rows.append([*shown, *map(str, figures), f"{record['test']:.2f}"])
    return table(["figure", "set", "start", "components", "steps", "seconds", "test"], rows)


def _structure_table(records: Records) -> str:
    shown = present(STRUCTURES, (r["structure"] for r in records))
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        own = pick(records, set=name)
        cells = [_cell(pick(own, structure=each)) for each in shown]
        rows.append([f"{name.upper()}, d = {own[0]['columns']}", *cells])
    return table(["", *(COLUMNS[name] for name in shown)], rows)


def _cell(records: Records) -> str:
    if not records:
        return ""
    score = spread([r["test"] for r in records], 2)
    steps, seconds = (fmean(r[key] for r in records) for key in ("steps", "fit_s"))
    return f"{score} ({steps:.0f}; {seconds:.0f})"


def rate(records: Records, columns: int, way: str) -> float | None:
    """Return rows drawn in a second, the median over seeds."""
    own = pick(records, columns=columns, way=way)
    return sorted(r["draws"] / r["draw_s"] for r in own)[len(own) // 2] if own else None


def _times(records: Records) -> str:
    rows = []
    for columns in dict.fromkeys(r["columns"] for r in records):
        fast, slow = (rate(records, columns, way) for way in WAYS)
        times = f"{fast / slow:.0f}" if fast and slow else ""
        rows.append(
            [str(columns), *(f"{each:,.0f}" if each else "" for each in (fast, slow)), times]
        )
    return table(["columns", *(NAMES[way] for way in WAYS), "times faster"], rows)


# Pictures -----------------------------------------------------------------------------------------

DEPTH = 14.0  # nats below its highest value at which a log density is drawn as empty
HUES = {
    "coupled": COLOURS["ours"],
    "balanced": "#e69f00",
    "random": COLOURS["nsf"],
    "mera": COLOURS["paper"],
}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Return those figures whose records are there."""
    found = {}
    if names := [r["set"] for r in records if r["part"] == "marginals"]:
        found["marginals"] = _draw_marginals(list(dict.fromkeys(names)), arrays)
    if starts := [start for start in STARTS if f"features/{start}" in arrays]:
        name = next(r["set"] for r in records if r["part"] == "features")
        found["features"] = _draw_features(name, starts, arrays)
    if fits := pick(records, part="structures"):
        found["structures"] = _draw_structures(fits)
    if times := pick(records, part="sampling"):
        found["sampling"] = _draw_sampling(times)
    return found


def _draw_marginals(names: Sequence[str], arrays: Arrays) -> Any:
    figure, grid = panels(7.2, 3.2, len(names))
    for axes, name in zip(grid[0], names, strict=True):
        _marginal(figure, axes, name, arrays)
    return figure


def _marginal(figure: Any, axes: Any, name: str, arrays: Arrays) -> None:
    density = arrays[f"marginals/{name}/density"].astype(float)
    (left, right), (low, high) = arrays[f"marginals/{name}/ends"].astype(float)
    x, y = arrays[f"marginals/{name}/points"].astype(float).T
    inside = (x > left) & (x < right) & (y > low) & (y < high)
    top = float(density.max())
    image = axes.imshow(
        density,
        origin="lower",
        extent=(left, right, low, high),
        aspect="auto",
        vmin=top - DEPTH,
        vmax=top,
        interpolation="bilinear",
    )
    axes.scatter(x[inside], y[inside], s=2.5, color="white", edgecolor="black", linewidth=0.3)
    figure.colorbar(image, ax=axes, label="log density")
    first, second = pair_of(name)
    axes.set(title=name.upper(), xlim=(left, right), ylim=(low, high))
    if f"marginals/{name}/midnight" in arrays:
        midnight, hour = arrays[f"marginals/{name}/midnight"].astype(float)
        hours = np.arange(0, 25, 6)
        axes.set_xticks(midnight + hours * hour, [f"{h}:00" for h in hours])
        axes.set(xlabel="time of day", ylabel="power of the kitchen (standardised)")
    else:
        axes.set(xlabel=f"$x_{{{first + 1}}}$", ylabel=f"$x_{{{second + 1}}}$")


def _draw_features(name: str, starts: Sequence[str], arrays: Arrays) -> Any:
    figure, grid = panels(7.2, 1.9 * len(starts) + 0.3, 2, len(starts), sharex=True)
    x, values = arrays["features/x"], arrays["features/values"]
    for row, start in zip(grid, starts, strict=True):
        told = "the paper's start" if start == "paper" else "start from data"
        for axes, curves, when in zip(
            row, arrays[f"features/{start}"], ("before training", "after training"), strict=True
        ):
            ends = float(x[0]), float(x[-1])
            axes.hist(values, 60, range=ends, density=True, color="#dddddd")
            axes.plot(x, curves, linewidth=0.8)
            # Logarithmic: a sharp feature would hide all others.
            axes.set(title=f"{told}, {when}", yscale="log", ylim=(1e-3, 100))
            axes.set_xlim(ends)
        row[0].set_ylabel("density")
    for axes in grid[-1]:
        axes.set_xlabel(f"$x_{FEATURE + 1}$")
    told = f"Ten features of one column of {name.upper()}, and a histogram of {len(values)} rows"
    figure.suptitle(told, fontsize=9)
    return figure


def _draw_structures(records: Records) -> Any:
    names = list(dict.fromkeys(r["set"] for r in records))
    shown = present(STRUCTURES, (r["structure"] for r in records))
    figure, grid = panels(7.2, 0.9 + 0.28 * len(shown), len(names), sharey=True)
    for place, axes in enumerate(grid[0]):
        for height, each in enumerate(shown):
            scores = [
                r["test"] for r in records if (r["set"], r["structure"]) == (names[place], each)
            ]
            axes.plot(scores, [height] * len(scores), "o", color=HUES[each], markersize=5)
        rows_of_names(axes, [COLUMNS[each] for each in shown])
        axes.set(title=names[place].upper())
        axes.margins(x=0.15)
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="x", linewidth=0.3)
    figure.supxlabel("test log-likelihood, nats per row", fontsize=8)
    return figure


def _draw_sampling(records: Records) -> Any:
    figure = blank(4.2, 2.8)
    axes = figure.subplots()
    columns = sorted({r["columns"] for r in records})
    for way, hue in zip(WAYS, (COLOURS["ours"], COLOURS["nsf"]), strict=True):
        rates = [rate(records, each, way) for each in columns]
        axes.plot(columns, [r or np.nan for r in rates], "o-", color=hue, label=NAMES[way])
    axes.set(xscale="log", yscale="log", xlabel="columns", ylabel="rows drawn in a second")
    axes.set_xticks(columns, [str(each) for each in columns])
    axes.minorticks_off()
    axes.legend()
    return figure


STUDIES = (
    Study(
        "appendix",
        "Figures of the appendix",
        measure,
        tables,
        figures,
        jobs=jobs,
        key=("part", "set", "start", "structure", "columns", "way"),
        parts=("shown", "pictured", "sets", "structures"),
        own=("sampling",),
    ),
)
