"""Iris with names, and a model of it."""

from typing import Any

import pandas as pd
import pytest
from sklearn.datasets import load_iris

from marginals import MDMA

TINY: dict[str, Any] = {"width": 8, "max_steps": 30, "learning_rate": 0.05, "random_state": 0}
SMALL: dict[str, Any] = {"width": 8, "max_steps": 300, "random_state": 0}
PETAL = "petal width (cm)"


@pytest.fixture(scope="session")
def iris() -> pd.DataFrame:
    frame = load_iris(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "setosa", 1: "versicolor", 2: "virginica"})
    return frame


@pytest.fixture(scope="session")
def model(iris: pd.DataFrame) -> MDMA:
    return MDMA(**SMALL).fit(iris)
