"""The data sets of the scoreboard: large ones with fixed parts, small ones in five folds.

All come standardised, so one bandwidth or one floor on a variance means the same in each column.
Log densities are those of the standardised columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.model_selection import KFold

from benchmarks.data import load_density

Rows = np.ndarray[Any, np.dtype[np.float64]]


def _diabetes_continuous() -> Any:
    """Return the diabetes table without sex, whose two values are no density to compare."""
    found = load_diabetes(as_frame=True)
    return SimpleNamespace(data=found.data.drop(columns="sex"))


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
FOLDS = 5
INNER = 0.15  # of a training fold, held out for validation
SPLIT_SEED = 0  # of folds, inner validation and added noise: the same for every model and seed


@final
@dataclass(frozen=True)
class Split:
    """The rows that one fit may see, and those it is judged by.

    Args:
        name: of the data set.
        fold: which of the folds `test` is; None for a set with fixed parts.
        train, val, test: rows, (N, D) float64.
        partial: further training rows with missing cells, for models that take them.
    """

    name: str
    fold: int | None
    train: Rows
    val: Rows
    test: Rows
    partial: Rows | None = None


def splits(name: str, folder: Path | None) -> list[Split]:
    """Return the one split of a large data set, or the folds of a small one."""
    if name in SMALL:
        return folds(name, np.asarray(SMALL[name]().data, dtype=np.float64))
    if name not in LARGE or folder is None:
        raise ValueError(
            f"Expected `name` to be one of {', '.join(NAMES)}, and a folder of data for all but "
            f"the last {len(SMALL)}; got {name!r} and {folder}. Correct --sets or give --data."
        )
    return [_fixed(name, folder)]


def folds(name: str, rows: Rows) -> list[Split]:
    """Cut rows into folds, each standardised by its own training fold."""
    found = []
    cut = KFold(FOLDS, shuffle=True, random_state=SPLIT_SEED)
    for fold, (seen, held) in enumerate(cut.split(rows)):
        mean, scale = rows[seen].mean(0), rows[seen].std(0)
        order = np.random.default_rng(SPLIT_SEED + fold).permutation(seen)
        inner = max(1, round(INNER * len(seen)))
        val, train, test = (
            (rows[part] - mean) / scale for part in (order[:inner], order[inner:], held)
        )
        found.append(Split(name, fold, train, val, test))
    return found


def _fixed(name: str, folder: Path) -> Split:
    file = "power" if name == DEQUANTISED else name
    parts = {
        part: rows.double().numpy().astype(np.float64)
        for part, rows in load_density(folder, file).items()
    }
    split = Split(name, None, parts["train"], parts["val"], parts["test"])
    if name == DEQUANTISED:
        return dequantised(split)
    return replace(split, partial=parts.get("train_partial"))


def dequantised(split: Split) -> Split:
    """Spread the last column evenly over its lattice: no density can buy likelihood there."""
    step = float(np.median(np.diff(np.unique(split.train[:, -1]))))
    generator = np.random.default_rng(SPLIT_SEED)

    def spread(rows: Rows) -> Rows:
        noisy = rows.copy()
        noisy[:, -1] += step * (generator.random(len(rows)) - 0.5)
        return noisy

    train, val, test = (spread(part) for part in (split.train, split.val, split.test))
    return replace(split, train=train, val=val, test=test)
