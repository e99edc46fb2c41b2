"""scikit-learn's own checks, and its tools around the estimator."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginals import MDMA

SMALL: dict[str, Any] = {"width": 4, "max_steps": 5}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([MDMA(**SMALL)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def rows() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(80, 2))


def test_grid_search_by_score() -> None:
    search = GridSearchCV(MDMA(**SMALL, random_state=0), {"width": [2, 4]}, cv=2).fit(rows())
    assert search.best_params_["width"] in (2, 4)


def test_in_a_pipeline() -> None:
    line = make_pipeline(StandardScaler(), MDMA(**SMALL, random_state=0)).fit(rows())
    assert np.isfinite(line.score(rows()))


def test_clone_keeps_every_setting() -> None:
    model = MDMA(width=7, columns={0: "x"}, noise=0.1)
    assert clone(model).get_params() == model.get_params()


def test_names_of_features() -> None:
    model = MDMA(**SMALL).fit(pd.DataFrame(rows(), columns=["a", "b"]))
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.n_features_in_ == 2
    assert not hasattr(model.fit(rows()), "feature_names_in_")


def test_the_same_seed_gives_the_same_model() -> None:
    first, second = (MDMA(**SMALL, random_state=3).fit(rows()) for _ in range(2))
    np.testing.assert_array_equal(first.score_samples(rows()), second.score_samples(rows()))
