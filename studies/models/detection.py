"""How well XGBoost tells synthetic rows from real ones: the detection metric of sdmetrics."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd

from studies.harness.available import Unavailable, installed


def detection_score(real: pd.DataFrame, drawn: pd.DataFrame, seed: int) -> float | None:
    """Return sdmetrics' detection score with XGBoost: 1 if rows cannot be told apart, 0 if always.

    The score is 1 minus the mean over three folds of 2 max(AUC, 0.5) - 1, after sdmetrics' own
    preparation of columns. None if sdmetrics or xgboost is not installed.
    """
    try:
        metrics = installed("sdmetrics.single_table.detection.sklearn")
        boosting = installed("xgboost")
    except Unavailable:
        return None

    class XGBoostDetection(metrics.ScikitLearnClassifierDetectionMetric):  # type: ignore
        name = "XGBoost Detection"

        @staticmethod
        def _get_classifier():  # type: ignore
            return boosting.XGBClassifier(random_state=seed, n_jobs=1)

    with _seeded(seed):  # sdmetrics draws its folds from numpy's global generator
        known = _plain(real)
        return float(XGBoostDetection.compute(known, _known(_plain(drawn[list(real)]), known)))


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return numbers as floats and all else as strings, which every version of sdmetrics reads."""
    columns = {}
    for name in frame.columns:
        column = frame[name].reset_index(drop=True)
        number = pd.api.types.is_numeric_dtype(column.dtype)
        if number and not pd.api.types.is_bool_dtype(column.dtype):
            columns[str(name)] = column.astype("Float64").astype(float)
        else:
            text = column.astype(object).where(column.notna(), "missing").astype(str)
            columns[str(name)] = text.astype(object)
    return pd.DataFrame(columns)


def _known(frame: pd.DataFrame, real: pd.DataFrame) -> pd.DataFrame:
    """Replace categories that real rows lack, which sdmetrics refuses, by their rarest."""
    words = [name for name in real.columns if real[name].dtype == object]
    return frame.assign(
        **{
            name: frame[name].where(
                frame[name].isin(real[name]), real[name].value_counts().index[-1]
            )
            for name in words
        }
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
