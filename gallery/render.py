"""Run the examples and save their pictures: `python gallery/render.py [NAME ...]`."""

import runpy
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

FOLDER = Path(__file__).parent
PICTURES = FOLDER.parent / "docs" / "images" / "gallery"
EXAMPLES = (
    *("messy_table", "gaps_and_censoring", "risk_and_tails"),
    *("finding_causes", "synthetic_data", "model_in_sql"),
)


def run(name: str) -> dict[str, Any]:
    """Run an example from its first cell to its last and return its names.

    Each ends in a picture called `figure`.
    """
    mpl.use("Agg")
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def save(name: str, figure: Any) -> Path:
    """Save the picture of an example for the documentation."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    target = PICTURES / f"{name}.png"
    figure.savefig(target, dpi=110)
    return target


if __name__ == "__main__":
    for chosen in sys.argv[1:] or EXAMPLES:
        print(save(chosen, run(chosen)["figure"]))
