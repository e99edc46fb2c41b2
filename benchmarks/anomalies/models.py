"""Our detector and its peers: fitted to unlabelled rows, they score others."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler

from benchmarks.anomalies.sets import Rows
from marginals import MDMAOutlierDetector

# Detectors of PyOD with their own defaults; k of KNN is 5, GMM has one component.
PEERS = {
    **{"iforest": ("iforest", "IForest"), "ecod": ("ecod", "ECOD"), "copod": ("copod", "COPOD")},
    **{"knn": ("knn", "KNN"), "gmm": ("gmm", "GMM")},
}
OURS = "marginals"
MODELS = (OURS, *PEERS)
# How gaps are filled for peers, by means of the training rows.
IMPUTATIONS = ("mean", "iterative")

Score = Callable[[Rows], Any]


def fit_ours(train: Rows, seed: int) -> Score:
    """Fit the detector with its defaults; its scores are negated, so that high is abnormal."""
    detector = MDMAOutlierDetector(random_state=seed).fit(train)
    return lambda rows: -detector.score_samples(rows)


def fit_peer(name: str, train: Rows, seed: int, imputation: str | None) -> Score:
    """Fill gaps, scale to [0, 1] as ADBench does, and fit a detector of PyOD."""
    module, label = PEERS[name]
    detector = getattr(import_module(f"pyod.models.{module}"), label)()
    if "random_state" in detector.get_params():
        detector.set_params(random_state=seed)
    imputer = _imputer(imputation, seed)
    prepared = train if imputer is None else imputer.fit_transform(train)
    scaler = MinMaxScaler().fit(prepared)
    detector.fit(scaler.transform(prepared))

    def score(rows: Rows) -> Any:
        filled = rows if imputer is None else imputer.transform(rows)
        return detector.decision_function(scaler.transform(filled))

    return score


def _imputer(name: str | None, seed: int) -> Any:
    if name is None:
        return None
    if name == "mean":
        return SimpleImputer(keep_empty_features=True)
    import_module("sklearn.experimental.enable_iterative_imputer")
    from sklearn.impute import IterativeImputer

    return IterativeImputer(random_state=seed, keep_empty_features=True)


def available(name: str) -> str | None:
    """Return why a model cannot run, or None."""
    if name == OURS:
        return None
    try:
        import_module(f"pyod.models.{PEERS[name][0]}")
    except ImportError as error:
        return f"Expected the package 'pyod'; got none ({error}). Run: pip install pyod"
    return None


def finite(scores: Any) -> Any:
    """Return scores with the largest number for infinity, which metrics refuse."""
    return np.nan_to_num(np.asarray(scores, dtype=np.float64), posinf=np.finfo(np.float64).max)
