"""Anomalies: rows that are unlikely given their gaps, and the cells that are to blame."""

from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import OutlierMixin

from marginals.columns import encode
from marginals.columns.table_coercion import input_frame
from marginals.densities import Mixture
from marginals.densities.build import build, couplable
from marginals.estimators.mdma import MDMA
from marginals.estimators.table_estimator import TableEstimator, fitted
from marginals.queries.imputation import check_level
from marginals.queries.named_rows import random_of, seed_of
from marginals.queries.ranges import normal_ranges
from marginals.queries.row_tails import row_tails

Floats = npt.NDArray[np.float64]

# A coarse model of the margins and of the gaps between clouds, which does not give rare rows their
# own components. Nothing is guessed from values: at inferred atoms and on inferred grids some rows
# would have masses and others densities, which do not compare.
_COARSE: dict[str, Any] = {
    **{"tensor": "cp", "width": 32, "noise": 0.5, "batch_size": 128, "max_steps": 300},
    "guess": False,
}
# Mixtures of so many Gaussians with all correlations, fitted without the least likely rows; for how
# they were chosen see docs/anomalies.md.
_GAUSSIANS, _TRIM, _ROWS_EACH = (1, 2, 4), 0.1, 20
# The most rows that the default models are fitted to. From 5,000 on, columns would be put on their
# normal scores, where rows far out are hardly farther than the largest of the others.
_MOST_ROWS = 4000


