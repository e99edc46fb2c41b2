"""Predictors with distributions: quantiles and means of a number, probabilities of a class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from marginals import MDMA, MDMAClassifier, MDMARegressor
from studies.data.density import Rows
from studies.data.tables import numeric

LEVELS = np.round(np.arange(0.05, 0.96, 0.05), 2)  # 19, among them those of the 90 % interval


@final
@dataclass(frozen=True)
class Task:
    """Rows to learn from, and rows to predict.

    Args:
        x, y: Features and target to learn from.
        x_test, y_test: Those to predict.
        is_class: Whether the target is a category.
    """

    x: pd.DataFrame
    y: pd.Series
    x_test: pd.DataFrame
    y_test: pd.Series
    is_class: bool


# Quantiles (N, Q) and means (N,) of numbers; probabilities (N, C) and classes (C,).
Answer = tuple[Rows, Any]


def mdma(task: Task, seed: int, **options: Any) -> Answer:
    """Predict by the joint of features and target, with the defaults."""
    model = MDMA(random_state=seed, **{"device": "cpu", "progress": False, **options})
    if task.is_class:
        classifier = MDMAClassifier(model).fit(task.x, task.y)
        return classifier.predict_proba(task.x_test), classifier.classes_
    regressor = MDMARegressor(model).fit(task.x, task.y)
    return regressor.predict_quantiles(task.x_test, LEVELS), regressor.predict(task.x_test)


def boosting(task: Task, seed: int) -> Answer:
    """Predict by gradient boosting: one model for each quantile, one for the mean."""
    x, x_test = _as_categories(task.x, task.x_test)
    options: dict[str, Any] = {"categorical_features": "from_dtype", "random_state": seed}
    if task.is_class:
        classifier = HistGradientBoostingClassifier(**options).fit(x, task.y)
        return classifier.predict_proba(x_test), classifier.classes_
    found = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, **options)
        .fit(x, task.y)
        .predict(x_test)
        for level in LEVELS
    ]
    # Models of their own may cross; in order they are better.
    quantiles = np.sort(np.stack(found, 1), axis=1)
    return quantiles, HistGradientBoostingRegressor(**options).fit(x, task.y).predict(x_test)


def linear(task: Task, seed: int) -> Answer:
    """Predict by a linear model with normal errors, on columns filled by their means."""
    numbers = numeric(task.x)
    words = [c for c in task.x.columns if c not in numbers]
    common = SimpleImputer(strategy="most_frequent")
    features = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(common, OneHotEncoder(handle_unknown="ignore")), words),
        sparse_threshold=0,
    )
    x, x_test = (part.astype(dict.fromkeys(words, object)) for part in (task.x, task.x_test))
    if task.is_class:
        classifier = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(x, task.y)
        return classifier.predict_proba(x_test), classifier.classes_
    regressor = make_pipeline(features, BayesianRidge()).fit(x, task.y)
    mean, spread = regressor.predict(x_test, return_std=True)
    return mean[:, None] + spread[:, None] * norm.ppf(LEVELS), mean


def _as_categories(x: pd.DataFrame, x_test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    words = [c for c in x.columns if c not in numeric(x)]
    both = pd.concat([x, x_test]).astype(dict.fromkeys(words, "category"))
    return both.iloc[: len(x)], both.iloc[len(x) :]


PREDICTORS: dict[str, Callable[..., Answer]] = {
    "mdma": mdma,
    "boosting": boosting,
    "linear": linear,
}
