"""Tables of continuous columns: large ones with fixed parts, small ones in five folds.

All come standardised, so that one bandwidth or one floor on a variance means the same in each
column. Log densities are those of the standardised columns.

The published splits of the four UCI sets are rebuilt from the original files where those are at
hand, by the rules of Papamakarios et al. (2017), which all papers since have followed. A split
whose shape is not the published one is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, final

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.model_selection import KFold

from studies.harness.available import check_choice
from studies.harness.study import Context

Rows = np.ndarray[Any, np.dtype[np.float64]]


def _diabetes_continuous() -> Any:
    """Return the diabetes table without sex, whose two values have no density to compare."""
    return SimpleNamespace(data=load_diabetes(as_frame=True).data.drop(columns="sex"))


SMALL: dict[str, Callable[[], Any]] = {
    "iris": load_iris,
    "wine": load_wine,
    "breast-cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "diabetes-continuous": _diabetes_continuous,
}
DEQUANTISED = "power-dequantised"
LARGE = ("power", DEQUANTISED, "gas", "hepmass", "miniboone", "sachs", "protein")
NAMES = (*LARGE, *SMALL)
WITH_PARTIAL = ("miniboone",)  # sets with further training rows that have gaps
FOLDS = 5
INNER = 0.15  # of a training fold, held out for validation
SPLIT_SEED = 0  # of folds, inner validation and added noise: the same for every model and seed


@final
@dataclass(frozen=True)
class Split:
    """The rows that one fit may see, and those that judge it.

    Args:
        name: Name of the data set.
        fold: Which of the folds `test` is; None for a set with fixed parts.
        train, val, test: Rows, (N, D) float64.
        partial: Further training rows with missing cells, for models that take them.
    """

    name: str
    fold: int | None
    train: Rows
    val: Rows
    test: Rows
    partial: Rows | None = None

    @property
    def all_train(self) -> Rows:
        """The training rows, with those that have missing cells."""
        return self.train if self.partial is None else np.concatenate([self.train, self.partial])


def splits(name: str, context: Context) -> list[Split]:
    """Return the one split of a large data set, or the folds of a small one."""
    check_choice("`sets`", name, NAMES)
    if name in SMALL:
        return folds(name, np.asarray(SMALL[name]().data, dtype=np.float64))
    file = context.file("density", f"{'power' if name == DEQUANTISED else name}.npz")
    with np.load(file) as stored:
        parts = {part: stored[part].astype(np.float64) for part in stored.files}
    split = Split(name, None, parts["train"], parts["val"], parts["test"])
    if name == DEQUANTISED:
        return [dequantised(split)]
    return [replace(split, partial=parts.get("train_partial"))]


def folds(name: str, rows: Rows) -> list[Split]:
    """Cut rows into folds, each standardised by its own training fold."""
    found = []
    cut = KFold(FOLDS, shuffle=True, random_state=SPLIT_SEED)
    for fold, (seen, held) in enumerate(cut.split(rows)):
        mean, scale = rows[seen].mean(0), rows[seen].std(0)
        order = np.random.default_rng(SPLIT_SEED + fold).permutation(seen)
        inner = max(1, round(INNER * len(seen)))
        parts = (order[inner:], order[:inner], held)
        train, val, test = ((rows[part] - mean) / scale for part in parts)
        found.append(Split(name, fold, train, val, test))
    return found


def dequantised(split: Split) -> Split:
    """Spread the last column evenly over its lattice: no density can gain from spikes there."""
    step = float(np.median(np.diff(np.unique(split.train[:, -1]))))
    generator = np.random.default_rng(SPLIT_SEED)

    def spread(rows: Rows) -> Rows:
        noisy = rows.copy()
        noisy[:, -1] += step * (generator.random(len(rows)) - 0.5)
        return noisy

    train, val, test = (spread(part) for part in (split.train, split.val, split.test))
    return replace(split, train=train, val=val, test=test)


def cell_widths(rows: Rows) -> Rows:
    """Return the step of each column whose values repeat on a grid, and 0 for the others.

    >>> cell_widths(np.array([[0.0, 0.0], [0.3, 0.71], [0.3, 0.2], [0.9, 0.5], [0.0, 0.9]]))
    array([0.3, 0. ])
    """
    return np.array([_width(np.unique(column, return_counts=True)) for column in rows.T])


def _width(found: tuple[Rows, Any]) -> float:
    values, counts = found
    if not 1 < len(values) < 0.75 * counts.sum():
        return 0.0
    gaps = np.diff(values)
    step = float(gaps[gaps > 1e-9 * np.ptp(values)].min())  # beyond the rounding of floats
    places = (values - values[0]) / step
    on_grid = np.abs(places - places.round()) < 0.05
    return step if np.average(on_grid, weights=counts) >= 0.99 else 0.0


def some(rows: Rows, most: int, seed: int) -> Rows:
    """Return at most so many rows, chosen at random."""
    if len(rows) <= most:
        return rows
    return rows[np.random.default_rng(seed).choice(len(rows), most, replace=False)]


# Published splits -------------------------------------------------------------------------------


class Shape(NamedTuple):
    """Rows of the parts of a published split, and columns."""

    train: int
    val: int
    test: int
    columns: int


Parts = tuple[Rows, Rows, Rows]
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


def split_of(name: str, context: Context) -> tuple[Split, bool]:
    """Return a split and whether it is the published one, which comes before the prepared one."""
    if name in SHAPES:
        paths = [context.data / file for file in FILES[name]]
        if all(path.exists() for path in paths):
            return published(name, paths), True
    return splits(name, context)[0], False


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
    return _tenths(((frame - frame.mean()) / frame.std()).to_numpy())


def hepmass(train: Path, test: Path) -> Parts:
    """Keep the signal, and the columns whose smallest value occurs at most 5 times."""
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
    """Cut off a tenth for testing, and a tenth of the rest for validation."""
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
