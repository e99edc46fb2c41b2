"""Pictures without pyplot's state; matplotlib is imported when one is drawn."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = {"font.size": 8, "axes.linewidth": 0.6, "axes.titlesize": 8, "legend.frameon": False}
DPI = 130

# Colours that also differ in grey and for the colour-blind.
COLOURS = {"paper": "#009e73", "ours": "#08306b", "nsf": "#d55e00", "truth": "#000000"}


def blank(width: float, height: float) -> "Figure":
    """Return an empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(
    width: float, height: float, columns: int, rows: int = 1, **options: Any
) -> "tuple[Figure, Any]":
    """Return a figure and its axes, an array (rows, columns)."""
    figure = blank(width, height)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend(figure: "Figure", axes: Any, columns: int | None = None, place: str = "lower") -> None:
    """Put the legend of some axes outside a figure, each label once."""
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    options = {"loc": f"outside {place} center", "ncols": columns or len(found), "fontsize": 7}
    figure.legend(found.values(), found.keys(), **options)


def open_frame(axes: Any, sides: Sequence[str] = ("top", "right")) -> None:
    """Leave out sides of a frame."""
    axes.spines[list(sides)].set_visible(False)


def rows_of_names(axes: Any, names: Iterable[str]) -> None:
    """Label the y axis with names, the first at the top."""
    listed = list(names)
    axes.set_yticks(range(len(listed)), listed)
    axes.set_ylim(len(listed) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
