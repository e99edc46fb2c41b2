"""What every picture shares: matplotlib on demand, one palette, one size of text."""

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BLUE",
    "DATA",
    "GREY",
    "LIGHT",
    "SIZE",
    "WIDTH",
    "Axes",
    "axes_or_new",
    "colour_map",
    "crowded",
    "dress",
    "fade",
    "letters",
    "palette",
    "pyplot",
    "shade",
    "shown",
    "wrapped",
]

Axes = Any  # matplotlib is optional, so its types cannot be named here

WIDTH = 7.0  # inches, the text block of a printed page
SIZE = 8  # points
# Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, DATA, GREY = "#0072B2", "#D55E00", "#6E6E6E"
LIGHT = "#A9CFE5"  # the blue at a third of its strength
_CATEGORIES = (BLUE, DATA, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B2A000")


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, imported only when a picture is asked for."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"Expected matplotlib for pictures; got none ({error}). Run: "
            'pip install "marginals[plot]".'
        ) from error
    return plt


def axes_or_new(ax: Axes, size: tuple[float, float] = (WIDTH / 2, 2.6)) -> Axes:
    """Return the axes given, or those of a new figure of a size in inches."""
    plt = pyplot()  # first, so that its absence is told in the same words everywhere
    if ax is not None:
        return ax
    return plt.subplots(figsize=size, layout="constrained")[1]


def dress(ax: Axes, *, frame: bool = False) -> None:
    """Set small text and thin lines; without `frame`, leave out the top and right spines."""
    ax.tick_params(labelsize=SIZE - 1, width=0.6, length=2.5)
    for side, spine in ax.spines.items():
        spine.set_linewidth(0.6)
        if not frame and side in ("top", "right"):
            spine.set_visible(False)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_fontsize(SIZE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_fontsize(SIZE - 1)


def shown(value: Any, most: int = 28) -> str:
    """Return a name or value as literal text, shortened in the middle.

    >>> shown("a_name_that_is_far_too_long", 11)
    'a_nam…_long'
    """
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    text = text.removesuffix(" 00:00:00")  # of a day
    if len(text) > most:
        head = most // 2
        text = f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"
    return text.replace("$", r"\$")  # a pair of dollars would be read as mathematics


def wrapped(name: Any, most: int) -> str:
    """Return a name in up to two lines of at most so many letters, broken at a space or underscore.

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
    """Return about how many letters fit across axes."""
    return max(8, int(ax.get_window_extent().width / ax.figure.dpi * 72 / (0.55 * SIZE)))


def crowded(ax: Axes, texts: Sequence[str]) -> bool:
    """Say whether labels, evenly spaced along the bottom, would touch each other."""
    return max(map(len, texts)) + 1 > letters(ax) / len(texts)


def palette(count: int) -> Sequence[Any]:
    """Return colours for unordered things, over again from the ninth on."""
    return [_CATEGORIES[i % len(_CATEGORIES)] for i in range(count)]


def colour_map() -> Any:
    """Return the colours of ordered things: viridis without its yellow, pale on white paper."""
    from matplotlib.colors import ListedColormap

    full = pyplot().get_cmap("viridis")
    return ListedColormap(full([i / 255 * 0.8 for i in range(256)]), name="viridis_dark")


def fade() -> Any:
    """Return the colours of densities: from nearly white to the dark end of one blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("densities", ["#EAF3F9", LIGHT, BLUE, "#00304D"])


def shade(share: float) -> Any:
    """Return the text colour that is legible on `fade()` at a share of its range.

    >>> shade(0.1), shade(0.9)
    ('black', 'white')
    """
    return "white" if share > 0.5 else "black"
