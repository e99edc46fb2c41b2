"""Regression and classification: the distribution of one column given the others."""

import warnings
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from marginals.columns import Categorical, Schema, encode, infer
from marginals.columns.plain_values import in_order
from marginals.columns.table_coercion import input_frame
from marginals.estimators.category_scores import CategoryScores, fit_category_scores
from marginals.estimators.mdma import MDMA
from marginals.estimators.table_estimator import (
    TableEstimator,
    for_answers,
    fresh,
    is_fitted,
    nearest_possible,
    thawed,
)
from marginals.queries.named_rows import seed_of
from marginals.queries.probabilities import log_probabilities

Array = npt.NDArray[Any]


@final
class MDMARegressor(RegressorMixin, TableEstimator):
    """Predict a number from its conditional distribution; features may be missing.

    `fit` treats `y` as continuous. For counts, name the target and declare it in the model, as in
    `MDMARegressor(MDMA(columns={"n": Integer()}), target="n")`.

    Args:
        model: an unfitted `MDMA`, which is copied and fitted to features and target together; a
            fitted one, which is used unchanged; or None for the default.
        target: the name of the target's column in the model; required for a fitted model.
        handle_unknown: "missing" treats categories not seen in training as missing; "error" rejects
            them, unless the model's own setting is "missing".
        average: average the conditionals of the members of a mixture, which predicts better than
            the joint's own conditional where members are uncertain. An unfitted model is then
            fitted with `aim="answers"` and `guess="smooth"`. False fits and queries the joint.

    Attributes:
        model_: the fitted joint of features and target. If there are categories and `average` is
            True, it has one more column, a number that sums up how they move the target.
        target_: the name of the target's column in it.
        scores_: what each category adds to that number, by column; None if there is no such column.

    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> regressor = MDMARegressor(MDMA(width=4, max_steps=20, random_state=0)).fit(x, 2 * x[:, 0])
    >>> regressor.predict([[0.5], [np.nan]]).shape
    (2,)
    """

    target_: Any
    scores_: CategoryScores | None

    def __init__(
        self,
        model: Any = None,
        *,
        target: Any = None,
        handle_unknown: str = "error",
        average: bool = True,
    ) -> None:
        self.model = model
        self.target = target
        self.handle_unknown = handle_unknown
        self.average = average

    def fit(self, X: Any, y: Any = None) -> "MDMARegressor":  # noqa: N803 (scikit-learn's name)
        """Learn the joint distribution of features and target.

        Args:
            X: the features.
            y: the target; not required if the model is fitted already.
        """
        self.scores_ = None
        if is_fitted(self.model):
            model, self.target_ = _known(self.model, self.target)
        else:
            values = _checked(self, y, dtype="numeric").astype(np.float64)
            model, self.target_, self.scores_ = _joint(self, X, values, None)
        kind = model.schema_[self.target_].kind
        if isinstance(kind, Categorical):
            raise TypeError(
                f"Expected the target {self.target_!r} to be a column of numbers; got {kind!r}. "
                "Use MDMAClassifier."
            )
        self._keep(model, self.target_, *([] if self.scores_ is None else [self.scores_.name]))
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the mean of the target given each row's observed features, (N,).

        Args:
            X: a table with the features; absent columns are treated as missing.
        """
        given = _given(self, X)
        return np.asarray(self._table().mean(self.target_, given=given))

    def predict_quantiles(self, X: Any, q: Any = (0.05, 0.5, 0.95)) -> Any:  # noqa: N803
        """Return quantiles of the target at levels `q`, a row for each row of X, (N, Q).

        Args:
            X: a table with the features; absent columns are treated as missing.
            q: levels between 0 and 1.
        """
        given = _given(self, X)
        return np.asarray(self._table().ppf(q, self.target_, given=given))

    def predict_interval(self, X: Any, level: float = 0.9) -> Any:  # noqa: N803
        """Return the ends of the central interval with probability `level`, (N, 2).

        Args:
            X: a table with the features; absent columns are treated as missing.
            level: the probability of the interval.
        """
        given = _given(self, X)
        return np.stack(self._table().interval(self.target_, level, given=given), -1)


@final
class MDMAClassifier(ClassifierMixin, TableEstimator):
    """Predict a category from its conditional probability; features may be missing.

    Args:
        model: an unfitted `MDMA`, which is copied and fitted to features and target together; a
            fitted one, which is used unchanged; or None for the default.
        target: the name of the target's column in the model; required for a fitted model.
        handle_unknown: "missing" treats categories not seen in training as missing; "error" rejects
            them, unless the model's own setting is "missing".
        average: average the conditionals of the members of a mixture, which predicts better than
            the joint's own conditional where members are uncertain. An unfitted model is then
            fitted with `aim="answers"` and `guess="smooth"`. False fits and queries the joint.

    Attributes:
        model_: the fitted joint of features and target.
        target_: the name of the target's column in it.
        classes_: the categories, sorted.

    >>> x, y = np.linspace(0, 1, 40)[:, None], np.repeat(["low", "high"], 20)
    >>> classifier = MDMAClassifier(MDMA(width=4, max_steps=20, random_state=0)).fit(x, y)
    >>> classifier.predict_proba([[0.5], [np.nan]]).shape
    (2, 2)
    """

    target_: Any
    classes_: Array

    def __init__(
        self,
        model: Any = None,
        *,
        target: Any = None,
        handle_unknown: str = "error",
        average: bool = True,
    ) -> None:
        self.model = model
        self.target = target
        self.handle_unknown = handle_unknown
        self.average = average

    def fit(self, X: Any, y: Any = None) -> "MDMAClassifier":  # noqa: N803
        """Learn the joint distribution of features and target.

        Args:
            X: the features.
            y: the classes; not required if the model is fitted already.
        """
        if is_fitted(self.model):
            model, self.target_ = _known(self.model, self.target)
        else:
            labels = _checked(self, y, dtype=None)
            check_classification_targets(labels)
            kind = Categorical(np.unique(labels).tolist())
            model, self.target_, _ = _joint(self, X, labels, kind)
        categories = _categories(model.schema_, self.target_)
        self.classes_ = _array([categories[code] for code in _order(categories)])
        self._keep(model, self.target_)
        return self

    def predict_log_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the log probability of each class given each row's observed features, (N, C).

        Args:
            X: a table with the features; absent columns are treated as missing.
        """
        table, given = self._table(), _given(self, X)
        categories = _categories(table.schema_, self.target_)
        known, position = encode(table.schema_, given).evidence, table.schema_.index(self.target_)
        found = log_probabilities(table.module_, known, position, len(categories))
        return found.numpy()[:, _order(categories)]

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the probability of each class given each row's observed features, (N, C).

        Args:
            X: a table with the features; absent columns are treated as missing.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the most likely class of each row, (N,).

        Args:
            X: a table with the features; absent columns are treated as missing.
        """
        best = self.predict_log_proba(X).argmax(1)
        return self.classes_[best]


# The joint ------------------------------------------------------------------------------------


def _known(model: Any, target: Any) -> tuple[MDMA, Any]:
    """Return a fitted model and the name of the target in it."""
    model = thawed(model)
    if target is None:
        raise ValueError(
            "Expected `target` to name the column that a fitted model predicts; got None. Give its "
            "name."
        )
    return model, model.schema_[target].name


def _joint(estimator: Any, x: Any, y: Array, kind: Any) -> tuple[MDMA, Any, CategoryScores | None]:
    """Fit features and target together, with the target in focus.

    A kind or focus that the model declares goes before these. If the target is a number and answers
    are averaged, categories get scores, whose sum is one more column.
    """
    frame, target = input_frame(x), estimator.target
    check_consistent_length(frame, y)
    names = frame.columns.tolist()
    target = _free(names) if target is None else target
    if target in names:
        raise ValueError(
            f"Expected `target` to be no column of X; got {target!r}, which is one. Leave it out "
            "of X, or choose another name."
        )
    model = fresh(estimator.model)
    model = for_answers(model) if estimator.average else model
    kinds = {} if kind is None else {target: kind}
    focus = target if model.focus is None else model.focus
    columns = [frame, pd.Series(y, frame.index, name=target)]
    found = _scored(model, frame, y, target) if kind is None and estimator.average else None
    if found is not None:
        columns.append(pd.Series(found[1], frame.index, name=found[0].name))
    model.set_params(columns={**kinds, **(model.columns or {})} or None, focus=focus)
    model.fit(pd.concat(columns, axis=1))
    return model, target, None if found is None else found[0]


def _scored(
    model: MDMA, frame: pd.DataFrame, y: Array, target: Any
) -> tuple[CategoryScores, Array] | None:
    """Return scores of categories for a target, and their sums for the rows to fit, if any."""
    names = frame.columns.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit warns of the same columns
        kinds = {name: kind for name, kind in (model.columns or {}).items() if name in names}
        schema = infer(frame, kinds, guess=model.guess, unknown=model.handle_unknown)
    name = _free([*names, target], "score")
    return fit_category_scores(
        schema.reading(model.handle_unknown), frame, y, name, seed_of(model.random_state)
    )


def _checked(estimator: TableEstimator, y: Any, dtype: Any) -> Array:
    """Return the target as an array (N,) without gaps; errors are those of scikit-learn."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    values = np.asarray(y)
    gaps = int(pd.isna(values).sum())
    if gaps:
        raise ValueError(
            f"Expected `y` to have no gaps; got {gaps} missing (NaN, None, NA or NaT). Leave out "
            "those rows."
        )
    values = check_array(values, ensure_2d=False, dtype=dtype, input_name="y", estimator=estimator)
    # Numbers and booleans of pandas' own dtypes may arrive as objects.
    return pd.Series(column_or_1d(values, warn=True)).infer_objects().to_numpy()


