"""All estimators by scikit-learn's rules; imputer and predictors against the model."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginals import (
    MDMA,
    Categorical,
    Integer,
    MDMAClassifier,
    MDMAImputer,
    MDMAOutlierDetector,
    MDMARegressor,
)
from tests.estimators.conftest import PETAL, SMALL, TINY

WIDTH = "sepal width (cm)"
FEW = MDMA(width=2, max_steps=2, random_state=0)  # for rules that no training is needed for


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        FEW,
        MDMAImputer(FEW, random_state=0),
        MDMAImputer(FEW, method="median", add_indicator=True),
        MDMAOutlierDetector(FEW, samples=100),
        # Trained with a focus, this model's means differ by one digit of float32 between batches.
        MDMARegressor(clone(FEW).set_params(focus=())),
        MDMAClassifier(FEW),
    ],
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    if check.func.__name__ in ("check_regressors_train", "check_classifiers_train"):  # for skill
        estimator = clone(estimator).set_params(**{f"model__{k}": v for k, v in TINY.items()})
    check(estimator)


def test_the_joint_in_the_tools_of_scikit_learn() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 2))
    small = MDMA(width=4, max_steps=5, random_state=3)
    search = GridSearchCV(small, {"width": [2, 4]}, cv=2).fit(rows)
    assert search.best_params_["width"] in (2, 4)
    assert np.isfinite(make_pipeline(StandardScaler(), small).fit(rows).score(rows))
    model = MDMA(width=7, columns={0: "x"}, noise=0.1)
    assert clone(model).get_params() == model.get_params()
    first, second = (clone(small).fit(rows).score_samples(rows) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# Every estimator of a joint -------------------------------------------------------------------

EVERY = [
    MDMAImputer(),
    MDMAOutlierDetector(samples=50),
    MDMARegressor(target=PETAL),
    MDMAClassifier(target="target"),
]


def answer_of(estimator: Any, rows: Any) -> Any:
    if isinstance(estimator, MDMAImputer):
        return np.asarray(estimator.transform(rows))
    scores = isinstance(estimator, MDMAOutlierDetector)
    return estimator.score_samples(rows) if scores else estimator.predict(rows)


@pytest.mark.parametrize("estimator", EVERY, ids=lambda e: type(e).__name__)
def test_every_estimator_uses_a_fitted_model(
    estimator: Any, iris: pd.DataFrame, model: MDMA
) -> None:
    for given in (model, FrozenEstimator(model), model.marginal(iris.columns)):
        fitted = clone(estimator).set_params(model=given).fit(iris)
        assert fitted.model_ is (model if isinstance(given, FrozenEstimator) else given)
    fitted = clone(clone(estimator).set_params(model=FrozenEstimator(model))).fit(iris)
    assert fitted.model_ is model
    with pytest.raises(TypeError, match="Expected `model` to be an MDMA"):
        clone(estimator).set_params(model=StandardScaler()).fit(iris)
    # Columns match by name, and those that are absent are missing.
    rows = iris.head(5)
    answer = answer_of(fitted, rows)
    np.testing.assert_array_equal(answer_of(fitted, rows.iloc[:, ::-1]), answer)
    np.testing.assert_array_equal(answer_of(pickle.loads(pickle.dumps(fitted)), rows), answer)
    absent = answer_of(fitted, rows.drop(columns=WIDTH))
    np.testing.assert_array_equal(absent, answer_of(fitted, rows.assign(**{WIDTH: np.nan})))
    with pytest.raises(ValueError, match="got 'other'"):
        answer_of(fitted, rows.assign(other=1.0))
    with pytest.raises(ValueError, match=r"X has 2 features, but MDMA\w+ is expecting"):
        answer_of(fitted, np.zeros((3, 2)))


@pytest.mark.parametrize("estimator", [MDMA(**TINY), MDMAImputer(MDMA(**TINY))])
def test_names_follow_the_last_fit(estimator: Any, iris: pd.DataFrame) -> None:
    features = iris.iloc[:, :2]
    estimator.fit(features)
    assert list(estimator.feature_names_in_) == list(features)
    assert estimator.n_features_in_ == 2
    assert not hasattr(estimator.fit(features.to_numpy()), "feature_names_in_")


def test_every_method_needs_a_fit(iris: pd.DataFrame, model: MDMA) -> None:
    for estimator, methods in (
        (MDMA(), "score_samples impute surprise entropy"),
        (MDMARegressor(model), "predict predict_quantiles predict_interval"),
        (MDMAClassifier(model), "predict predict_proba predict_log_proba"),
        (MDMAImputer(model), "transform transform_interval get_feature_names_out"),
        (MDMAOutlierDetector(model), "score_samples explain normal_ranges blame"),
    ):
        for method in methods.split():
            with pytest.raises(NotFittedError):
                getattr(estimator, method)(iris)


# The imputer ----------------------------------------------------------------------------------


def test_the_imputer_fills_and_names(iris: pd.DataFrame, model: MDMA) -> None:
    holes = iris.drop(columns="target").copy()
    holes.iloc[::5, 1] = np.nan
    imputer = MDMAImputer(MDMA(**SMALL), add_indicator=True).fit(holes)
    done = imputer.transform(holes)
    assert list(done.columns) == list(imputer.get_feature_names_out())
    assert done.iloc[:, -1].sum() == holes.isna().sum().sum()
    assert not done.isna().any().any()
    pd.testing.assert_frame_equal(done.iloc[:, :4], imputer.model_.impute(holes))
    line = make_pipeline(StandardScaler(), MDMAImputer(MDMA(**TINY))).fit(holes.to_numpy())
    assert not np.isnan(line.transform(holes.to_numpy())).any()
    rows, imputer = iris.head(3), MDMAImputer(model).fit(iris)
    for blank in (
        rows.drop(columns=["target", PETAL]),
        rows.assign(target=np.nan, **{PETAL: None}),
    ):
        done = imputer.transform(blank)
        assert list(done.columns) == list(iris.columns)
        assert set(done["target"]) == {"setosa"}
        assert done[PETAL].dtype == np.float64
    holes = iris.head(20).assign(**{PETAL: np.nan})
    first, again, other = (
        MDMAImputer(model, method="draw", random_state=seed).fit(iris).transform(holes)
        for seed in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_the_imputer_returns_the_type_of_its_input() -> None:
    x = torch.randn(30, 2, dtype=torch.float32)
    x[::3, 1] = torch.nan
    imputer = MDMAImputer(MDMA(**TINY), add_indicator=True).fit(x)
    done = imputer.transform(x)
    assert isinstance(done, torch.Tensor)
    assert done.dtype == torch.float32
    assert torch.equal(done[:, 2], x[:, 1].isnan().float())
    assert imputer.transform(x.numpy()).dtype == np.float32
    assert list(imputer.get_feature_names_out(["a", "b"])) == ["a", "b", "missingindicator_b"]
    framed = imputer.set_output(transform="pandas").transform(x.numpy())
    assert list(framed.columns) == ["x0", "x1", "missingindicator_x1"]
    words = np.array([["a", 1.5], ["b", 2.5], [None, 1.0], ["a", None]] * 5, dtype=object)
    filled = MDMAImputer(MDMA(**TINY)).fit(words).transform(words)
    assert set(filled[:, 0]) == {"a", "b"}
    assert not pd.isna(filled).any()


def test_the_imputer_gives_intervals(iris: pd.DataFrame, model: MDMA) -> None:
    holes = iris.copy()
    holes.loc[::4, PETAL] = np.nan
    imputer = MDMAImputer(model).fit(holes)
    lower, upper = imputer.transform_interval(holes.drop(columns="target"), 0.8)
    assert list(lower.columns) == list(iris.columns)
    inside = (lower[PETAL] <= iris[PETAL]) & (iris[PETAL] <= upper[PETAL])
    gaps = holes[PETAL].isna()
    assert inside[~gaps].all()
    assert (lower[PETAL] < upper[PETAL])[gaps].all()
    assert lower["target"].isna().all()
    x = iris.drop(columns="target").to_numpy(copy=True)
    x[::3, 1] = np.nan
    ends = MDMAImputer(MDMA(**TINY)).fit(x).transform_interval(x)
    assert [type(end) for end in ends] == [np.ndarray, np.ndarray]
    with pytest.raises(ValueError, match="Expected `level` to lie between 0 and 1; got 90"):
        imputer.transform_interval(holes, 90)


def test_labels_of_rows_may_repeat(iris: pd.DataFrame, model: MDMA) -> None:
    holes = iris.head(6).set_axis([0, 0, 1, 1, 1, 2]).assign(**{PETAL: [1.0, np.nan] * 3})
    imputer = MDMAImputer(model, add_indicator=True).fit(holes)
    assert imputer.transform(holes).index.equals(holes.index)
    regressor = MDMARegressor(MDMA(**TINY)).fit(holes, np.arange(6.0))
    assert regressor.predict(holes.drop(columns="target")).shape == (6,)
    assert MDMAOutlierDetector(model).fit(iris).blame(holes).index.equals(holes.index)


# The predictors -------------------------------------------------------------------------------


def test_the_regressor_is_the_conditional(iris: pd.DataFrame, model: MDMA) -> None:
    features = iris.drop(columns=PETAL)
    regressor = MDMARegressor(model, target=PETAL).fit(features)
    predicted = regressor.predict(features)
    np.testing.assert_array_equal(predicted, model.mean(PETAL, given=features))
    np.testing.assert_array_equal(regressor.predict(iris), predicted)  # the target is no feature
    assert np.corrcoef(predicted, iris[PETAL])[0, 1] > 0.9
    alone = np.concatenate([regressor.predict(iris.iloc[[i]]) for i in range(0, 150, 10)])
    np.testing.assert_allclose(alone, predicted[::10], rtol=1e-4)
    features.iloc[:, 0] = np.nan
    assert np.isfinite(regressor.predict(features)).all()
    bounds = regressor.predict_interval(features, 0.8)
    inside = (iris[PETAL] > bounds[:, 0]) & (iris[PETAL] < bounds[:, 1])
    assert 0.6 < inside.mean() <= 1
    expected = model.ppf([0.1, 0.9], PETAL, given=features)
    np.testing.assert_array_equal(regressor.predict_quantiles(features, [0.1, 0.9]), expected)
    np.testing.assert_allclose(bounds, expected, rtol=1e-6)


def test_the_regressor_names_its_target(iris: pd.DataFrame) -> None:
    features = iris.iloc[:, :2]
    regressor = MDMARegressor(MDMA(**TINY)).fit(features, iris[PETAL])
    assert regressor.target_ == "target"
    assert list(regressor.feature_names_in_) == list(features)
    taken = features.set_axis(["target", "target_"], axis=1)
    assert MDMARegressor(MDMA(**TINY)).fit(taken, iris[PETAL]).target_ == "target__"
    counts = MDMA(columns={"n": Integer()}, **TINY)
    counted = MDMARegressor(counts, target="n").fit(features, np.arange(150) % 4)
    assert isinstance(counted.model_.schema_["n"].kind, Integer)
    assert set(counts.columns) == {"n"}
    with pytest.raises(ValueError, match="Expected `target` to be no column of X"):
        MDMARegressor(MDMA(**TINY), target=features.columns[0]).fit(features, iris[PETAL])


def test_predictors_refuse_wrong_targets(iris: pd.DataFrame, model: MDMA) -> None:
    for predictor, error, message in (
        (MDMAClassifier(model), ValueError, "Expected `target` to name the column"),
        (MDMARegressor(model, target="target"), TypeError, "Use MDMAClassifier"),
        (MDMAClassifier(model, target=PETAL), TypeError, "use MDMARegressor"),
    ):
        with pytest.raises(error, match=message):
            predictor.fit(iris)
    with pytest.raises(ValueError, match="Expected column 'target' to hold one of"):
        MDMARegressor(model, target=PETAL).fit(iris).predict(iris.assign(target="rose"))
    for missing in (None, np.nan, pd.NA):
        y = pd.Series([1, 2, missing, 1], dtype=object)
        for predictor in (MDMARegressor(MDMA(**TINY)), MDMAClassifier(MDMA(**TINY))):
            with pytest.raises(ValueError, match="Expected `y` to have no gaps; got 1 missing"):
                predictor.fit(np.zeros((4, 1)), y)


def test_the_classifier_is_the_conditional(iris: pd.DataFrame, model: MDMA) -> None:
    features = iris.drop(columns="target")
    classifier = MDMAClassifier(model, target="target").fit(features)
    chance = classifier.predict_proba(features)
    np.testing.assert_allclose(chance.sum(1), 1, rtol=1e-12)
    for place, name in enumerate(classifier.classes_):
        expected = model.prob({"target": str(name)}, given=features)
        np.testing.assert_allclose(chance[:, place], expected, atol=1e-5)
    assert (classifier.predict(features) == iris["target"]).mean() > 0.9
    features.iloc[:, 2:] = np.nan
    assert (classifier.predict(features) == iris["target"]).mean() > 0.6
    # Far from all rows the probabilities of classes go below those of floats; their logs do not.
    far = features.head(1).assign(**dict.fromkeys(features.columns, 1e3))
    assert np.isfinite(classifier.predict_log_proba(far)).all()


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["b", "a", "c"]),
        pd.Series(["b", "a", "c"], dtype="category"),
        pd.Series([3, 1, 2]),
        pd.Series([3, 1, 2], dtype="Int64"),
        pd.Series([3.0, 1.0, 2.0]),
        pd.Series([True, False, True]),
        pd.Series([True, False, True], dtype="boolean"),
        pd.Series(["a", "a", "a"]),
    ],
    ids=lambda labels: f"{labels.dtype}-{labels.nunique()}",
)
def test_classes_come_back_as_they_are(labels: pd.Series) -> None:
    y = pd.concat([labels] * 20, ignore_index=True)
    x = np.arange(60.0)[:, None] % 3
    classifier = MDMAClassifier(MDMA(**TINY)).fit(x, y)
    assert classifier.classes_.tolist() == sorted(set(labels))
    kinds = {type(value) for value in labels.tolist()}
    assert {type(value) for value in classifier.classes_.tolist()} == kinds
    assert classifier.predict(x).shape == (60,)


def test_classes_are_sorted_whatever_the_order_of_categories(iris: pd.DataFrame) -> None:
    names = ["virginica", "setosa", "rose", "versicolor"]
    model = MDMA(columns={"target": Categorical(names)}, **TINY).fit(iris)
    classifier = MDMAClassifier(model, target="target").fit(iris)
    assert classifier.classes_.tolist() == sorted(names)
    expected = model.prob({"target": "rose"}, given=iris.drop(columns="target"))
    np.testing.assert_allclose(classifier.predict_proba(iris)[:, 0], expected, atol=1e-5)
    mixed = MDMA(columns={"y": Categorical(["a", 1])}, **TINY).fit(
        pd.DataFrame({"x": range(20), "y": ["a", 1] * 10})
    )
    assert MDMAClassifier(mixed, target="y").fit(np.zeros((1, 1))).classes_.tolist() == [1, "a"]
