"""One number for all categories of a row, to predict a number from them.

Copula components couple numbers and leave categories uncoupled, so that only their number tells how
a category moves a target. A score is a number, which they couple.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri
from scipy.stats import rankdata

from marginals.columns import Categorical, Schema, encode

Floats = npt.NDArray[np.float64]

# A category's score is shrunk as if it had so many further rows with the score 0.
_PRIOR_ROWS = 1.0
# Training rows are scored by fits to other folds. Fits to their own targets would give these away,
# the more the rarer a category is.
_FOLDS = 5
# Columns with more categories have no scores, and more rows would not change those of others.
_MOST_CATEGORIES, _MOST_ROWS = 50, 20_000


@final
@dataclass(frozen=True)
class CategoryScores:
    """Scores of categories: how they move a target if all other columns are equal.

    Args:
        name: The name of the column of their sums.
        columns: By column, the score of each category.
    """

    name: str
    columns: Mapping[Any, Mapping[Any, float]]

    def __call__(self, schema: Schema, frame: pd.DataFrame) -> Floats:
        """Return the sum of each row's scores, (N,); NaN where a category is missing.

        Args:
            schema: A schema that has these columns.
            frame: A table that has these columns.
        """
        parts = [
            _indicators(schema, frame, name) @ np.array([scores[c] for c in schema[name].codes])
            for name, scores in self.columns.items()
        ]
        return np.sum(parts, axis=0, dtype=np.float64)


def fit_category_scores(
    schema: Schema, frame: pd.DataFrame, target: Floats, name: str = "score", seed: int = 0
) -> tuple[CategoryScores, Floats] | None:
    """Fit scores by a ridge regression between normal scores of the target and of the numbers.

    Args:
        schema: The schema of the features.
        frame: The features.
        target: The target, (N,).
        name: A name for the column of the rows' sums.
        seed: Seed for the folds.

    Returns:
        The scores, and the sum of each row's scores in fits to the other folds, (N,); None if there
        are no categories or few rows.

    >>> from marginals.columns import infer
    >>> frame = pd.DataFrame({"size": list("sml") * 20, "x": np.arange(60.0) % 7})
    >>> target = frame["x"] + frame["size"].map({"s": 0, "m": 10, "l": 20})
    >>> scores, _ = fit_category_scores(infer(frame), frame, target.to_numpy())
    >>> sorted("sml", key=scores.columns["size"].get)
    ['s', 'm', 'l']
    """
    coded = [c for c in schema if isinstance(c.kind, Categorical)]
    names = [c.name for c in coded if 1 < len(c.codes) <= _MOST_CATEGORIES]
    if not names or len(frame) < 2 * _FOLDS:
        return None
    numbers = [c.name for c in schema if c not in coded]
    known = _numbers(schema, frame[numbers])  # (N, n)
    x = np.column_stack([np.ones(len(frame)), *map(_normal_scores, known.T)])  # (N, n + 1)
    hot = [_indicators(schema, frame, column) for column in names]
    both = np.nan_to_num(np.hstack([x, *hot]))  # (N, P); a missing category has no indicator
    y, free = _normal_scores(target), x.shape[1]
    order = np.random.default_rng(seed).permutation(len(frame))
    apart = np.empty(len(frame))
    for fold in range(_FOLDS):
        held, rest = order[fold::_FOLDS], np.delete(order, np.s_[fold::_FOLDS])
        apart[held] = both[held, free:] @ _ridge(both, y, rest, free)
    apart[np.isnan(np.hstack(hot)).any(1)] = np.nan
    every = _ridge(both, y, order, free).tolist()
    scores = {column: {c: every.pop(0) for c in schema[column].codes} for column in names}
    return CategoryScores(name, scores), apart


def _ridge(x: Floats, y: Floats, rows: npt.NDArray[np.intp], free: int) -> Floats:
    """Return the coefficients of all but the first `free` columns, by at most so many rows."""
    x, y = x[rows[:_MOST_ROWS]], y[rows[:_MOST_ROWS]]
    # Only just enough for the free ones, as numbers may be functions of others.
    penalty = np.where(np.arange(x.shape[1]) < free, 1e-6 * len(x), _PRIOR_ROWS)
    found: Floats = np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ y)
    return found[free:]


def _normal_scores(values: Floats) -> Floats:
    """Return normal scores by rank, (N,); 0 where a value is missing."""
    known = ~np.isnan(values)
    found = np.zeros(len(values))
    found[known] = ndtri(rankdata(values[known]) / (known.sum() + 1))
    return found


def _indicators(schema: Schema, frame: pd.DataFrame, name: Any) -> Floats:
    """Return 1 for each row's category and 0 for others, (N, C); NaN where it is missing."""
    code = _numbers(schema, frame[[name]])
    hot = (code == np.arange(len(schema[name].codes))).astype(np.float64)
    return np.where(np.isnan(code), np.nan, hot)


def _numbers(schema: Schema, frame: pd.DataFrame) -> Floats:
    """Return a table on the model's scale, (N, n), categories by code; NaN for missing cells."""
    if not frame.shape[1]:
        return np.empty(frame.shape)
    found: Floats = encode(schema, frame).evidence.midpoints().double().numpy()
    return found
