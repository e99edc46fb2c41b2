"""A scikit-learn transformer that fills missing cells."""

from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from marginals.estimators.table_estimator import TableEstimator, fitted, nearest_possible
from marginals.queries.imputation import Imputation, check_level
from marginals.queries.requests import like


@final
class MDMAImputer(OneToOneFeatureMixin, TransformerMixin, TableEstimator):
    """Fill missing cells from their conditional distribution given the row's other cells.

    Only `fit` learns; `transform` never refits. The result has all columns of the model: columns
    absent from the table are filled too.

    Args:
        model: an unfitted `MDMA`, which is copied and fitted; a fitted one, which is used
            unchanged; or None for the default.
        method: "mean", "median", "mode" or a joint "draw".
        add_indicator: append a column of 0 and 1 for each column with gaps in `fit`.
        handle_unknown: "missing" treats categories not seen in training as missing, and leaves them
            unchanged; "error" rejects them, unless the model's own setting is "missing".
        average: average the conditionals of the members of a mixture, which predicts better than
            the joint's own conditional where members are uncertain. An unfitted model is then
            fitted with `aim="answers"` and `guess="smooth"`. False fits and queries the joint.
        random_state: seed for the draws and the default model.

    Attributes:
        model_: the fitted model.
        indicated_: the positions of the columns with an indicator.

    >>> x = np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 6.0]] * 5)
    >>> from marginals import MDMA
    >>> imputer = MDMAImputer(MDMA(width=2, max_steps=5, random_state=0)).fit(x)
    >>> bool(np.isnan(imputer.transform(x)).any())
    False
    """

    indicated_: npt.NDArray[np.intp]

    def __init__(
        self,
        model: Any = None,
        *,
        method: str = "mean",
        add_indicator: bool = False,
        handle_unknown: str = "error",
        average: bool = True,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.method = method
        self.add_indicator = add_indicator
        self.handle_unknown = handle_unknown
        self.average = average
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MDMAImputer":  # noqa: N803 (scikit-learn's name)
        """Learn the distribution of a table, unless the model is fitted already.

        Args:
            X: a table, with or without gaps.
            y: ignored.
        """
        self._keep(fitted(self.model, X, self.random_state, self.average))
        gaps = self._features(X).isna().to_numpy()  # (N, D)
        self.indicated_ = np.flatnonzero(gaps.any(0) & self.add_indicator)
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Fill the missing cells of a table.

        Args:
            X: a table with gaps; absent columns are treated as missing.
        """
        frame, table = self._features(X), self._table()
        usable = nearest_possible(table.schema_, frame)
        done = table.impute(usable, self.method, random_state=self.random_state)
        done = _with_observed(done, frame, usable)
        blank = frame.columns[frame.isna().all()]  # their dtypes follow from their fills
        done[blank] = done[blank].infer_objects()
        if len(self.indicated_):
            flags = frame.isna().iloc[:, self.indicated_].astype(np.float64)
            names = self.get_feature_names_out()[self.n_features_in_ :]
            done = pd.concat([done, flags.set_axis(names, axis=1)], axis=1)
        return _as_given(X, done)

    def transform_interval(self, X: Any, level: float = 0.9) -> tuple[Any, Any]:  # noqa: N803
        """Return two tables like X, with the lower and upper ends of each cell's central interval.

        An observed cell is its own interval; a missing unordered category has none.

        Args:
            X: a table with gaps.
            level: the probability that a missing cell lies between its ends.
        """
        frame, table = self._features(X), self._table()
        check_level(level)
        usable = nearest_possible(table.schema_, frame)
        ends = Imputation(table.module_, table.schema_, usable).bounds(level)
        lower, upper = (_as_given(X, _with_observed(end, frame, usable)) for end in ends)
        return lower, upper

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that `transform` returns.

        Args:
            input_features: names for the columns of an array; a frame has its own.
        """
        check_is_fitted(self, "model_")
        names = super().get_feature_names_out(input_features)
        extra = [f"missingindicator_{names[i]}" for i in self.indicated_]
        return np.asarray([*names, *extra], dtype=object)


def _with_observed(done: pd.DataFrame, frame: pd.DataFrame, usable: pd.DataFrame) -> pd.DataFrame:
    """Put observed cells back that were replaced by possible ones."""
    for name in frame.columns:
        if not usable[name].equals(frame[name]):
            done[name] = done[name].where(frame[name].isna(), frame[name]).infer_objects()
    return done


def _as_given(x: Any, frame: pd.DataFrame) -> Any:
    """Return a completed table in the type of the input: frame, tensor or array."""
    numbers = isinstance(x, pd.DataFrame | Tensor) or np.asarray(x).dtype.kind in "biuf"
    return like(x, frame) if numbers else frame.to_numpy()
