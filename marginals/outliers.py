"""Anomalies: rows that are unlikely for what is known of them, and the cells that make them so."""

from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import OutlierMixin

from marginals.features import TableEstimator, fitted
from marginals.model import Density, Evidence
from marginals.table import encode

Floats = npt.NDArray[np.float64]

# In nats: rows of discrete columns tie with draws, up to the rounding of float32.
_TIE = 1e-5


@final
class MDMAOutlierDetector(OutlierMixin, TableEstimator):
    """Score rows by how often the model draws a row as unlikely as they are.

    A row's score is the log of the tail probability of its log density (on the model's scale,
    where bounded columns have no end) among draws of the model with the same cells missing: rows
    with gaps compare fairly with complete ones.

    Args:
        model: an `MDMA`, which is cloned and fitted, or one that is fitted already, which is used
            as it is; None for the default.
        contamination: the share of the training rows that count as outliers.
        samples: the number of draws by which tail probabilities are told.
        random_state: of the draws, and of the default model.

    Attributes:
        model_: the fitted model.
        offset_: scores below it are outliers.
        decision_scores_, labels_, threshold_: of the training rows, as PyOD has them: higher is
            more abnormal, 1 is an outlier.

    >>> from marginals import MDMA
    >>> x = np.append(np.linspace(-1, 1, 39), 50.0)[:, None]
    >>> detector = MDMAOutlierDetector(MDMA(width=4, max_steps=20, random_state=0))
    >>> detector.fit(x).predict([[0.1], [90.0], [np.nan]])
    array([ 1, -1,  1])
    """

    offset_: float
    threshold_: float
    decision_scores_: Floats
    labels_: npt.NDArray[np.int64]

    def __init__(
        self,
        model: Any = None,
        *,
        contamination: float = 0.1,
        samples: int = 2000,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.contamination = contamination
        self.samples = samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MDMAOutlierDetector":  # noqa: N803
        """Learn the distribution of a table and what counts as unlikely in it; `y` is ignored."""
        if not 0 < self.contamination <= 0.5:
            raise ValueError(
                f"Expected `contamination` to lie in (0, 0.5]; got {self.contamination}. Give the "
                "share of rows that shall count as outliers."
            )
        if self.samples < 1:
            raise ValueError(
                f"Expected `samples` to be at least 1; got {self.samples}. Some 1000 tell "
                "probabilities down to 0.001."
            )
        self._keep(fitted(self.model, X, self.random_state))
        self._draws = self.model_.sample(self.samples, random_state=self.random_state)
        scores = self.score_samples(X)
        self.offset_ = float(np.quantile(scores, self.contamination))
        self.decision_scores_, self.threshold_ = -scores, -self.offset_
        self.labels_ = (scores < self.offset_).astype(np.int64)
        return self

    def score_samples(self, X: Any) -> Any:  # noqa: N803
        """Return the log tail probability of each row, (N,); lower is more abnormal.

        Where no draw is as unlikely, the log density itself goes on. Rows of which nothing is known
        score 0.
        """
        frame = self._features(X)
        _refuse_intervals(frame)
        density, schema = self.model_._parts()
        return _log_tails(
            density, encode(schema, frame).evidence, encode(schema, self._draws).evidence
        )

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return scores that are negative for outliers, (N,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return -1 for outliers and 1 for all others, (N,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def explain(self, X: Any) -> pd.DataFrame:  # noqa: N803
        """Return the surprise of each cell given the others of its row; see `MDMA.surprise`."""
        frame = self._features(X)
        return self.model_.surprise(frame)


def _refuse_intervals(frame: pd.DataFrame) -> None:
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.IntervalDtype):
            raise TypeError(
                f"Expected exact or missing cells to score; got intervals in column {name!r}, "
                "whose probability does not compare with the density of draws. Leave it out."
            )


def _log_tails(density: Density, rows: Evidence, draws: Evidence) -> Floats:
    """Return the log tail probability of each row among draws with its gaps, (B,)."""
    values = _log_values(density, rows)
    patterns, pattern_of = np.unique(rows.missing().cpu().numpy(), axis=0, return_inverse=True)
    out = np.zeros(len(rows))
    for number, gaps in enumerate(patterns):
        if gaps.all():
            continue  # nothing is known: any draw is as likely
        held = pattern_of.reshape(-1) == number
        alike = draws
        for column in np.asarray(rows.columns)[gaps].tolist():
            alike = alike.without(column)
        out[held] = _log_tail(values[held], _log_values(density, alike))
    return out


def _log_values(density: Density, evidence: Evidence) -> Floats:
    with torch.no_grad():
        return density.log_value(evidence).double().cpu().numpy()


def _log_tail(values: Floats, drawn: Floats) -> Floats:
    """Return log P(a draw's log density <= value), linear in between the draws' log densities.

    Below the least draw it goes on with slope 1: in the tails of most densities the probability
    falls about as the density does.

    >>> _log_tail(np.array([-3.0, 0.0, 2.0]), np.array([0.0, 1.0])).round(2).tolist()
    [-3.69, -0.69, 0.0]
    """
    points, counts = np.unique(drawn[drawn > -np.inf], return_counts=True)
    if not len(points):
        return np.where(values > -np.inf, 0.0, -np.inf)
    shares = np.log(np.cumsum(counts) / counts.sum())
    at = values + _TIE
    return np.interp(at, points, shares) + np.minimum(at - points[0], 0.0)
