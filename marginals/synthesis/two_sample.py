"""Whether a classifier can tell real rows from synthetic ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from marginals.synthesis.comparable_cells import Cells, Floats, Ints, aligned, checked_tables

_FOLDS = 5
_TREES_OF_ONE = 20  # boosted trees that see one column: the first few find its shape
_MANY = 4 * _FOLDS  # equal rows (four per fold) from which a copy hardly reveals another's label
_MOST_CATEGORIES = 250  # of the classifier; codes of more, missing included, count as numbers


@final
@dataclass(frozen=True)
class TwoSample:
    """Report how well boosted trees tell real rows from synthetic ones, on held-out rows.

    Args:
        auc: probability that a synthetic row looks more synthetic than a real one; 0.5 if the
            tables are indistinguishable.
        lower, upper: its 95 % interval.
        pvalue: probability of an AUC this large if both tables have the same distribution.
        rows: number of rows compared from each table.
    """

    auc: float
    lower: float
    upper: float
    pvalue: float
    rows: int


def two_sample(
    columns: Sequence[Cells], most: int, random_state: Any, trees: int = 100
) -> TwoSample:
    """Cross-validate a classifier of real (0) against synthetic (1) rows; see `TwoSample`."""
    random = np.random.default_rng(random_state)
    tables = [np.column_stack([_filled(c)[table] for c in columns]) for table in (0, 1)]
    size = min(most, *map(len, tables))
    picked = [table[random.permutation(len(table))[:size]] for table in tables]
    rows, label = np.concatenate(picked), np.repeat([0, 1], size)
    fold = _folds(rows, label, random)
    categorical = [not c.number and c.categories < _MOST_CATEGORIES for c in columns]
    areas, counts = [], []
    for test in (fold == number for number in range(_FOLDS)):
        if not _has_both(label, test):
            continue
        seed = int(random.integers(2**31))
        classifier = HistGradientBoostingClassifier(
            max_iter=trees,
            categorical_features=categorical,
            early_stopping=False,
            random_state=seed,
        ).fit(rows[~test], label[~test])
        areas.append(roc_auc_score(label[test], classifier.predict_proba(rows[test])[:, 1]))
        counts.append(np.bincount(label[test]).tolist())
    if not areas:
        raise ValueError(
            f"Expected enough rows for {_FOLDS} folds with both labels; got {size} from each "
            "table. Give more rows."
        )
    auc = float(np.mean(areas))
    error = 1.96 * _error(auc, counts)
    pvalue = float(norm.sf((auc - 0.5) / _error(0.5, counts)))
    return TwoSample(auc, max(0.0, auc - error), min(1.0, auc + error), pvalue, size)


def column_detection(
    real: Any, synthetic: Any, *, most: int = 5000, random_state: int = 0
) -> pd.DataFrame:
    """Return how well a classifier tells two tables apart from each column alone.

    Each line holds the fields of `TwoSample` for one column; an AUC of 0.5 is best.

    Args:
        real, synthetic: tables with the same columns.
        most: largest number of rows per table.
        random_state: seed for choosing rows and for the classifiers.

    >>> rows = np.random.default_rng(0).normal(size=(2, 300, 2))
    >>> found = column_detection(rows[0], rows[1] * [1.0, 5.0])
    >>> (found["auc"] > 0.6).tolist()
    [False, True]
    """
    columns = aligned(*checked_tables(real=real, synthetic=synthetic))
    lines = [asdict(two_sample([column], most, random_state, _TREES_OF_ONE)) for column in columns]
    return pd.DataFrame(lines, index=pd.Index([c.name for c in columns], name="column"))


def _filled(column: Cells) -> list[Floats]:
    """Replace missing cells by a number below all others, or by a code after all others."""
    low = np.concatenate([part[~np.isnan(part)] for part in column.parts]).min(initial=0.0)
    fill = low - 1 - abs(low) if column.number else column.categories
    return [np.nan_to_num(part, nan=fill) for part in column.parts]


def _folds(rows: Floats, label: Ints, random: np.random.Generator) -> Ints:
    """Assign rows to folds, equal rows to the same one, so that copies do not reveal their labels.

    Rows that repeat often are spread at random, otherwise nothing could be learnt about them. They
    are not stratified by row: a fold would then carry the labels of the others, chance included.
    """
    _, group = np.unique(rows, axis=0, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    together = (random.permutation(len(count)) % _FOLDS)[group]
    spread = np.empty_like(together)
    for kind in (0, 1):
        mine = np.flatnonzero(label == kind)
        spread[random.permutation(mine)] = np.arange(len(mine)) % _FOLDS
    many = (count[group] >= _MANY) | (len(count) < 2 * _FOLDS)
    fold = np.where(many, spread, together)
    usable = any(_has_both(label, fold == number) for number in range(_FOLDS))
    return fold if usable else spread


def _has_both(label: Ints, test: npt.NDArray[np.bool_]) -> bool:
    """Return whether both labels occur in a fold and outside it."""
    return all(len(np.unique(label[side])) == 2 for side in (test, ~test))


def _error(area: float, counts: Sequence[Sequence[int]]) -> float:
    """Return the standard error of a mean of AUCs (Hanley and McNeil 1982)."""
    both, one = area / (2 - area), 2 * area**2 / (1 + area)
    terms = [
        (area * (1 - area) + (m - 1) * (both - area**2) + (n - 1) * (one - area**2)) / (m * n)
        for n, m in counts
    ]
    return float(np.sqrt(max(sum(terms), 1e-12)) / len(terms))
