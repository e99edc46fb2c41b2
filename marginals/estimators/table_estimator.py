"""The base of imputer, predictors and detector: a fitted joint, and tables matched to it."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from marginals.columns import Categorical, Column, Schema
from marginals.columns.axis import quiet
from marginals.columns.cell_reading import numbers
from marginals.columns.decoding import restored
from marginals.columns.table_axis import TableAxis
from marginals.columns.table_coercion import input_frame, matched
from marginals.densities.averaged import averaged
from marginals.estimators.mdma import MDMA, TableInput
from marginals.queries import TableDensity, TableView


class TableEstimator(TableInput):
    """An estimator that queries a fitted joint; subclasses are final.

    A subclass calls `_keep` in `fit`, `_features` on every table that it gets later, and asks
    `_table` its questions.

    Attributes:
        model_: the fitted model.
    """

    model_: MDMA
    handle_unknown: str
    average: bool = False

    def _keep(self, model: MDMA, *others: Any) -> None:
        """Keep a fitted model; all of its columns but `others` are features."""
        self.model_, self._others = model, others
        self._name_features(self._names())

    def _names(self) -> list[Any]:
        return [name for name in self.model_.schema_.names if name not in self._others]

    def _table(self) -> TableView:
        """Return the fitted joint, reading unseen categories as `handle_unknown` says.

        With `average`, its conditionals are means of its members' conditionals.
        """
        check_is_fitted(self, "model_")
        density, schema = self.model_._parts()
        schema.reading(self.handle_unknown)  # refuses other settings
        if self.handle_unknown == "missing":  # else as the model's own setting says
            schema = schema.reading("missing")
        density = averaged(density) if self.average else density
        return TableView(density, schema, self.model_._kind())

    def _features(self, x: Any) -> pd.DataFrame:
        """Return all features in the model's order; columns that a frame lacks are missing."""
        check_is_fitted(self, "model_")
        names = self._names()
        if isinstance(x, pd.DataFrame):
            return self._by_name(x, names)
        frame = input_frame(x)
        if frame.shape[1] != len(names):
            # scikit-learn's checks look for the first sentence.
            raise ValueError(
                f"X has {frame.shape[1]} features, but {type(self).__name__} is expecting "
                f"{len(names)} features as input. Give all columns, or a DataFrame with some of "
                "them by name."
            )
        return frame.set_axis(names, axis=1)

    def _by_name(self, frame: pd.DataFrame, names: list[Any]) -> pd.DataFrame:
        schema = self.model_.schema_
        _, positions = matched(schema, frame)  # raises for an unknown column
        given = {schema.names[c]: frame.iloc[:, place] for place, c in enumerate(positions)}
        # As objects, a column without values can be filled with values of any kind.
        blank = pd.Series([None] * len(frame), index=frame.index, dtype=object)
        known = {name: column for name, column in given.items() if column.notna().any()}
        return pd.concat([known.get(name, blank) for name in names], axis=1).set_axis(names, axis=1)


def nearest_possible(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    """Return features with values that an inferred kind rules out replaced, so that they can occur.

    New rows may have numbers that no row fitted had. In a column that was inferred to hold a few
    numbers, such a value becomes the nearest of them. Beyond an inferred bound it is missing.
    What the user declared stays as it is, and is refused later.
    """
    changed = {}
    for name in frame.columns:
        column = schema[name]
        if isinstance(column.kind, Categorical) or column.declared or column.margin is not None:
            continue
        values = numbers(column, frame[name])
        with quiet():
            wrong = column.axis.beyond(values) & ~np.isnan(values)
        if wrong.any():
            changed[name] = _replaced(column, frame[name], values, wrong)
    return frame.assign(**changed) if changed else frame


def _replaced(column: Column, series: pd.Series, values: Any, wrong: Any) -> pd.Series:
    line, out = column.axis, series.astype(object)
    if not isinstance(line, TableAxis):
        return out.mask(wrong)
    near = np.abs(values[wrong, None] - line.values).argmin(1)
    out[wrong] = list(restored(column, line.values[near]))
    return out


def is_fitted(model: Any) -> bool:
    """Say whether a model is fitted; refuse objects that are no models."""
    model = thawed(model)
    if model is not None and not isinstance(model, TableDensity):
        raise TypeError(
            f"Expected `model` to be an MDMA, fitted or not, or None; got {type(model).__name__}. "
            "Give MDMA(...)."
        )
    return hasattr(model, "module_")


def thawed(model: Any) -> Any:
    """Return the model inside a `FrozenEstimator`, or the model itself."""
    return model.estimator if isinstance(model, FrozenEstimator) else model


def fresh(model: Any, random_state: Any = None) -> MDMA:
    """Return an unfitted copy of a model; for None, the default with this random state."""
    return MDMA(random_state=random_state) if model is None else clone(model)


def for_answers(model: MDMA) -> MDMA:
    """Set an unfitted model to fit members whose averaged conditionals answer best.

    Numbers are smooth, unless the model declares their kinds or does not guess any.
    """
    return model.set_params(aim="answers", guess="smooth" if model.guess else False)


def fitted(model: Any, x: Any, random_state: Any = None, average: bool = False) -> MDMA:
    """Return the model if it is fitted, else a copy fitted to the table.

    With `average`, a copy is fitted for averaged answers.
    """
    if is_fitted(model):
        return thawed(model)
    copy = fresh(model, random_state)
    return (for_answers(copy) if average else copy).fit(x)
