"""The paper's figures of a toy density: data, samples, marginals and conditionals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.drawing import blank
from experiments.registry import Arrays, Record
from experiments.toy.densities import TOYS
from experiments.toy.run import LINE, LINE_END, PAIRS, THIRDS, ends_of
from experiments.toy.tables import COLUMNS, LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("$x_1$", "$x_2$", "$x_3$")
HUES = ("#0072b2", "#d55e00", "#009e73")
VIEWS = {"spirals": (20, 10), "gaussians": (30, 55), "checkerboard": (30, -60)}


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return a figure for each density and each model whose marginals were kept."""
    return {
        f"{name}_{model}": _figure(name, model, arrays)
        for name in TOYS
        for model in ("paper", "ours")
        if f"{name}/{model}/pairs" in arrays
    }


def _figure(name: str, model: str, arrays: Arrays) -> "Figure":
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
    x = (np.arange(LINE) + 0.5) * (2 * LINE_END / LINE) - LINE_END
    own, data = arrays[f"{name}/{model}/lines"], arrays[f"{name}/data/lines"]
    for column in range(3):
        label = f"p({NAMES[column]})"
        axes.plot(x, data[column], "x", color=HUES[column], markersize=2, markeredgewidth=0.4)
        axes.plot(x, own[column], color=HUES[column], linewidth=1, label=label)
    axes.set(xlim=(-LINE_END, LINE_END), title="one column, × data", yticks=[])
    axes.set_ylim(bottom=0, top=1.35 * max(float(own.max()), float(data.max())))
    axes.legend(fontsize=6, handlelength=1, loc="upper right", ncols=3, columnspacing=0.6)
