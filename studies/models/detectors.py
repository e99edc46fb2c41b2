"""Detectors of anomalies: fitted to unlabelled rows, they score others, high for anomalies."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from marginals import MDMAOutlierDetector
from studies.data.density import Rows
from studies.harness.available import installed
from studies.models.imputers import imputer
from studies.models.ours import PAPER, fit_tensor

Score = Callable[[Rows], Any]
# Detectors of scikit-learn with their defaults, k = 5 neighbours as in PyOD, and those of PyOD.
PEERS = {
    **{"iforest": "IForest", "knn": "KNN", "lof": "LOF", "gmm": "GMM", "gmm4": "GMM of 4"},
    **{"ecod": "ECOD", "copod": "COPOD"},
}
PYOD = ("ecod", "copod")
NEIGHBOURS = 5


def fit_ours(train: Rows, seed: int, novelty: bool = False) -> Score:
    """Fit our detector with its defaults, to rows with outliers or to normal rows alone."""
    detector = MDMAOutlierDetector(novelty=novelty, random_state=seed).fit(train)
    return lambda rows: -detector.score_samples(rows)


def fit_peer(name: str, train: Rows, seed: int, fill: str | None) -> Score:
    """Fill gaps, scale to [0, 1] as ADBench does, and fit a detector."""
    filler = None if fill is None else imputer(fill, seed)
    prepared = train if filler is None else filler.fit_transform(train)
    scaler = MinMaxScaler().fit(prepared)
    score = _fitted(name, scaler.transform(prepared), seed)
    return lambda rows: score(scaler.transform(rows if filler is None else filler.transform(rows)))


def _fitted(name: str, rows: Rows, seed: int) -> Score:
    """Fit a peer to rows without gaps."""
    if name in PYOD:
        detector = getattr(installed(f"pyod.models.{name}"), PEERS[name])()
        detector.fit(rows)
        return lambda points: detector.decision_function(points)
    if name == "knn":
        search = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(rows))).fit(rows)
        return lambda points: search.kneighbors(points)[0][:, -1]
    models = {
        "iforest": IsolationForest(random_state=seed),
        "lof": LocalOutlierFactor(novelty=True),
        "gmm": GaussianMixture(1, random_state=seed),
        "gmm4": GaussianMixture(min(4, len(rows)), random_state=seed),
    }
    fitted = models[name].fit(rows)
    return lambda points: -fitted.score_samples(points)


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
