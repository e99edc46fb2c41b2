"""Which cells are hidden: completely at random, or at random given cells that stay."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Mask = npt.NDArray[np.bool_]

MECHANISMS = ("mcar", "mar")
# Of the log odds of a gap, in standard deviations of what drives it.
SLOPE = 2.0
# The share of columns that stay and drive the gaps of the others.
DRIVERS = 0.3


def hidden(frame: pd.DataFrame, mechanism: str, share: float, seed: int) -> Mask:
    """Return which cells (N, D) are hidden.

    "mcar": each cell by itself with probability `share`. "mar": three tenths of the columns, drawn
    at random and at least one, keep all cells. Their standardised values (of categories: standard
    normal scores, one for each) are added with random signs and standardised, and a cell of another
    column is hidden with the probability sigmoid(2 z + b), where b makes the mean equal to `share`.
    Each of these columns has signs of its own.
    """
    rng = np.random.default_rng([seed, round(1000 * share), MECHANISMS.index(mechanism)])
    rows, columns = frame.shape
    if mechanism == "mcar":
        mask = rng.random((rows, columns)) < share
    else:
        order = rng.permutation(columns)
        count = max(1, round(DRIVERS * columns))
        drivers = np.stack([_scores(frame.iloc[:, c], rng) for c in order[:count]])  # (K, N)
        mask = np.zeros((rows, columns), dtype=bool)
        for c in order[count:]:
            z = _standard(rng.choice([-1.0, 1.0], count) @ drivers)
            mask[:, c] = rng.random(rows) < _logistic(SLOPE * z, share)
    return _with_two_values(frame, mask)


def _scores(column: pd.Series, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _standard(column.to_numpy(dtype=np.float64))
    codes, values = pd.factorize(column, sort=True)
    return _standard(rng.normal(size=len(values))[codes])


def _standard(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    spread = x.std()
    return (x - x.mean()) / (spread if spread > 0 else 1.0)


def _logistic(z: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """Return sigmoid(z + b) with the mean `share`; b by bisection."""

    def at(b: float) -> Any:
        return 1 / (1 + np.exp(-(z + b)))

    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).mean() < share else (low, middle)
    return at(low)


def _with_two_values(frame: pd.DataFrame, mask: Mask) -> Mask:
    """Uncover a cell where a column would be left with less than two different values."""
    for c in range(frame.shape[1]):
        column = frame.iloc[:, c]
        for value in column.drop_duplicates().iloc[:2]:
            rows = np.flatnonzero(column == value)
            if mask[rows, c].all():
                mask[rows[0], c] = False
    return mask
