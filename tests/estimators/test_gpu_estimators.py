"""Every estimator and query works on a GPU, where the default puts its model."""

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

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no CUDA device."),
    pytest.mark.filterwarnings("default"),
]
QUICK: dict[str, Any] = {"random_state": 0, "progress": False, "max_seconds": 3}


def table(rows: int = 400, gaps: float = 0.0) -> pd.DataFrame:
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


@pytest.fixture(scope="module", params=["fast", "balanced", "best", "quick"])
def model(request: Any) -> Any:
    found = MDMA(effort=request.param, **QUICK).fit(table(gaps=0.1))
    assert next(found.module_.parameters()).is_cuda
    return found


def test_queries(model: Any, tmp_path: Any) -> None:
    frame = table(60, gaps=0.2)
    assert np.isfinite(model.score_samples(frame)).all()
    given = {"x": 0.3, "kind": "a"}
    ranges = {"count": (2, None), "rain": (0, 3), "kind": {"a", "b"}}
    for known in (None, given, ranges):
        assert 0 < model.prob({"y": (0, None), "few": {1, 2}}, given=known) < 1
        assert np.isfinite(model.ppf([0.05, 0.5, 0.95], "y", given=known)).all()
        assert np.isfinite(model.mean("y", given=known))
        assert np.isfinite(model.std("y", given=known))
        assert len(model.sample(50, given=known, random_state=0)) == 50
    assert np.isfinite(model.mean("count", given=frame[["x", "rain", "sand"]])).all()
    for method in ("mean", "median", "mode", "draw"):
        assert not model.impute(frame, method).isna().any(axis=None)
    assert len(model.impute_interval(frame, 0.9))
    assert np.isfinite(model.mutual_information("x", "y").value)
    assert model.independence_test("x", "y").pvalue < 0.01
    assert np.isfinite(model.surprise(frame).to_numpy(float)[frame.notna().to_numpy()]).all()
    assert str(model.score_conditional(frame))
    assert str(model.check(table(200), questions=10, progress=False))
    model.save(tmp_path / "model.mdma")
    again = load(tmp_path / "model.mdma")
    np.testing.assert_allclose(again.score_samples(frame), model.score_samples(frame), atol=1e-3)


@pytest.mark.parametrize("novelty", [True, False])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_the_outlier_detector(novelty: bool, gaps: float) -> None:
    frame = table(300, gaps)
    detector = MDMAOutlierDetector(novelty=novelty, random_state=0).fit(frame)
    assert np.isfinite(detector.score_samples(frame)).all()
    assert len(detector.blame(frame.iloc[:20]))


def test_the_imputer() -> None:
    frame = table(300, 0.2)
    imputer = MDMAImputer(MDMA(**QUICK)).fit(frame)
    assert not imputer.transform(frame).isna().any(axis=None)
    assert imputer.transform_interval(frame.iloc[:30], 0.9)


def test_the_predictors() -> None:
    frame = table(300)
    features = frame.drop(columns=["y", "kind"])
    regressor = MDMARegressor(MDMA(**QUICK)).fit(features, frame["y"])
    assert np.isfinite(regressor.predict(features.iloc[:20])).all()
    assert regressor.predict_quantiles(features.iloc[:20], [0.1, 0.9]).shape == (20, 2)
    classifier = MDMAClassifier(MDMA(**QUICK)).fit(features, frame["kind"])
    np.testing.assert_allclose(classifier.predict_proba(features.iloc[:20]).sum(1), 1, atol=1e-4)


def test_cross_fitting_and_updates() -> None:
    frame = table(300)[["x", "y", "count"]]
    assert cross_fit(frame, random_state=0).independence_test("x", "y").pvalue < 0.01
    model = MDMA(width=4, max_steps=20, random_state=0, progress=False).fit(frame)
    model.update(table(350)[["x", "y", "count"]])
    assert np.isfinite(model.score(frame))


def test_a_focus_and_averaged_answers() -> None:
    frame = table(300)
    model = MDMA(focus="y", **QUICK).fit(frame)
    assert np.isfinite(model.averaged().mean("y", given=frame[["x", "kind"]].iloc[:10])).all()
