"""Tests of conditional independence: ours, and those that people use today."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from marginals import cross_fit

PValues = dict[str, float]


def ours(rows: pd.DataFrame, seed: int) -> PValues:
    """The default of `cross_fit`; one fit for one, two and three functions of each side."""
    counts = (1, 2, 3)
    found = cross_fit(rows, random_state=seed).independence_test("x", "y", "z", q=counts)
    return {f"marginals, q={q}": result.pvalue for q, result in zip(counts, found, strict=True)}


def fisher_z(rows: pd.DataFrame, seed: int) -> PValues:
    """Partial correlation, categories as indicators."""
    z = np.column_stack([np.ones(len(rows)), _numbers(rows)])
    x, y = (rows[c] - z @ np.linalg.lstsq(z, rows[c], rcond=None)[0] for c in "xy")
    r = float(np.corrcoef(x, y)[0, 1])
    score = np.arctanh(r) * np.sqrt(len(rows) - (z.shape[1] - 1) - 3)
    return {"Fisher z": float(2 * norm.sf(abs(score)))}


def gcm(rows: pd.DataFrame, seed: int) -> PValues:
    """The generalised covariance measure, residuals by gradient boosting on held-out folds."""
    z = _numbers(rows)
    folds = KFold(5, shuffle=True, random_state=seed)
    model = HistGradientBoostingRegressor(max_iter=50, max_depth=3, early_stopping=False)
    x, y = (rows[c] - cross_val_predict(model, z, rows[c], cv=folds) for c in "xy")
    product = (x * y).to_numpy()
    score = np.sqrt(len(rows)) * product.mean() / product.std()
    return {"GCM": float(2 * norm.sf(abs(score)))}


def kci(rows: pd.DataFrame, seed: int) -> PValues:
    """The kernel test of causal-learn, with its own settings."""
    from causallearn.utils.cit import CIT

    z = _numbers(rows)
    data = np.column_stack([rows["x"], rows["y"], z])
    test = CIT(data, "kci")
    return {"KCI": float(test(0, 1, list(range(2, data.shape[1]))))}


METHODS: dict[str, Callable[[pd.DataFrame, int], PValues]] = {
    "marginals": ours,
    "fisher": fisher_z,
    "gcm": gcm,
    "kci": kci,
}


def _numbers(rows: pd.DataFrame) -> np.ndarray:
    if rows["z"].dtype.kind == "f":
        return rows[["z"]].to_numpy()
    return pd.get_dummies(rows["z"], drop_first=True).to_numpy(float)
