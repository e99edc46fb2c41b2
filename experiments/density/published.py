"""The published splits, rebuilt from the original files where those are at hand.

The rules are those of Papamakarios et al. (2017), which all papers since have followed. A split
whose shape is not the published one is refused.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.likelihood.sets import SMALL, Rows, Split, splits


class Shape(NamedTuple):
    """Rows of the parts of a published split, and columns."""

    train: int
    val: int
    test: int
    columns: int


SHAPES = {
    "power": Shape(1_659_917, 184_435, 204_928, 6),
    "gas": Shape(852_174, 94_685, 105_206, 8),
    "hepmass": Shape(315_123, 35_013, 174_987, 21),
    "miniboone": Shape(29_556, 3_284, 3_648, 43),
}
FILES = {
    "power": ("power/data.npy",),
    "gas": ("gas/ethylene_CO.pickle",),
    "hepmass": ("hepmass/1000_train.csv", "hepmass/1000_test.csv"),
    "miniboone": ("miniboone/data.npy",),
}
Parts = tuple[Rows, Rows, Rows]


def split_of(name: str, folder: Callable[[], Path]) -> tuple[Split, bool]:
    """Return a split and whether it is the published one, which comes before the files at hand.

    Args:
        name: of the set; one of the small sets needs no folder.
        folder: says where data sets are.
    """
    if name in SHAPES:
        paths = [folder() / file for file in FILES[name]]
        if all(path.exists() for path in paths):
            return published(name, paths), True
    return splits(name, None if name in SMALL else folder())[0], False


def published(name: str, paths: list[Path]) -> Split:
    """Rebuild a published split from its original files."""
    train, val, test = READERS[name](*paths)
    found = Shape(len(train), len(val), len(test), train.shape[1])
    if found != SHAPES[name]:
        raise SystemExit(
            f"Expected the original files of {name} to give {SHAPES[name]}; got {found}. Check "
            f"{paths[0]}, or remove it to use the prepared file."
        )
    return Split(name, None, train, val, test)


def power(path: Path) -> Parts:
    """Shuffle, leave out two columns, add noise of one step of each meter, standardise."""
    rng = np.random.RandomState(42)  # the generator of the published split
    rows = np.load(path)
    rng.shuffle(rows)
    rows = np.delete(rows, [1, 3], axis=1)
    count = len(rows)
    voltage, active = 0.01 * rng.rand(count, 1), 0.001 * rng.rand(count, 1)
    meters = rng.rand(count, 3)
    return _standardised(rows + np.hstack([active, voltage, meters, np.zeros((count, 1))]))


def gas(path: Path) -> Parts:
    """Leave out the first of two columns that correlate by more than 0.98, until none do."""
    frame = pd.read_pickle(path).drop(columns=["Meth", "Eth", "Time"])
    while (crowded := (frame.corr() > 0.98).sum() > 1).any():
        frame = frame.drop(columns=frame.columns[int(np.argmax(crowded))])
    rows = ((frame - frame.mean()) / frame.std()).to_numpy()
    return _tenths(rows)


def hepmass(train: Path, test: Path) -> Parts:
    """Keep the signal, and of its columns those whose smallest value is there at most 5 times."""
    parts: list[Any] = []
    for path in (train, test):
        frame = pd.read_csv(path, index_col=False)
        parts.append(frame[frame.iloc[:, 0] == 1].iloc[:, 1:])
    seen, held = parts[0], parts[1].iloc[:, : parts[0].shape[1]]  # the second has one column more
    rows, other = (((part - seen.mean()) / seen.std()).to_numpy() for part in (seen, held))
    kept = (rows == rows.min(0)).sum(0) <= 5
    rows, other = rows[:, kept], other[:, kept]
    last = int(0.1 * len(rows))
    return rows[:-last], rows[-last:], other


def miniboone(path: Path) -> Parts:
    """Standardise; the file was cleaned by those who published it."""
    return _standardised(np.load(path))


def _standardised(rows: Rows) -> Parts:
    """Cut, and standardise by the training and validation rows together."""
    train, val, test = _tenths(rows)
    seen = np.concatenate([train, val])
    mean, scale = seen.mean(0), seen.std(0)
    train, val, test = ((part - mean) / scale for part in (train, val, test))
    return train, val, test


def _tenths(rows: Rows) -> Parts:
    """Cut off a tenth for testing, and of the rest a tenth for validation."""
    last = int(0.1 * len(rows))
    seen, test = rows[:-last], rows[-last:]
    inner = int(0.1 * len(seen))
    return seen[:-inner], seen[-inner:], test


READERS: dict[str, Callable[..., Parts]] = {
    "power": power,
    "gas": gas,
    "hepmass": hepmass,
    "miniboone": miniboone,
}
