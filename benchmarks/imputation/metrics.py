"""How good filled cells are: error, CRPS, coverage, accuracy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.imputation.filled import Filled
from benchmarks.imputation.masks import Mask
from benchmarks.imputation.tables import numeric

Array = npt.NDArray[np.float64]


def fair_crps(draws: Array, truth: Array) -> Array:
    """Return the CRPS (N,) of a distribution of which draws (S, N) are at hand, without bias.

    E|X - y| - E|X - X'| / 2, the second over pairs of different draws. One draw is a point.

    >>> fair_crps(np.array([[1.0], [3.0]]), np.array([2.0]))
    array([0.])
    """
    count = len(draws)
    away = np.abs(draws - truth).mean(0)
    if count == 1:
        return away
    ordered = np.sort(draws, axis=0)
    ranks = 2 * np.arange(1, count + 1) - count - 1  # sum over pairs of |difference|
    return away - (ranks[:, None] * ordered).sum(0) / (count * (count - 1))


def predictive_interval(draws: Array, level: float) -> tuple[Array, Array]:
    """Return the ends (N,) that hold a further draw with probability `level`, of draws (S, N).

    Order statistics at level (S + 1): exact for exchangeable draws, unlike plain quantiles of few.
    """
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(draws, tails, axis=0, method="weibull")
    return low, high


def figures(truth: pd.DataFrame, mask: Mask, filled: Filled, level: float) -> dict[str, Any]:
    """Compare filled cells with the truth; numbers in standard deviations of the whole column."""
    numbers = numeric(truth)
    errors, scores, inside, widths = [], [], [], []
    for name in numbers:
        rows = mask[:, truth.columns.get_loc(name)]
        spread = float(truth[name].std(ddof=0)) or 1.0
        y = truth.loc[rows, name].to_numpy(dtype=np.float64)
        errors.append((_cells(filled.point, name, rows) - y) / spread)
        draws = np.stack([_cells(table, name, rows) for table in filled.draws or [filled.point]])
        scores.append(fair_crps(draws, y) / spread)
        if filled.lower is not None and filled.upper is not None:
            low, high = (_cells(end, name, rows) for end in (filled.lower, filled.upper))
            inside.append((low <= y) & (y <= high))
            widths.append((high - low) / spread)
    return {
        "rmse": _root(errors),
        "crps": _mean(scores),
        "coverage": _mean(inside),
        "width": _mean(widths),
        "accuracy": _accuracy(truth, mask, filled.point, numbers),
        "cells": int(sum(len(part) for part in errors)),
        "level": level,
    }


def _cells(table: pd.DataFrame, name: str, rows: npt.NDArray[np.bool_]) -> Array:
    values = table[name].to_numpy(dtype=np.float64, na_value=np.nan)[rows]
    if not np.isfinite(values).all():
        raise ValueError(f"Expected all cells of {name!r} to be filled; got some that are not.")
    return values


def _root(errors: list[Array]) -> float | None:
    mean = _mean([part**2 for part in errors])
    return None if mean is None else float(np.sqrt(mean))


def _mean(parts: list[Any]) -> float | None:
    """Return the mean over all cells; None if there are none, as when no category was hidden."""
    every = np.concatenate(parts) if parts else np.empty(0)
    return float(every.mean()) if len(every) else None


def _accuracy(
    truth: pd.DataFrame, mask: Mask, point: pd.DataFrame, numbers: list[str]
) -> float | None:
    right = []
    for place, name in enumerate(truth.columns):
        if name not in numbers:
            rows = mask[:, place]
            right.append(point.loc[rows, name].astype(str) == truth.loc[rows, name].astype(str))
    return _mean([part.to_numpy(dtype=np.float64) for part in right])
