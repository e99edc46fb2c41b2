"""The figures of the appendix."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.appendix.run import FEATURE, STARTS, STRUCTURES, WAYS, pair_of
from experiments.appendix.tables import COLUMNS, NAMES, rate
from experiments.drawing import COLOURS, blank
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTH = 14.0  # nats below its highest value at which a log density is drawn as empty
HUES = {
    "coupled": COLOURS["ours"],
    "balanced": "#e69f00",
    "random": COLOURS["nsf"],
    "mera": COLOURS["paper"],
}


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return those figures whose records are there."""
    found = {}
    if names := [r["set"] for r in records if r["part"] == "marginals"]:
        found["marginals"] = _marginals(list(dict.fromkeys(names)), arrays)
    if starts := [start for start in STARTS if f"features/{start}" in arrays]:
        name = next(r["set"] for r in records if r["part"] == "features")
        found["features"] = _features(name, starts, arrays)
    if fits := [r for r in records if r["part"] == "structures"]:
        found["structures"] = _structures(fits)
    if times := [r for r in records if r["part"] == "sampling"]:
        found["sampling"] = _sampling(times)
    return found


def _marginals(names: Sequence[str], arrays: Arrays) -> "Figure":
    figure = blank(7.2, 3.2)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        _marginal(figure, axes, name, arrays)
    return figure


def _marginal(figure: "Figure", axes: Any, name: str, arrays: Arrays) -> None:
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


def _features(name: str, starts: Sequence[str], arrays: Arrays) -> "Figure":
    figure = blank(7.2, 1.9 * len(starts) + 0.3)
    x, values = arrays["features/x"], arrays["features/values"]
    grid = figure.subplots(len(starts), 2, squeeze=False, sharex=True)
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


def _structures(records: Sequence[Record]) -> "Figure":
    names = list(dict.fromkeys(r["set"] for r in records))
    shown = [name for name in STRUCTURES if any(r["structure"] == name for r in records)]
    figure = blank(7.2, 0.9 + 0.28 * len(shown))
    for place, axes in enumerate(figure.subplots(1, len(names), sharey=True, squeeze=False)[0]):
        for height, each in enumerate(shown):
            scores = [
                r["test"] for r in records if (r["set"], r["structure"]) == (names[place], each)
            ]
            axes.plot(scores, [height] * len(scores), "o", color=HUES[each], markersize=5)
        axes.set_yticks(range(len(shown)), [COLUMNS[each] for each in shown])
        axes.set(title=names[place].upper(), ylim=(len(shown) - 0.5, -0.5))
        axes.margins(x=0.15)
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="x", linewidth=0.3)
        axes.tick_params(axis="y", length=0)
    figure.supxlabel("test log-likelihood, nats per row", fontsize=8)
    return figure


def _sampling(records: Sequence[Record]) -> "Figure":
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
