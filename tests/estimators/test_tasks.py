"""Imputer, predictors and outlier detector, by scikit-learn's rules and against the model."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
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
    Mixture,
)

TINY: dict[str, Any] = {"width": 8, "max_steps": 30, "learning_rate": 0.05, "random_state": 0}
SMALL: dict[str, Any] = {"width": 8, "max_steps": 300, "random_state": 0}
PETAL = "petal width (cm)"


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        MDMAImputer(MDMA(**TINY), random_state=0),
        MDMAImputer(MDMA(**TINY), method="median", add_indicator=True),
        MDMAOutlierDetector(MDMA(**TINY), samples=100),
        MDMARegressor(MDMA(**TINY)),
        MDMAClassifier(MDMA(**TINY)),
    ],
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def iris() -> pd.DataFrame:
    frame = load_iris(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "setosa", 1: "versicolor", 2: "virginica"})
    return frame


@pytest.fixture(scope="module")
def model(iris: pd.DataFrame) -> MDMA:
    return MDMA(**SMALL).fit(iris)


EVERY = [
    MDMAImputer(),
    MDMAOutlierDetector(samples=50),
    MDMARegressor(target=PETAL),
    MDMAClassifier(target="target"),
]


# What all have in common ----------------------------------------------------------------------


@pytest.mark.parametrize("estimator", EVERY, ids=lambda e: type(e).__name__)
class TestEvery:
    def test_uses_a_fitted_model_as_it_is(
        self, estimator: Any, iris: pd.DataFrame, model: MDMA
    ) -> None:
        for given in (model, FrozenEstimator(model), model.marginal(iris.columns)):
            fitted = clone(estimator).set_params(model=given).fit(iris)
            assert fitted.model_ is (model if isinstance(given, FrozenEstimator) else given)
        frozen = clone(estimator).set_params(model=FrozenEstimator(model))
        assert clone(frozen).fit(iris).model_ is model

    def test_matches_columns_by_name(self, estimator: Any, iris: pd.DataFrame, model: MDMA) -> None:
        fitted = clone(estimator).set_params(model=FrozenEstimator(model)).fit(iris)
        rows = iris.head(5)
        answer = answer_of(fitted, rows)
        np.testing.assert_array_equal(answer_of(fitted, rows.iloc[:, ::-1]), answer)
        absent = answer_of(fitted, rows.drop(columns="sepal width (cm)"))
        missing = answer_of(fitted, rows.assign(**{"sepal width (cm)": np.nan}))
        np.testing.assert_array_equal(absent, missing)
        with pytest.raises(ValueError, match="got 'other'"):
            answer_of(fitted, rows.assign(other=1.0))
        with pytest.raises(ValueError, match=r"X has 2 features, but MDMA\w+ is expecting"):
            answer_of(fitted, np.zeros((3, 2)))

    def test_survives_pickle(self, estimator: Any, iris: pd.DataFrame, model: MDMA) -> None:
        fitted = clone(estimator).set_params(model=FrozenEstimator(model)).fit(iris)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(answer_of(again, iris.head()), answer_of(fitted, iris.head()))

    def test_refuses_what_is_no_model(self, estimator: Any, iris: pd.DataFrame) -> None:
        with pytest.raises(TypeError, match="Expected `model` to be an MDMA"):
            clone(estimator).set_params(model=StandardScaler()).fit(iris)


def answer_of(estimator: Any, rows: Any) -> Any:
    if isinstance(estimator, MDMAImputer):
        return np.asarray(estimator.transform(rows))
    if isinstance(estimator, MDMAOutlierDetector):
        return estimator.score_samples(rows)
    return estimator.predict(rows)


def test_names_follow_the_last_fit(iris: pd.DataFrame) -> None:
    features = iris.iloc[:, :2]
    imputer = MDMAImputer(MDMA(**TINY)).fit(features)
    assert list(imputer.feature_names_in_) == list(features)
    assert not hasattr(imputer.fit(features.to_numpy()), "feature_names_in_")


def test_every_method_wants_a_fit(iris: pd.DataFrame, model: MDMA) -> None:
    regressor, classifier = MDMARegressor(model), MDMAClassifier(model)
    for method in (
        *(regressor.predict, regressor.predict_quantiles, regressor.predict_interval),
        *(classifier.predict, classifier.predict_proba, classifier.predict_log_proba),
        *(MDMAImputer(model).transform, MDMAImputer(model).get_feature_names_out),
        *(MDMAOutlierDetector(model).score_samples, MDMAOutlierDetector(model).explain),
        MDMAOutlierDetector(model).normal_ranges,
    ):
        with pytest.raises(NotFittedError):
            method(iris)


# The imputer ----------------------------------------------------------------------------------


def test_the_imputer_fills_and_names(iris: pd.DataFrame) -> None:
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


def test_the_imputer_fills_columns_without_a_value(iris: pd.DataFrame, model: MDMA) -> None:
    imputer = MDMAImputer(model).fit(iris)
    rows = iris.head(3)
    for holes in (
        rows.drop(columns=["target", PETAL]),
        rows.assign(target=np.nan, **{PETAL: None}),
    ):
        done = imputer.transform(holes)
        assert list(done.columns) == list(iris.columns)
        assert set(done["target"]) == {"setosa"}
        assert done[PETAL].dtype == np.float64


def test_the_imputer_gives_back_what_it_got() -> None:
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


def test_draws_follow_the_random_state(iris: pd.DataFrame, model: MDMA) -> None:
    holes = iris.head(20).assign(**{PETAL: np.nan})
    first, again, other = (
        MDMAImputer(model, method="draw", random_state=seed).fit(iris).transform(holes)
        for seed in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


# The regressor --------------------------------------------------------------------------------


def test_the_regressor_is_the_conditional(iris: pd.DataFrame, model: MDMA) -> None:
    features = iris.drop(columns=PETAL)
    regressor = MDMARegressor(model, target=PETAL).fit(features)
    predicted = regressor.predict(features)
    np.testing.assert_array_equal(predicted, model.mean(PETAL, given=features))
    np.testing.assert_array_equal(regressor.predict(iris), predicted)  # the target is no feature
    assert np.corrcoef(predicted, iris[PETAL])[0, 1] > 0.9
    features.iloc[:, 0] = np.nan
    assert np.isfinite(regressor.predict(features)).all()
    bounds = regressor.predict_interval(features, 0.8)
    inside = (iris[PETAL] > bounds[:, 0]) & (iris[PETAL] < bounds[:, 1])
    assert 0.6 < inside.mean() <= 1
    expected = model.ppf([0.1, 0.9], PETAL, given=features)
    np.testing.assert_array_equal(regressor.predict_quantiles(features, [0.1, 0.9]), expected)
    np.testing.assert_allclose(bounds, expected, rtol=1e-6)


def test_predictions_of_rows_do_not_depend_on_the_others(iris: pd.DataFrame, model: MDMA) -> None:
    regressor = MDMARegressor(model, target=PETAL).fit(iris)
    alone = np.concatenate([regressor.predict(iris.iloc[[i]]) for i in range(0, 150, 10)])
    np.testing.assert_allclose(alone, regressor.predict(iris)[::10], rtol=1e-4)


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


def test_predictors_refuse_targets_that_do_not_fit(iris: pd.DataFrame, model: MDMA) -> None:
    with pytest.raises(ValueError, match="Expected `target` to name the column"):
        MDMAClassifier(model).fit(iris)
    with pytest.raises(TypeError, match="Use MDMAClassifier"):
        MDMARegressor(model, target="target").fit(iris)
    with pytest.raises(TypeError, match="use MDMARegressor"):
        MDMAClassifier(model, target=PETAL).fit(iris)
    with pytest.raises(ValueError, match="Expected column 'target' to hold one of"):
        MDMARegressor(model, target=PETAL).fit(iris).predict(iris.assign(target="rose"))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=str)
@pytest.mark.parametrize("predictor", [MDMARegressor, MDMAClassifier])
def test_gaps_in_the_target_are_refused(predictor: Any, missing: Any) -> None:
    y = pd.Series([1, 2, missing, 1], dtype=object)
    with pytest.raises(ValueError, match="Expected `y` to have no gaps; got 1 missing"):
        predictor(MDMA(**TINY)).fit(np.zeros((4, 1)), y)


# The classifier -------------------------------------------------------------------------------


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
    assert {type(value) for value in classifier.classes_.tolist()} == {
        type(value) for value in labels.tolist()
    }
    assert classifier.predict(x).shape == (60,)


def test_classes_are_sorted_whatever_the_order_of_categories(iris: pd.DataFrame) -> None:
    names = ["virginica", "setosa", "rose", "versicolor"]
    model = MDMA(columns={"target": Categorical(names)}, **TINY).fit(iris)
    classifier = MDMAClassifier(model, target="target").fit(iris)
    assert classifier.classes_.tolist() == sorted(names)
    chance = classifier.predict_proba(iris)
    expected = model.prob({"target": "rose"}, given=iris.drop(columns="target"))
    np.testing.assert_allclose(chance[:, 0], expected, atol=1e-5)
    mixed = MDMA(columns={"y": Categorical(["a", 1])}, **TINY).fit(
        pd.DataFrame({"x": range(20), "y": ["a", 1] * 10})
    )
    assert MDMAClassifier(mixed, target="y").fit(np.zeros((1, 1))).classes_.tolist() == [1, "a"]


# The detector ---------------------------------------------------------------------------------


def test_the_detector_finds_the_odd_row_and_cell(iris: pd.DataFrame, model: MDMA) -> None:
    rows = iris.head(60).copy()
    rows.loc[7, "sepal length (cm)"] = 9.5
    detector = MDMAOutlierDetector(model, contamination=0.05).fit(rows)
    scores = detector.score_samples(rows)
    assert scores.argmin() == 7
    assert detector.predict(rows)[7] == -1
    assert detector.labels_.sum() == 3
    np.testing.assert_array_equal(detector.labels_ == 1, detector.predict(rows) == -1)
    np.testing.assert_array_equal(
        detector.labels_ == 1, detector.decision_scores_ > detector.threshold_
    )
    assert detector.explain(rows).loc[7].idxmax() == "sepal length (cm)"
    gaps = rows.copy()
    gaps.loc[7, "sepal length (cm)"] = np.nan
    gaps.loc[8, "target"] = None
    scores = detector.score_samples(gaps)
    assert scores[7] > -4
    assert np.isnan(detector.explain(gaps).loc[7, "sepal length (cm)"])


def test_scores_of_draws_are_uniform_whatever_the_gaps(model: MDMA) -> None:
    drawn = model.sample(900, random_state=3)
    detector = MDMAOutlierDetector(model).fit(drawn)
    drawn.iloc[:300, 0] = np.nan
    drawn.iloc[300:600, 1:] = np.nan
    tails = np.exp(detector.score_samples(drawn)).reshape(3, 300)
    levels = np.linspace(0.1, 0.9, 9)
    shares = (tails[..., None] <= levels).mean(1)  # (patterns, levels)
    # Five standard errors of a share of 300 rows.
    np.testing.assert_allclose(shares, np.tile(levels, (3, 1)), atol=0.15)
    nothing = pd.DataFrame([dict.fromkeys(drawn.columns)])
    assert detector.score_samples(nothing) == 0


def test_rows_of_categories_tie_with_training_rows() -> None:
    frame = pd.DataFrame({"x": list("aaaaaabbbc") * 10})
    detector = MDMAOutlierDetector(MDMA(**TINY), samples=20_000).fit(frame)
    tails = np.exp(detector.score_samples(pd.DataFrame({"x": list("abc")})))
    np.testing.assert_allclose(tails, [1.0, 0.4, 0.1], atol=0.01)


def test_far_rows_keep_their_order(model: MDMA, iris: pd.DataFrame) -> None:
    detector = MDMAOutlierDetector(model, samples=100).fit(iris)
    far = pd.concat([iris.head(1).assign(**{PETAL: value}) for value in (3.0, 10.0, 30.0, 100.0)])
    assert (np.diff(detector.score_samples(far)) < 0).all()


def test_the_detector_refuses(model: MDMA, iris: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="`contamination`"):
        MDMAOutlierDetector(model, contamination=0.7).fit(iris)
    with pytest.raises(ValueError, match="`samples`"):
        MDMAOutlierDetector(model, samples=0).fit(iris)
    censored = iris.assign(**{PETAL: pd.arrays.IntervalArray.from_breaks(np.arange(151.0))})
    with pytest.raises(TypeError, match="got intervals in column"):
        MDMAOutlierDetector(model).fit(iris).score_samples(censored)
    with pytest.raises(ValueError, match="`level`"):
        MDMAOutlierDetector(model).fit(iris).normal_ranges(iris, level=1.0)


def test_the_default_mixes_coarse_models(iris: pd.DataFrame) -> None:
    rows = iris.iloc[:, :2].copy()
    rows.loc[3, "sepal width (cm)"] = np.nan
    detector = MDMAOutlierDetector().fit(rows)
    assert isinstance(detector.model_.module_, Mixture)
    assert np.isfinite(detector.decision_scores_).all()


def test_scores_with_gaps_do_not_depend_on_the_other_rows(iris: pd.DataFrame, model: MDMA) -> None:
    detector = MDMAOutlierDetector(model).fit(iris)
    holes = iris.mask(np.random.default_rng(0).random(iris.shape) < 0.4)
    every = detector.score_samples(holes)
    alone = [float(detector.score_samples(holes.iloc[[i]])[0]) for i in range(0, 150, 15)]
    np.testing.assert_allclose(alone, every[::15], rtol=1e-3, atol=1e-3)


# Normal ranges --------------------------------------------------------------------------------


def test_normal_ranges_are_conditional_intervals(iris: pd.DataFrame, model: MDMA) -> None:
    rows = iris.iloc[[7, 70, 120]].copy()
    rows.loc[70, "sepal width (cm)"] = np.nan
    detector = MDMAOutlierDetector(model).fit(iris)
    lines = detector.normal_ranges(rows, level=0.8)
    assert list(lines.columns) == ["row", "column", "value", "expected", "lower", "upper", "tail"]
    assert len(lines) == 14  # a line for each known cell
    assert lines["row"].drop_duplicates().tolist() == [7, 70, 120]
    assert lines["column"].head(5).tolist() == list(iris.columns)
    for name in (PETAL, "sepal length (cm)"):
        rest = rows.drop(columns=name)
        expected = model.ppf([0.5, 0.1, 0.9], name, given=rest)
        here = lines[lines["column"] == name]
        found = here[["expected", "lower", "upper"]].to_numpy(dtype=float)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        below = model.cdf(rows[[name]], given=rest)
        both = 2 * np.minimum(below, 1 - below)
        np.testing.assert_allclose(here["tail"].to_numpy(dtype=float), both, rtol=1e-3, atol=1e-5)


def test_normal_ranges_of_categories_and_integers(iris: pd.DataFrame, model: MDMA) -> None:
    rows = iris.iloc[[7]].assign(target="virginica")
    line = (
        MDMAOutlierDetector(model).fit(iris).normal_ranges(rows).set_index("column").loc["target"]
    )
    assert (line["value"], line["expected"]) == ("virginica", "setosa")
    assert line["lower"] is None
    chance = model.prob({"target": "virginica"}, given=rows.drop(columns="target"))
    assert line["tail"] == pytest.approx(float(chance[0]), abs=1e-5)
    table = pd.DataFrame({"n": [0, 1, 1, 2, 2, 3] * 10, "x": np.linspace(0, 1, 60)})
    counts = MDMAOutlierDetector(MDMA(columns={"n": Integer()}, **TINY)).fit(table)
    lines = counts.normal_ranges(table.head(2))
    here = lines[lines["column"] == "n"]
    assert all(float(value) == round(float(value)) for value in here["lower"])
    assert ((here["tail"] > 0) & (here["tail"] <= 1)).all()
    blank = pd.DataFrame({"n": [None], "x": [None]})
    assert counts.normal_ranges(blank).empty
