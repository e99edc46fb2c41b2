"""Every query and estimator works on a GPU, where the default puts its model.

Without a GPU, queries run on a device that is made up: see `other_device.py`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import (
    MDMA,
    MDMAClassifier,
    MDMAImputer,
    MDMAOutlierDetector,
    MDMARegressor,
    cross_fit,
    load,
)
from marginals.columns.encoding import encode
from marginals.selection.answers import answer_scores
from marginals.training.batches import Rows
from tests.other_device import elsewhere, moved

GPU = torch.cuda.is_available()
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not GPU, reason="There is no CUDA device.")]
QUICK: dict[str, Any] = {"random_state": 0, "progress": False, "max_seconds": 2, "n_jobs": 1}


def on_a_gpu(test: Any) -> Any:
    """Mark a test that fits on a GPU."""
    for mark in needs_gpu:
        test = mark(test)
    return test


PLACES = [pytest.param("cuda", marks=needs_gpu), "elsewhere"]
pytestmark = pytest.mark.filterwarnings("default")


def table(rows: int = 300, gaps: float = 0.0) -> pd.DataFrame:
    """Return numbers, counts with zeros, parts of a sum, atoms, categories and dates."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
    parts = rng.dirichlet([5, 4, 6], rows).round(3)
    frame = pd.DataFrame(
        {
            "x": size,
            "y": 2 * size + 0.3 * rng.normal(size=rows),
            "count": rng.poisson(np.exp(0.5 + 0.4 * size)),
            "rain": np.where(rng.random(rows) < 0.4, 0.0, rng.exponential(3, rows)).round(2),
            "sand": parts[:, 0],
            "clay": parts[:, 1],
            "few": rng.choice([1.0, 2.0, 5.0], rows),
            "kind": np.where(size + rng.normal(size=rows) > 0, "a", "b"),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
        }
    )
    return frame.mask(rng.random(frame.shape) < gaps) if gaps else frame


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """Return models that are fitted once, by place."""
    return {}


@pytest.fixture(params=PLACES)
def model(request: Any, fitted: dict[str, Any]) -> Iterator[Any]:
    place = request.param
    if place not in fitted:
        device = "cpu" if place == "elsewhere" else place
        fitted[place] = MDMA(device=device, **QUICK).fit(table(gaps=0.1))
        assert len(fitted[place].members_) > 1
        if place == "elsewhere":
            moved(fitted[place].module_)
    if place == "cuda":
        yield fitted[place]
        return
    with elsewhere():
        yield fitted[place]


def test_values_and_summaries(model: Any) -> None:
    frame = table(9, gaps=0.2)
    assert np.isfinite(model.score_samples(frame)).all()
    given = {"x": 0.3, "kind": "a"}
    ranges = {"count": (2, None), "rain": (0, 3), "kind": {"a", "b"}}
    for known in (given, ranges):
        assert 0 < model.prob({"y": (0, None), "few": {1, 2}}, given=known) < 1
        assert np.isfinite(model.ppf([0.05, 0.5, 0.95], "y", given=known)).all()
        assert np.isfinite(model.mean("y", given=known))
        assert np.isfinite(model.std("y", given=known))
        assert len(model.sample(50, given=known, random_state=0)) == 50
    assert np.isfinite(model.mean("count", given=frame[["x", "rain", "sand"]])).all()


def test_filled_cells(model: Any) -> None:
    frame = table(4, gaps=0.2)
    for method in ("mean", "median", "mode", "draw"):
        assert not model.impute(frame, method).isna().any(axis=None)
    assert len(model.impute_interval(frame.iloc[:2], 0.9))


def test_answers_of_held_out_rows(model: Any) -> None:
    frame = table(60, gaps=0.1)
    evidence = encode(model.schema_, frame).evidence
    place = next(model.module_.parameters()).device
    rows = Rows(evidence.to(place, torch.float32), torch.ones(len(frame), device=place))
    scores = answer_scores(model.module_, rows, rows)
    assert len(scores) == len(frame)
    assert 0 < float(scores.mean()) < 0.2


def test_dependence(model: Any) -> None:
    assert np.isfinite(model.mutual_information("x", "y").value)
    assert model.independence_test("x", "y").pvalue < 0.01
    assert np.isfinite(model.entropy(["x", "kind"]).value)
    assert np.isfinite(model.averaged().mean("y", given=table(10)[["x", "kind"]])).all()


