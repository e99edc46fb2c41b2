"""The sets of ADBench, cut into training and test rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

Rows = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

# The sets on which our method was chosen; the others were looked at once, when it was fixed.
DEVELOPMENT = ("cardio", "satellite", "thyroid", "vowels")
FILES = {
    **{"cardio": "6_cardio", "satellite": "30_satellite", "thyroid": "38_thyroid"},
    **{"vowels": "40_vowels", "annthyroid": "2_annthyroid", "ionosphere": "18_Ionosphere"},
    **{"mammography": "23_mammography", "pageblocks": "27_PageBlocks"},
    **{"pendigits": "28_pendigits", "shuttle": "32_shuttle", "wbc": "42_WBC", "yeast": "47_yeast"},
}
MOST_ROWS = 10_000  # as in ADBench
TEST_SHARE = 0.3
MISSING = 0.2


@final
@dataclass(frozen=True)
class Split:
    """Training rows, their labels unused, and test rows with labels: 1 is an anomaly."""

    name: str
    train: Rows
    test: Rows
    labels: Labels


def load(folder: Path, name: str) -> tuple[Rows, Labels]:
    """Load a set: rows (N, D) and labels (N,)."""
    path = folder / "adbench" / f"{FILES[name]}.npz"
    if not path.exists():
        raise SystemExit(f"Expected the data set {path}; it is not there.")
    with np.load(path, allow_pickle=False) as parts:
        return parts["X"].astype(np.float64), parts["y"].astype(np.int64)


def cut(name: str, rows: Rows, labels: Labels, seed: int, missing: float) -> Split:
    """Take at most 10,000 rows, split them 70/30 by label, and blank a share of all cells.

    Cells go missing at random, in training and test rows; the split is the same without gaps.
    """
    index = np.arange(len(rows))
    if len(rows) > MOST_ROWS:
        options = {"train_size": MOST_ROWS, "stratify": labels, "random_state": seed}
        index, _ = train_test_split(index, **options)
    options = {"test_size": TEST_SHARE, "stratify": labels[index], "random_state": seed}
    train, test = train_test_split(index, **options)
    blank = np.random.default_rng(seed).random(rows.shape) < missing
    holed = np.where(blank, np.nan, rows)
    return Split(name, holed[train], holed[test], labels[test])
