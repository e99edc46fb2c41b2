"""Whether a classifier tells real rows from synthetic ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from marginals.synthesis.comparable_cells import Cells, Floats

_FOLDS = 5
# Equal rows from which on a copy says little of the label of another: four in each part.
_MANY = 4 * _FOLDS
# The codes of more categories, missing among them, are taken for numbers.
_MOST_CATEGORIES = 250


@final
@dataclass(frozen=True)
class TwoSample:
    """How well boosted trees tell real rows from synthetic ones, on rows they have not seen.

    Args:
        auc: the chance that a synthetic row looks more synthetic than a real one; 0.5 if it cannot
            be told.
        lower, upper: its 95 % interval.
        pvalue: how often rows of one distribution have an area as large.
        rows: of each table that were compared.
    """

    auc: float
    lower: float
    upper: float
    pvalue: float
    rows: int


def two_sample(columns: Sequence[Cells], most: int, random_state: Any) -> TwoSample:
    """Cross-validate a classifier of real (0) against synthetic (1) rows; see `TwoSample`."""
    random = np.random.default_rng(random_state)
    tables = [np.column_stack([_filled(c)[table] for c in columns]) for table in (0, 1)]
    size = min(most, *map(len, tables))
    picked = [table[random.permutation(len(table))[:size]] for table in tables]
    rows, label = np.concatenate(picked), np.repeat([0, 1], size)
    fold = _folds(rows, label, random)
    areas, counts = [], []
    for number in range(_FOLDS):
        test = fold == number
        if not _has_both(label, test):
            continue
        guess = _classifier(columns, random).fit(rows[~test], label[~test])
        areas.append(roc_auc_score(label[test], guess.predict_proba(rows[test])[:, 1]))
        counts.append((int((label[test] == 0).sum()), int(label[test].sum())))
    if not areas:
        raise ValueError(
            f"Expected enough rows for {_FOLDS} parts with both kinds; got {size} of each table. "
            "Give more rows."
        )
    auc = float(np.mean(areas))
    spread = _error(auc, counts)
    chance = norm.sf((auc - 0.5) / _error(0.5, counts))
    low, high = max(0.0, auc - 1.96 * spread), min(1.0, auc + 1.96 * spread)
    return TwoSample(auc, low, high, float(chance), size)


def _filled(column: Cells) -> list[Floats]:
    """Give missing cells a value of their own below all others, or a code after all others."""
    known = np.concatenate([part[~np.isnan(part)] for part in column.parts])
    low = float(known.min(initial=0.0)) - 1 - abs(float(known.min(initial=0.0)))
    return [np.nan_to_num(p, nan=low if column.number else column.categories) for p in column.parts]


def _folds(
    rows: Floats, label: npt.NDArray[np.int64], random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Deal rows to parts; few equal rows to the same one, or copies would tell their labels.

    Rows of which there are many are dealt out at random, as else nothing could be learnt of them.
    Not by shares of each row: a part would then have the labels of the others, chance included.
    """
    _, group = np.unique(rows, axis=0, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    together = (random.permutation(len(count)) % _FOLDS)[group]
    dealt = np.empty_like(together)
    for kind in (0, 1):
        mine = np.flatnonzero(label == kind)
        dealt[random.permutation(mine)] = np.arange(len(mine)) % _FOLDS
    many = (count[group] >= _MANY) | (len(count) < 2 * _FOLDS)
    fold = np.where(many, dealt, together)
    usable = any(_has_both(label, fold == number) for number in range(_FOLDS))
    return fold if usable else dealt


def _has_both(label: npt.NDArray[np.int64], test: npt.NDArray[np.bool_]) -> bool:
    """Say whether both labels are among the rows of a part, and among all others."""
    return all(len(np.unique(label[side])) == 2 for side in (test, ~test))


def _classifier(columns: Sequence[Cells], random: np.random.Generator) -> Any:
    codes = [not c.number and c.categories < _MOST_CATEGORIES for c in columns]
    seed = int(random.integers(2**31))
    return HistGradientBoostingClassifier(
        categorical_features=codes, early_stopping=False, random_state=seed
    )


def _error(area: float, counts: Sequence[tuple[int, int]]) -> float:
    """Return the standard error of a mean of areas (Hanley and McNeil 1982)."""
    both, one = area / (2 - area), 2 * area**2 / (1 + area)
    terms = [
        (area * (1 - area) + (m - 1) * (both - area**2) + (n - 1) * (one - area**2)) / (m * n)
        for n, m in counts
    ]
    return float(np.sqrt(max(sum(terms), 1e-12)) / len(terms))
