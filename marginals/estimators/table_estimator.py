"""What the estimators of tasks share: a joint of a table, and tables matched to its columns."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from marginals.columns.table_coercion import matched
from marginals.estimators.mdma import MDMA, _frame
from marginals.queries import TableDensity


class TableEstimator(BaseEstimator):
    """An estimator that asks a fitted joint; subclasses are final.

    A subclass calls `_keep` in `fit`, and `_features` on every table that it is given later.

    Attributes:
        model_: the fitted model.
    """

    model_: MDMA

    def _keep(self, model: MDMA, target: Any = None) -> None:
        """Keep a fitted model; all of its columns but the target are features."""
        self.model_, self._target = model, target
        names = self._names()
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _names(self) -> list[Any]:
        return [name for name in self.model_.schema_.names if name != self._target]

    def _features(self, x: Any) -> pd.DataFrame:
        """Return all features in the order of the model; those that a frame lacks are missing."""
        check_is_fitted(self, "model_")
        names = self._names()
        if isinstance(x, pd.DataFrame):
            return self._by_name(x, names)
        frame = _frame(x)
        if frame.shape[1] != len(names):
            # The first sentence is the one that scikit-learn's checks look for.
            raise ValueError(
                f"X has {frame.shape[1]} features, but {type(self).__name__} is expecting "
                f"{len(names)} features as input. Give all columns, or a DataFrame with some of "
                "them by name."
            )
        return frame.set_axis(names, axis=1)

    def _by_name(self, frame: pd.DataFrame, names: list[Any]) -> pd.DataFrame:
        schema = self.model_.schema_
        _, positions = matched(schema, frame)  # raises for a column that the model does not know
        given = {schema.names[c]: frame.iloc[:, place] for place, c in enumerate(positions)}
        # Of dtype object, a column without a value can be filled with values of any kind.
        blank = pd.Series([None] * len(frame), index=frame.index, dtype=object)
        known = {name: column for name, column in given.items() if column.notna().any()}
        return pd.concat([known.get(name, blank) for name in names], axis=1).set_axis(names, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def is_fitted(model: Any) -> bool:
    """Say whether a model is fitted, so that it is used as it is; refuse what is no model."""
    model = thawed(model)
    if model is not None and not isinstance(model, TableDensity):
        raise TypeError(
            f"Expected `model` to be an MDMA, fitted or not, or None; got {type(model).__name__}. "
            "Give MDMA(...)."
        )
    return hasattr(model, "module_")


def thawed(model: Any) -> Any:
    """Return the model inside of scikit-learn's `FrozenEstimator`, or the model itself."""
    return model.estimator if isinstance(model, FrozenEstimator) else model


def fresh(model: Any, random_state: Any = None) -> MDMA:
    """Return an unfitted copy of a model; for None the default, with this random state."""
    return MDMA(random_state=random_state) if model is None else clone(model)


def fitted(model: Any, x: Any, random_state: Any = None) -> MDMA:
    """Return a model of the table: the one given if it is fitted, else a fitted copy of it."""
    return thawed(model) if is_fitted(model) else fresh(model, random_state).fit(x)