@final
class MDMAOutlierDetector(OutlierMixin, TableEstimator):
    """Score rows by the share of training rows that are as extreme.

    A row is extreme if its cells are unlikely together, or far out in their columns (on the model's
    scale, where bounded columns are unbounded), or if it lies far from all training rows. Its score
    is the log of the share of training rows that are as extreme with the same cells missing, so
    that rows with gaps compare fairly with complete ones. See `marginals.queries.row_tails`.

    Training rows may include outliers: the default models ignore the tenth of the rows that they
    find least likely, and a row needs five neighbours to count as near others. If all training rows
    are normal, use `novelty=True`.

    Args:
        model: an unfitted `MDMA`, which is copied and fitted; a fitted one, which is used
            unchanged; or None for a mixture of a coarse one and of 1, 2 and 4 Gaussians with all
            correlations, which do not memorise rare rows, fitted to at most 4,000 rows.
        contamination: the share of training rows to label as outliers.
        samples: the most training rows to compare with and to search for neighbours.
        novelty: whether training rows are free of outliers, as in scikit-learn's
            `LocalOutlierFactor`. The distance is then that to the third neighbour, among up to
            10,000 rows, and the tails of single cells are ignored.
        handle_unknown: "missing" treats categories not seen in training as missing; "error" rejects
            them, unless the model's own setting is "missing".
        random_state: seed for the choice of these rows, the draws in their gaps and the coarse
            models.

    Attributes:
        model_: the fitted model.
        offset_: rows that score below it are outliers.
        decision_scores_, labels_, threshold_: for the training rows, as in PyOD: a higher score is
            more abnormal, and label 1 is an outlier.

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
        novelty: bool = False,
        handle_unknown: str = "error",
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.contamination = contamination
        self.samples = samples
        self.novelty = novelty
        self.handle_unknown = handle_unknown
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MDMAOutlierDetector":  # noqa: N803
        """Learn the distribution of a table and the threshold for outliers.

        Args:
            X: a table, which may have gaps and outliers.
            y: ignored.
        """
        if not 0 < self.contamination <= 0.5:
            raise ValueError(
                f"Expected `contamination` to lie in (0, 0.5]; got {self.contamination}. Give the "
                "share of rows that count as outliers."
            )
        if self.samples < 1:
            raise ValueError(
                f"Expected `samples` to be at least 1; got {self.samples}. About 1000 resolve "
                "probabilities down to 0.001."
            )
        model = self.model
        self._keep(_default(X, self.random_state) if model is None else fitted(model, X))
        frame = self._features(X)
        _refuse_intervals(frame)
        joint = self._table()
        self._tails = row_tails(
            joint.module_,
            joint.schema_,
            frame,
            self.samples,
            self.random_state,
            clean=self.novelty,
        )
        scores = self.score_samples(X)
        self.offset_ = float(np.quantile(scores, self.contamination))
        self.decision_scores_, self.threshold_ = -scores, -self.offset_
        self.labels_ = (scores < self.offset_).astype(np.int64)
        return self

    def score_samples(self, X: Any) -> Any:  # noqa: N803
        """Return the log tail probability of each row, (N,); lower is more abnormal.

        Beyond the most extreme training rows, scores follow an exponential tail. Rows without
        observed cells score 0.

        Args:
            X: rows to score; missing cells are marginalised.
        """
        frame = self._features(X)
        _refuse_intervals(frame)
        return self._tails(encode(self._table().schema_, frame).evidence)

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return a score for each row, negative for outliers, (N,).

        Args:
            X: rows to score; missing cells are marginalised.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return -1 for outliers and 1 for all others, (N,).

        Args:
            X: rows to score; missing cells are marginalised.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def explain(self, X: Any) -> pd.DataFrame:  # noqa: N803
        """Return the surprise of each cell given the rest of its row, centred by column.

        Values are comparable across columns: the largest in a row marks the unusual cell. See
        `MDMA.surprise`.

        Args:
            X: rows to explain.
        """
        frame = self._features(X)
        return self._table().surprise(frame, centred=True)

    def blame(self, X: Any, level: float = 0.9) -> pd.DataFrame:  # noqa: N803
        """Return, for each row, the line of `normal_ranges` with the smallest tail.

        This is the cell that is farthest out given the rest of its row. A row without observed
        cells gets a line of missing values.

        Args:
            X: rows, with gaps or without.
            level: the probability of the ranges.
        """
        frame = self._features(X)
        lines = self.normal_ranges(frame.reset_index(drop=True), level)
        least = lines.loc[lines.groupby("row")["tail"].idxmin()].set_index("row")
        return least.reindex(range(len(frame))).set_axis(frame.index)

    def normal_ranges(self, X: Any, level: float = 0.9) -> pd.DataFrame:  # noqa: N803
        """Return the normal range of each observed cell given the rest of its row.

        The result has one line per cell, by row and then column: its row, column and value; the
        conditional median (`expected`; for unordered categories the most likely one); the ends of
        the central interval with probability `level` (None for unordered categories); and `tail`,
        the probability of a value as far out on either side, or of the category.

        Args:
            X: rows, with gaps or without.
            level: the probability of the ranges.
        """
        check_level(level)
        frame = self._features(X)
        table = self._table()
        return normal_ranges(table.module_, table.schema_, frame, level)


def _default(x: Any, random_state: Any) -> MDMA:
    """Fit the default models to some of the rows and mix them."""
    frame = input_frame(x)
    if len(frame) > _MOST_ROWS:
        frame = frame.iloc[random_of(random_state).permutation(len(frame))[:_MOST_ROWS]]
    model = MDMA(**_COARSE, random_state=random_state).fit(frame)
    schema, data = model.schema_, encode(model.schema_, frame).evidence
    joined = len(couplable(data, **schema.build_options))
    if joined > 1:
        sizes = [k for k in _GAUSSIANS if k == 1 or len(data) >= _ROWS_EACH * k]
        options = {**schema.build_options, "seed": seed_of(random_state)}
        how: dict[str, Any] = {"tensor": "copula", "rank": joined - 1, "init": "em", "trim": _TRIM}
        device = next(model.module_.parameters()).device
        members = [build(data, width=k, **how, **options).to(device) for k in sizes]
        model.module_ = Mixture([model.module_, *members])
    return model


def _refuse_intervals(frame: pd.DataFrame) -> None:
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.IntervalDtype):
            raise TypeError(
                f"Expected exact or missing cells to score; got intervals in column {name!r}, "
                "whose probabilities do not compare with densities. Leave it out."
            )
