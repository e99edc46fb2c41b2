"""Pictures without the state of pyplot; matplotlib is imported when one is drawn."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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


def save(figures: "Mapping[str, Figure]", folder: Path, prefix: str) -> list[Path]:
    """Save figures as PNG files without a date, so that the same figure is the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{prefix}-{name}.png")
        figure.savefig(paths[-1], dpi=DPI, metadata={"Software": None})
    return paths
