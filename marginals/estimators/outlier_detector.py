"""Anomalies: rows that are unlikely for what is known of them, and the cells that make them so."""

from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import OutlierMixin
from sklearn.utils import check_random_state

from marginals.columns import encode
from marginals.densities import Mixture
from marginals.estimators.mdma import MDMA
from marginals.estimators.table_estimator import TableEstimator, fitted
from marginals.queries.ranges import normal_ranges
from marginals.queries.row_tails import RowTails

Floats = npt.NDArray[np.float64]

# Coarse models: what is rare in a table shall not have components of its own. One sees the tails of
# clouds, the other gaps between them. Chosen on four tables, see docs/anomalies.md.
_COARSE: tuple[dict[str, Any], ...] = (
    {"tensor": "cp", "width": 32, "noise": 0.5, "batch_size": 128, "max_steps": 300},
    {"tensor": "cp", "width": 48, "noise": 0.2, "batch_size": 128, "max_steps": 300},
)


@final
class MDMAOutlierDetector(OutlierMixin, TableEstimator):
    """Score rows by how often a row of the training table is as extreme as they are.

    A row is extreme if its cells are unlikely together, or each alone, or far out in their columns
    (on the model's scale, where bounded columns have no end). Its score is the log of the share of
    training rows that are as extreme if the same cells of theirs are missing: rows with gaps
    compare fairly with complete ones. See `marginals.queries.row_tails`.

    Args:
        model: an `MDMA`, which is cloned and fitted, or one that is fitted already, which is used
            as it is; None for a mixture of two coarse ones, which do not learn rare rows by heart.
        contamination: the share of the training rows that count as outliers.
        samples: the most training rows that others are compared with.
        random_state: of the choice of these rows, of the draws that fill their gaps, and of the
            coarse models.

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
        model = self.model
        self._keep(_coarse(X, self.random_state) if model is None else fitted(model, X))
        frame = self._features(X)
        _refuse_intervals(frame)
        self._tails = self._compared(frame)
        scores = self.score_samples(X)
        self.offset_ = float(np.quantile(scores, self.contamination))
        self.decision_scores_, self.threshold_ = -scores, -self.offset_
        self.labels_ = (scores < self.offset_).astype(np.int64)
        return self

    def _compared(self, frame: pd.DataFrame) -> RowTails:
        """Take some training rows, with draws in their gaps, to compare others with."""
        density, schema = self.model_._parts()
        random = check_random_state(self.random_state)
        chosen = random.permutation(len(frame))[: self.samples]
        rows = frame.iloc[chosen]
        filled = self.model_.impute(rows, "draw", random_state=random)
        known = frame.notna().to_numpy(dtype=bool)
        return RowTails(density, encode(schema, filled).evidence, known)

    def score_samples(self, X: Any) -> Any:  # noqa: N803
        """Return the log tail probability of each row, (N,); lower is more abnormal.

        Beyond the most extreme training rows it falls on as an exponential tail. Rows of which
        nothing is known score 0.
        """
        frame = self._features(X)
        _refuse_intervals(frame)
        _, schema = self.model_._parts()
        return self._tails(encode(schema, frame).evidence)

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

    def normal_ranges(self, X: Any, level: float = 0.9) -> pd.DataFrame:  # noqa: N803
        """Return what would be normal in each known cell given the others of its row.

        A line for each cell, by rows and then columns: its row, column and value, the conditional
        median (`expected`; of unordered categories the most likely one), the ends of the central
        interval that holds the share `level` (None for unordered categories), and `tail`: how
        likely a value as far out is, on either side, or of a category its probability.

        Args:
            X: rows, with gaps or without.
            level: the share that the ranges hold.
        """
        if not 0 < level < 1:
            raise ValueError(f"Expected `level` to lie between 0 and 1; got {level}.")
        frame = self._features(X)
        return normal_ranges(*self.model_._parts(), frame, level)


def _coarse(x: Any, random_state: Any) -> MDMA:
    """Fit the models of the default, and join them."""
    models = [MDMA(**options, random_state=random_state).fit(x) for options in _COARSE]
    models[0].module_ = Mixture([model.module_ for model in models])
    return models[0]


def _refuse_intervals(frame: pd.DataFrame) -> None:
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.IntervalDtype):
            raise TypeError(
                f"Expected exact or missing cells to score; got intervals in column {name!r}, "
                "whose probability does not compare with the density of draws. Leave it out."
            )
