"""The outlier detector: fair to rows with gaps, and right about the cell to blame."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from marginals import MDMA, Integer, MDMAOutlierDetector, Mixture
from marginals.columns import encode
from tests.estimators.conftest import PETAL, TINY

LENGTH = "sepal length (cm)"


def test_the_detector_finds_the_odd_row_and_cell(iris: pd.DataFrame, model: MDMA) -> None:
    rows = iris.head(60).copy()
    rows.loc[7, LENGTH] = 9.5
    detector = MDMAOutlierDetector(model, contamination=0.05).fit(rows)
    assert detector.score_samples(rows).argmin() == 7
    outliers = detector.labels_ == 1
    assert outliers.sum() == 3
    assert detector.predict(rows)[7] == -1
    np.testing.assert_array_equal(outliers, detector.predict(rows) == -1)
    np.testing.assert_array_equal(outliers, detector.decision_scores_ > detector.threshold_)
    assert detector.explain(rows).loc[7].idxmax() == LENGTH
    blamed, lines = detector.blame(rows), detector.normal_ranges(rows)
    assert blamed.loc[7, "column"] == LENGTH
    assert blamed["tail"].tolist() == lines.groupby("row")["tail"].min().tolist()
    gaps = rows.copy()
    gaps.loc[7, LENGTH] = np.nan
    gaps.loc[8, "target"] = None
    assert detector.score_samples(gaps)[7] > -4
    assert np.isnan(detector.explain(gaps).loc[7, LENGTH])
    far = pd.concat([iris.head(1).assign(**{PETAL: value}) for value in (3.0, 10.0, 30.0, 100.0)])
    assert (np.diff(detector.score_samples(far)) < 0).all()


def test_scores_are_uniform_whatever_the_gaps(model: MDMA, iris: pd.DataFrame) -> None:
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
    assert detector.blame(nothing)["column"].isna().all()
    holes = iris.mask(np.random.default_rng(0).random(iris.shape) < 0.4)
    every = detector.score_samples(holes)  # each row's own, whatever the others
    alone = [float(detector.score_samples(holes.iloc[[i]])[0]) for i in range(0, 150, 15)]
    np.testing.assert_allclose(alone, every[::15], rtol=1e-3, atol=1e-3)


def test_categories_tie_and_the_default_mixes_coarse_models(iris: pd.DataFrame) -> None:
    frame = pd.DataFrame({"x": list("aaaaaabbbc") * 10})
    detector = MDMAOutlierDetector(MDMA(**TINY), samples=20_000).fit(frame)
    tails = np.exp(detector.score_samples(pd.DataFrame({"x": list("abc")})))
    np.testing.assert_allclose(tails, [1.0, 0.4, 0.1], atol=0.01)
    rows = iris.iloc[:, :2].copy()
    rows.loc[3, "sepal width (cm)"] = np.nan
    detector = MDMAOutlierDetector().fit(rows)
    assert isinstance(detector.model_.module_, Mixture)
    assert np.isfinite(detector.decision_scores_).all()


def clouds_and(outliers: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three narrow clouds along different directions, then outliers; and the labels."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(240, 4)) * np.array([2.0, 0.2, 0.2, 2.0])
    turns = [np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(3)]
    parts = [part @ turn for part, turn in zip(np.split(points, 3), turns, strict=True)]
    return np.concatenate([*parts, outliers]), np.repeat([0, 1], [240, len(outliers)])


@pytest.mark.parametrize(
    ("kind", "protocol"), [("tight", "semi-supervised"), ("spread", "unsupervised")]
)
def test_tight_and_spread_outliers_are_found(kind: str, protocol: str) -> None:
    rng = np.random.default_rng(1)
    tight = np.array([1.5, 1.5, -1.5, 1.5]) + 0.05 * rng.normal(size=(12, 4))
    rows, labels = clouds_and(tight if kind == "tight" else rng.uniform(-5, 5, size=(12, 4)))
    train = rows if protocol == "unsupervised" else rows[labels == 0]
    found = -MDMAOutlierDetector(random_state=0).fit(train).score_samples(rows)
    forest = -IsolationForest(random_state=0).fit(train).score_samples(rows)
    ours, other = (roc_auc_score(labels, scores) for scores in (found, forest))
    assert ours > max(0.85, other)


@pytest.mark.parametrize("novelty", [False, True])
def test_a_row_among_others_but_near_none_is_odd(novelty: bool) -> None:
    rng = np.random.default_rng(0)
    turn = rng.uniform(0, 2 * np.pi, 300)
    ring = np.column_stack([np.cos(turn), np.sin(turn)]) + 0.03 * rng.normal(size=(300, 2))
    detector = MDMAOutlierDetector(novelty=novelty, random_state=0).fit(ring[:200])
    rows = np.concatenate([ring[200:], 0.1 * rng.normal(size=(20, 2))])
    found = -detector.score_samples(rows)
    assert roc_auc_score(np.repeat([0, 1], [100, 20]), found) > 0.97
    assert (detector.predict([[np.nan, 0.0], [0.0, np.nan]]) == 1).all()  # each alone is ordinary


def test_a_pair_of_outliers_is_normal_only_where_all_training_rows_are(model: MDMA) -> None:
    rows = model.sample(300, random_state=0)
    odd = pd.concat([rows.head(1).assign(**{PETAL: 40.0, LENGTH: 40.0})] * 4)
    train = pd.concat([rows, odd], ignore_index=True)
    contaminated, clean = (MDMAOutlierDetector(model, novelty=n).fit(train) for n in (False, True))
    assert contaminated._tails.views == ("joint", "tails", "near")
    assert clean._tails.views == ("joint", "near")
    near = [
        float(d._tails._seen(encode(model.schema_, odd.head(1)).evidence)[0, -1])
        for d in (contaminated, clean)
    ]
    assert near[0] > 1
    assert near[1] == 0


def test_far_out_stays_far_on_large_tables() -> None:
    rng = np.random.default_rng(0)
    heavy = rng.lognormal(sigma=1.5, size=(6000, 2))
    detector = MDMAOutlierDetector(random_state=0).fit(heavy)
    assert all(column.scores is None for column in detector.model_.schema_)
    most = heavy.max(0)
    assert (np.diff(detector.score_samples([most, 3 * most, 30 * most])) < 0).all()


def test_the_detector_refuses(model: MDMA, iris: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="`contamination`"):
        MDMAOutlierDetector(model, contamination=0.7).fit(iris)
    with pytest.raises(ValueError, match="`samples`"):
        MDMAOutlierDetector(model, samples=0).fit(iris)
    detector = MDMAOutlierDetector(model).fit(iris)
    censored = iris.assign(**{PETAL: pd.arrays.IntervalArray.from_breaks(np.arange(151.0))})
    with pytest.raises(TypeError, match="got intervals in column"):
        detector.score_samples(censored)
    with pytest.raises(ValueError, match="`level`"):
        detector.normal_ranges(iris, level=1.0)


def test_normal_ranges_are_conditional_intervals(iris: pd.DataFrame, model: MDMA) -> None:
    rows = iris.iloc[[7, 70, 120]].copy()
    rows.loc[70, "sepal width (cm)"] = np.nan
    detector = MDMAOutlierDetector(model).fit(iris)
    lines = detector.normal_ranges(rows, level=0.8)
    assert list(lines.columns) == ["row", "column", "value", "expected", "lower", "upper", "tail"]
    assert len(lines) == 14  # a line for each observed cell
    assert lines["row"].drop_duplicates().tolist() == [7, 70, 120]
    assert lines["column"].head(5).tolist() == list(iris.columns)
    for name in (PETAL, LENGTH):
        rest = rows.drop(columns=name)
        expected = model.ppf([0.5, 0.1, 0.9], name, given=rest)
        here = lines[lines["column"] == name]
        found = here[["expected", "lower", "upper"]].to_numpy(dtype=float)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        below = model.cdf(rows[[name]], given=rest)
        above = 1 - below + model.pdf(rows[[name]], given=rest)  # the table's lengths are on a grid
        both = np.minimum(1, 2 * np.minimum(below, above))
        np.testing.assert_allclose(here["tail"].to_numpy(dtype=float), both, rtol=1e-3, atol=1e-5)
    odd = rows.iloc[[0]].assign(target="virginica")
    line = detector.normal_ranges(odd).set_index("column").loc["target"]
    assert (line["value"], line["expected"], line["lower"]) == ("virginica", "setosa", None)
    chance = model.prob({"target": "virginica"}, given=odd.drop(columns="target"))
    assert line["tail"] == pytest.approx(float(chance[0]), abs=1e-5)


def test_normal_ranges_of_integers() -> None:
    table = pd.DataFrame({"n": [0, 1, 1, 2, 2, 3] * 10, "x": np.linspace(0, 1, 60)})
    counts = MDMAOutlierDetector(MDMA(columns={"n": Integer()}, **TINY)).fit(table)
    lines = counts.normal_ranges(table.head(2))
    here = lines[lines["column"] == "n"]
    assert all(float(value) == round(float(value)) for value in here["lower"])
    assert ((here["tail"] > 0) & (here["tail"] <= 1)).all()
    assert counts.normal_ranges(pd.DataFrame({"n": [None], "x": [None]})).empty