def _given(estimator: Any, x: Any) -> pd.DataFrame:
    """Return the features of rows to predict, without the target's column, as they can occur.

    If categories have scores, their sum is one more column.
    """
    check_is_fitted(estimator, "model_")
    is_frame = isinstance(x, pd.DataFrame)
    features = x.drop(columns=estimator.target_, errors="ignore") if is_frame else x
    schema = estimator._table().schema_
    frame = nearest_possible(schema, estimator._features(features))
    encode(schema, frame)  # its error names the column of an impossible value
    scores = getattr(estimator, "scores_", None)  # only regressors have them
    return frame if scores is None else frame.assign(**{scores.name: scores(schema, frame)})


def _free(names: list[Any], name: str = "target") -> str:
    """Return a name that no other column has."""
    while name in names:
        name += "_"
    return name


# Classes --------------------------------------------------------------------------------------


def _categories(schema: Schema, target: Any) -> list[Any]:
    kind = schema[target].kind
    if not isinstance(kind, Categorical):
        raise TypeError(
            f"Expected the target {target!r} to be categorical; got {kind!r}. Declare it with "
            "Categorical(), or use MDMARegressor."
        )
    return list(kind.categories or ())


def _order(categories: list[Any]) -> list[int]:
    """Return the codes of the categories in the order of `classes_`."""
    return [categories.index(value) for value in in_order(categories)]


def _array(values: list[Any]) -> Array:
    """Return values as an array; numpy would turn mixed types into strings."""
    same = len({type(value) for value in values}) == 1
    return np.array(values, dtype=None if same else object)