def test_copulas_and_margins(model: Any) -> None:
    copula = model.copula(["x", "y"])
    assert -1 < copula.kendall_tau("x", "y", points=64).value < 1
    assert 0 < copula.cdf({"x": 0.3, "y": 0.6}) < 0.3
    assert copula.pdf({"x": 0.3, "y": 0.6}) > 0
    assert len(copula.sample(20, random_state=0)) == 20
    assert np.isfinite(model.corr(["x", "count"]).to_numpy()).all()
    assert model.count("x > 0, kind = a").value > 0
    assert np.isfinite(model.query("Q[0.9](y | x = 0.2, rain < 3)"))


def test_reports(model: Any) -> None:
    frame = table(3, gaps=0.2)
    assert np.isfinite(model.surprise(frame).to_numpy(float)[frame.notna().to_numpy()]).all()
    assert str(model.score_conditional(frame))


@on_a_gpu
def test_the_check() -> None:
    model = MDMA(**QUICK).fit(table(gaps=0.1))
    assert str(model.check(table(200), questions=10, progress=False))


def test_predictors_of_a_fitted_model(model: Any) -> None:
    frame = table(15)
    regressor = MDMARegressor(model, target="y").fit(frame)
    assert np.isfinite(regressor.predict(frame.drop(columns="y"))).all()
    assert regressor.predict_quantiles(frame.drop(columns="y"), [0.1, 0.9]).shape == (15, 2)
    classifier = MDMAClassifier(model, target="kind").fit(frame)
    chances = classifier.predict_proba(frame.drop(columns="kind"))
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-4)


def test_outliers_of_a_fitted_model(model: Any) -> None:
    frame = table(3, gaps=0.2)
    detector = MDMAOutlierDetector(model, random_state=0).fit(frame)
    assert np.isfinite(detector.score_samples(frame)).all()
    assert len(detector.blame(frame.iloc[:20]))


def test_files(model: Any, tmp_path: Any) -> None:
    frame = table(9, gaps=0.2)
    model.save(tmp_path / "model.mdma")
    again = load(tmp_path / "model.mdma")
    np.testing.assert_allclose(again.score_samples(frame), model.score_samples(frame), atol=1e-3)


@on_a_gpu
@pytest.mark.parametrize("novelty", [True, False])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_the_outlier_detector(novelty: bool, gaps: float) -> None:
    frame = table(300, gaps)
    detector = MDMAOutlierDetector(novelty=novelty, random_state=0).fit(frame)
    assert np.isfinite(detector.score_samples(frame)).all()
    assert len(detector.blame(frame.iloc[:20]))


@on_a_gpu
def test_the_imputer() -> None:
    frame = table(300, 0.2)
    imputer = MDMAImputer(MDMA(**QUICK)).fit(frame)
    assert not imputer.transform(frame).isna().any(axis=None)
    assert imputer.transform_interval(frame.iloc[:5], 0.9)


@on_a_gpu
def test_the_predictors() -> None:
    frame = table(300)
    features = frame.drop(columns=["y", "kind"])
    regressor = MDMARegressor(MDMA(**QUICK)).fit(features, frame["y"])
    assert np.isfinite(regressor.predict(features.iloc[:20])).all()
    assert regressor.predict_quantiles(features.iloc[:20], [0.1, 0.9]).shape == (20, 2)
    classifier = MDMAClassifier(MDMA(**QUICK)).fit(features, frame["kind"])
    np.testing.assert_allclose(classifier.predict_proba(features.iloc[:20]).sum(1), 1, atol=1e-4)


@on_a_gpu
def test_cross_fitting_and_updates() -> None:
    frame = table(300)[["x", "y", "count"]]
    assert cross_fit(frame, random_state=0).independence_test("x", "y").pvalue < 0.01
    model = MDMA(width=4, max_steps=20, random_state=0, progress=False).fit(frame)
    model.update(table(350)[["x", "y", "count"]])
    assert np.isfinite(model.score(frame))


@on_a_gpu
def test_a_focus_and_averaged_answers() -> None:
    frame = table(300)
    model = MDMA(focus="y", **QUICK).fit(frame)
    assert np.isfinite(model.averaged().mean("y", given=frame[["x", "kind"]].iloc[:10])).all()
