"""The graphs found in one problem of each kind, beside the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.causal.tables import LABELS, TITLES
from experiments.drawing import blank
from experiments.registry import Arrays, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("gaussian", "ours", "ours_q3", "kci")
RIGHT, OPEN, REVERSED, WRONG, MISSED = "#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#bbbbbb"
KINDS = (
    ("in the graph", RIGHT, "-"),
    ("right, direction open", OPEN, "-"),
    ("reversed", REVERSED, "-"),
    ("not in the graph", WRONG, "-"),
    ("missed", MISSED, ":"),
)
# Short names of the columns of Sachs, those of the consensus graph.
SHORT = {"praf": "raf", "pmek": "mek", "p44/42": "erk", "pakts473": "akt", "pjnk": "jnk"}
Places = dict[str, tuple[float, float]]


def figures(records: Sequence[Record], arrays: Arrays) -> "dict[str, Figure]":
    """Return a figure for each kind of problem, of its first graph."""
    found = {}
    for name in TITLES:
        own = [r for r in records if r["set"] == name and r["finished"]]
        if own:
            seed = min(r["seed"] for r in own)
            found[name] = _figure(name, [r for r in own if r["seed"] == seed])
    return found


def _figure(name: str, records: Sequence[Record]) -> "Figure":
    from matplotlib.lines import Line2D

    by_method = {r["method"]: r for r in records}
    shown = [method for method in SHOWN if method in by_method]
    title, edges = next(iter(records[0]["truths"].items()))
    truth = {(a, b) for a, b in edges}
    names = records[0]["columns"]
    figure = blank(7.2, 5.2)
    places = _ring(names)
    axes = figure.subplots(2, 3).ravel()
    for each in axes:
        each.set_axis_off()
    _panel(axes[0], truth, truth, places, title)
    for place, method in enumerate(shown, 1):
        record = by_method[method]
        told = record["distances"][title]
        heading = f"{LABELS[method]}\nSHD(D) {told['directed']}, SHD {told['usual']}"
        _panel(axes[place], {(a, b) for a, b in record["found"]}, truth, places, heading)
    lines = [Line2D([], [], color=hue, linestyle=style, label=label) for label, hue, style in KINDS]
    axes[-1].legend(handles=lines, loc="center", fontsize=8)
    told = "Sachs" if name == "sachs" else f"{name.capitalize()} DAG, seed {records[0]['seed']}"
    figure.suptitle(f"{told}, d = {len(names)}", fontsize=9)
    return figure


def _ring(names: Sequence[str]) -> Places:
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(1, len(names))
    return {
        name: (float(np.cos(a)), float(np.sin(a))) for name, a in zip(names, angles, strict=True)
    }


def _panel(axes: Any, found: set[Any], truth: set[Any], places: Places, title: str) -> None:
    for a, b in sorted(truth):
        if (a, b) not in found and (b, a) not in found:
            _edge(axes, places[a], places[b], MISSED, "->", ":")
    for a, b in sorted(found):
        both, arrow = (b, a) in found, "->"
        if both and a > b:
            continue
        if (a, b) in truth or (b, a) in truth:
            hue = OPEN if both else RIGHT if (a, b) in truth else REVERSED
        else:
            hue = WRONG
        _edge(axes, places[a], places[b], hue, "-" if both else arrow, "-")
    for name, (x, y) in places.items():
        axes.text(1.05 * x, 1.05 * y, SHORT.get(name, name), ha="center", va="center", fontsize=7)
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.25, 1.25), aspect="equal")
    axes.set_title(title)


def _edge(axes: Any, start: Any, end: Any, hue: str, arrow: str, style: str) -> None:
    told = {"arrowstyle": arrow, "color": hue, "linestyle": style, "linewidth": 1.0}
    told |= {"shrinkA": 8, "shrinkB": 8, "mutation_scale": 8}
    axes.annotate("", end, start, arrowprops=told)
