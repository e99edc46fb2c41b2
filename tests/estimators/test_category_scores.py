"""Scores of categories: one number by which components couple categories with a target."""

import numpy as np
import pandas as pd

from marginals import MDMA, MDMARegressor
from marginals.columns import infer
from marginals.estimators.category_scores import fit_category_scores

MOVES = {"s": 0.0, "m": 1.0, "l": 2.0}


def make(rows: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    # Larger sizes have smaller x, which hides what they do to the target.
    size = rng.choice(list(MOVES), rows)
    x = rng.normal(size=rows) - pd.Series(size).map(MOVES).to_numpy()
    y = pd.Series(x + pd.Series(size).map(MOVES).to_numpy() + 0.1 * rng.normal(size=rows))
    return pd.DataFrame({"size": size, "x": x, "z": rng.normal(size=rows)}), y


def test_scores_are_moves_with_other_columns_equal() -> None:
    frame, y = make()
    found = fit_category_scores(infer(frame), frame, y.to_numpy())
    assert found is not None
    scores, apart = found
    own = [scores.columns["size"][value] for value in MOVES]
    np.testing.assert_allclose(np.diff(own) / np.diff(own).mean(), 1, atol=0.2)
    sums = scores(infer(frame), frame)
    assert np.corrcoef(sums, apart)[0, 1] > 0.99
    holes = frame.mask(np.arange(len(frame))[:, None] < [5, 0, 0])
    np.testing.assert_array_equal(np.isnan(scores(infer(frame), holes)), np.arange(len(frame)) < 5)
    with_gaps = fit_category_scores(infer(holes), holes, y.to_numpy())
    assert with_gaps is not None
    np.testing.assert_array_equal(np.isnan(with_gaps[1]), np.arange(len(frame)) < 5)


def test_rows_do_not_score_by_their_own_target() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": rng.integers(0, 40, 200).astype(str)})
    y = rng.normal(size=200)
    found = fit_category_scores(infer(frame), frame, y)
    assert found is not None
    assert np.corrcoef(found[0](infer(frame), frame), y)[0, 1] > 0.3
    assert np.corrcoef(found[1], y)[0, 1] < 0.2


def test_tables_without_scores() -> None:
    frame, y = make()
    numbers = frame.drop(columns="size")
    assert fit_category_scores(infer(numbers), numbers, y.to_numpy()) is None
    assert fit_category_scores(infer(frame.head(5)), frame.head(5), y.to_numpy()[:5]) is None
    names = pd.DataFrame({"name": [f"n{i}" for i in range(len(y))]})
    assert fit_category_scores(infer(names), names, y.to_numpy()) is None


def test_regressors_use_scores() -> None:
    frame, y = make()
    model = MDMA(tensor="copula", width=1, max_steps=30, learning_rate=0.1, random_state=0)
    regressor = MDMARegressor(model, handle_unknown="missing").fit(frame, y)
    assert regressor.scores_ is not None
    assert regressor.scores_.name in regressor.model_.schema_.names
    assert regressor.feature_names_in_.tolist() == frame.columns.tolist()
    plain = MDMARegressor(model, average=False).fit(frame, y)
    assert plain.scores_ is None
    errors = [float(np.std(each.predict(frame) - y)) for each in (regressor, plain)]
    assert errors[0] < 0.8 * errors[1]
    some = frame.head(3).assign(size=["s", None, "huge"])
    assert np.isfinite(regressor.predict(some)).all()
    assert regressor.predict_quantiles(frame.head(2)[["x"]]).shape == (2, 3)
    again = MDMARegressor(regressor.model_, target=regressor.target_).fit(frame)
    assert again.scores_ is None
