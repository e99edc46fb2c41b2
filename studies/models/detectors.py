"""Detectors of anomalies: fitted to unlabelled rows, they score others, high for anomalies."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from marginals import MDMAOutlierDetector
from studies.data.density import Rows
from studies.harness.available import installed
from studies.models.imputers import imputer
from studies.models.ours import PAPER, fit_tensor

# Detectors of PyOD with their own defaults; k of KNN is 5, GMM has one component.
PYOD = {"iforest": "IForest", "ecod": "ECOD", "copod": "COPOD", "knn": "KNN", "gmm": "GMM"}
Score = Callable[[Rows], Any]


def fit_ours(train: Rows, seed: int) -> Score:
    """Fit our detector with its defaults."""
    detector = MDMAOutlierDetector(random_state=seed).fit(train)
    return lambda rows: -detector.score_samples(rows)


def fit_pyod(name: str, train: Rows, seed: int, fill: str | None) -> Score:
    """Fill gaps, scale to [0, 1] as ADBench does, and fit a detector of PyOD."""
    detector = getattr(installed(f"pyod.models.{name}"), PYOD[name])()
    if "random_state" in detector.get_params():
        detector.set_params(random_state=seed)
    filler = None if fill is None else imputer(fill, seed)
    prepared = train if filler is None else filler.fit_transform(train)
    scaler = MinMaxScaler().fit(prepared)
    detector.fit(scaler.transform(prepared))

    def score(rows: Rows) -> Any:
        filled = rows if filler is None else filler.transform(rows)
        return detector.decision_function(scaler.transform(filled))

    return score


def fit_forest(train: Rows, seed: int) -> Score:
    """Fit scikit-learn's isolation forest to rows whose gaps are filled by means."""
    filler = imputer("mean", seed)
    forest = IsolationForest(random_state=seed).fit(filler.fit_transform(train))
    return lambda rows: -forest.score_samples(filler.transform(rows))


def fit_paper(train: Rows, seed: int, device: str, **how: Any) -> Score:
    """Score rows by minus the log density of their observed cells under the paper's model."""
    scaler = StandardScaler().fit(train)
    held = len(train) // 10
    rows = scaler.transform(train)
    known = rows[~np.isnan(rows).all(1)]
    fitted = fit_tensor(known[held:], known[:held], seed=seed, device=device, **how, **PAPER)
    return lambda points: -fitted.exact(scaler.transform(points))


def finite(scores: Any) -> Any:
    """Return scores with the largest number for infinity, which metrics refuse."""
    return np.nan_to_num(np.asarray(scores, dtype=np.float64), posinf=np.finfo(np.float64).max)
