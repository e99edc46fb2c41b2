"""What all plots share: matplotlib on demand, one palette, one text size, labels and titles."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from marginals.runtime.extras import optional

Axes = Any  # matplotlib is optional, so its types cannot be named here

WIDTH = 7.0  # inches, the text block of a printed page
SIZE = 8  # points
# Colours of Okabe and Ito, distinct for people with any colour vision.
BLUE, DATA, GREY = "#0072B2", "#D55E00", "#6E6E6E"
LIGHT = "#A9CFE5"  # the blue at a third of its strength
CATEGORIES = (BLUE, DATA, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B2A000")


def pyplot() -> Any:
    """Import and return `matplotlib.pyplot`."""
    return optional("matplotlib.pyplot", "marginals[plot]")


def axes_or_new(ax: Axes, size: tuple[float, float] = (WIDTH / 2, 2.6)) -> Axes:
    """Return the given axes, or those of a new figure with a size in inches."""
    plt = pyplot()  # first, so that its absence gives the same error everywhere
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def dress(ax: Axes, *, frame: bool = False) -> None:
    """Set small text and thin lines; without `frame`, hide the top and right spines."""
    ax.tick_params(labelsize=SIZE - 1, width=0.6, length=2.5)
    for side, spine in ax.spines.items():
        spine.set_linewidth(0.6)
        if not frame and side in ("top", "right"):
            spine.set_visible(False)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_fontsize(SIZE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_fontsize(SIZE - 1)


def dress_map(ax: Axes) -> None:
    """Dress axes of tiles: no spines and no tick marks."""
    dress(ax)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def colour_bar(ax: Axes, colours: Any, label: str, **options: Any) -> Any:
    """Add a colour bar to the right of axes."""
    bar = ax.figure.colorbar(colours, ax=ax, **options)
    bar.set_label(label, fontsize=SIZE)
    bar.outline.set_visible(False)
    dress(bar.ax, frame=True)
    return bar


def colour_map() -> Any:
    """Return colours for ordered values: viridis without its yellow, which is pale on white."""
    from matplotlib.colors import ListedColormap

    full = pyplot().get_cmap("viridis")
    return ListedColormap(full([i / 255 * 0.8 for i in range(256)]), name="viridis_dark")


def fade() -> Any:
    """Return colours for densities: from nearly white to a dark blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("densities", ["#EAF3F9", LIGHT, BLUE, "#00304D"])


# Text -------------------------------------------------------------------------------------------


def shown(value: Any, most: int = 28) -> str:
    """Return a name or value as literal text, shortened in the middle.

    >>> shown("a_name_that_is_far_too_long", 11)
    'a_nam…_long'
    """
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    text = text.removesuffix(" 00:00:00")  # midnight
    if len(text) > most:
        head = most // 2
        text = f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"
    return text.replace("$", r"\$")  # matplotlib reads a pair of dollars as mathematics


def wrapped(name: Any, most: int) -> str:
    """Return a name in up to two lines of at most `most` letters, broken at a space or mark.

    >>> wrapped("total_phenols", 8), wrapped("hue", 8)
    ('total_\\nphenols', 'hue')
    """
    text = str(name)
    breaks = [i + 1 for i, letter in enumerate(text[:-1]) if letter in " _-/"]
    if len(text) <= most or not breaks:
        return shown(text, most)
    middle = min(breaks, key=lambda i: abs(2 * i - len(text)))
    return f"{shown(text[:middle].rstrip(), most)}\n{shown(text[middle:], most)}"


def letters(ax: Axes) -> int:
    """Return roughly how many letters fit across axes."""
    return max(8, int(ax.get_window_extent().width / ax.figure.dpi * 72 / (0.55 * SIZE)))


def crowded(ax: Axes, texts: Sequence[str]) -> bool:
    """Return whether evenly spaced labels along the bottom would touch each other."""
    return max(map(len, texts)) + 1 > letters(ax) / len(texts)


def left_title(ax: Axes, text: str) -> None:
    """Write a small title at the left of axes, in as many lines as it needs."""
    if text:
        ax.set_title(fill(text, letters(ax)), fontsize=SIZE, loc="left")


def write_cells(ax: Axes, x: Any, y: Any, values: Any, text: Callable[[float], str]) -> None:
    """Write the values of a map (y, x) coloured by `fade()` into its cells, NaN left out."""
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value > np.nanmax(values) / 2 else "black"
            middle = {"ha": "center", "va": "center", "fontsize": SIZE - 2}
            ax.text(x[j], y[i], text(float(value)), color=colour, **middle)


def evidence_text(given: Mapping[Any, Any] | None) -> str:
    """Return evidence as text.

    >>> evidence_text({"age": 40, "wage": (10.0, None), "city": {"Rome"}})
    'given age = 40, wage > 10, city in {Rome}'
    """
    if not given:
        return ""
    return "given " + ", ".join(_cell_text(shown(name), cell) for name, cell in given.items())


def _cell_text(name: str, cell: Any) -> str:
    if isinstance(cell, set | frozenset | list):
        return f"{name} in {{{', '.join(sorted(shown(value, 14) for value in cell))}}}"
    if not isinstance(cell, tuple):
        return f"{name} = {shown(cell)}"
    low, high = cell
    if low is None:
        return f"{name} ≤ {shown(high)}"
    return f"{name} > {shown(low)}" if high is None else f"{shown(low)} < {name} ≤ {shown(high)}"
