"""Categories not seen in training: refused, or cells that are not observed."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from marginals import (
    MDMA,
    Categorical,
    Discrete,
    MDMAClassifier,
    MDMAImputer,
    MDMAOutlierDetector,
    MDMARegressor,
    load,
)

OPTIONS: dict[str, Any] = {"width": 3, "max_steps": 10, "random_state": 0}


def table(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=rows),
            "city": rng.choice(["Oslo", "Bergen"], rows),
            "grade": pd.Categorical(rng.choice(list("abc"), rows), ordered=True),
        }
    )


@pytest.fixture(scope="module")
def model() -> MDMA:
    return MDMA(**OPTIONS).fit(table())


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return pd.DataFrame({"x": [0.5, np.nan], "city": ["Rome", "Oslo"]})


@pytest.fixture(scope="module")
def gaps(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(city=[None, "Oslo"])


def lenient(model: MDMA) -> MDMA:
    other = MDMA(**OPTIONS, handle_unknown="missing")
    other.module_, other.schema_, other._fitted_kind = model.module_, model.schema_, "frame"
    return other


def test_tables_and_evidence(model: MDMA, rows: pd.DataFrame, gaps: pd.DataFrame) -> None:
    soft = lenient(model)
    for ask in (
        lambda m, r: m.score_samples(r),
        lambda m, r: m.logpdf(r),
        lambda m, r: m.mean("x", given=r[["city"]]),
        lambda m, r: m.probabilities("grade", given=r).to_numpy(),
        lambda m, r: m.surprise(r).to_numpy(),
        lambda m, r: m.sample(3, given=r[["city"]], random_state=0)["x"].to_numpy(),
    ):
        with pytest.raises(ValueError, match=r"'Rome'.*handle_unknown='missing'"):
            ask(model, rows)
        np.testing.assert_array_equal(ask(soft, rows), ask(model, gaps))
    assert soft.mean("x", given={"city": "Rome"}) == model.mean("x")
    assert soft.mean("x", given={"city": {"Rome", "Oslo"}}) == model.mean(
        "x", given={"city": {"Oslo"}}
    )
    assert soft.mean("x", given={"city": {"Rome"}}) == model.mean("x")
    view = soft.condition({"grade": "a"})
    assert view.mean("x", given={"city": "Rome"}) == view.mean("x")


def test_events_and_query_strings_refuse_them_always(model: MDMA) -> None:
    soft = lenient(model)
    for ask in (
        lambda: soft.prob({"city": "Rome"}),
        lambda: soft.prob({"city": {"Rome", "Oslo"}}),
        lambda: soft.cdf({"grade": "z"}),
        lambda: soft.query("E[x | city = Rome]"),
    ):
        with pytest.raises(ValueError, match=r"Rome|'z'"):
            ask()


def test_impute_keeps_what_it_does_not_know(model: MDMA, rows: pd.DataFrame) -> None:
    done = lenient(model).impute(rows)
    assert list(done["city"]) == ["Rome", "Oslo"]
    assert done["x"].notna().all()
    drawn = lenient(model).impute(rows, "draw", random_state=0)
    assert list(drawn["city"]) == ["Rome", "Oslo"]
    imputer = MDMAImputer(model, handle_unknown="missing").fit(table())
    assert list(imputer.transform(rows)["city"]) == ["Rome", "Oslo"]
    lower, upper = imputer.transform_interval(rows)
    assert lower["x"].iloc[1] < upper["x"].iloc[1]
    with pytest.raises(ValueError, match="Rome"):
        MDMAImputer(model).fit(table()).transform(rows)


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        (lambda m, h: MDMARegressor(m, target="x", handle_unknown=h), "predict"),
        (lambda m, h: MDMAClassifier(m, target="grade", handle_unknown=h), "predict_proba"),
        (lambda m, h: MDMAOutlierDetector(m, samples=50, handle_unknown=h), "score_samples"),
        (lambda m, h: MDMAOutlierDetector(m, samples=50, handle_unknown=h), "normal_ranges"),
    ],
)
def test_estimators(
    model: MDMA, rows: pd.DataFrame, gaps: pd.DataFrame, kind: Any, ask: str
) -> None:
    hard, soft = kind(model, "error").fit(table()), kind(model, "missing").fit(table())
    with pytest.raises(ValueError, match="Rome"):
        getattr(hard, ask)(rows)
    found, wanted = getattr(soft, ask)(rows), getattr(hard, ask)(gaps)
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(wanted))
    by_model = kind(lenient(model), "error").fit(table())
    pd.testing.assert_frame_equal(pd.DataFrame(getattr(by_model, ask)(rows)), pd.DataFrame(found))
    with pytest.raises(ValueError, match="`handle_unknown` to be 'error' or 'missing'"):
        getattr(kind(model, "ignore").fit(table()), ask)(rows)


def test_fit_and_files(tmp_path: Any) -> None:
    frame, kinds = table(), {"city": Categorical(["Oslo"])}
    with pytest.raises(ValueError, match="Bergen"):
        MDMA(**OPTIONS, columns=kinds).fit(frame)
    with pytest.raises(ValueError, match="handle_unknown"):
        MDMA(**OPTIONS, handle_unknown="ignore").fit(frame)
    model = MDMA(**OPTIONS, columns=kinds, handle_unknown="missing").fit(
        frame, validation=frame.assign(city="Rome").head()
    )
    model.save(tmp_path / "m.mdma")
    again = load(tmp_path / "m.mdma")
    assert isinstance(again, MDMA)
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    again.set_params(handle_unknown="error")
    with pytest.raises(ValueError, match="Bergen"):
        again.score_samples(frame)


# Ordered categories -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"width": 3, "max_steps": 10}, {"effort": "quick"}])
def test_quantiles_of_ordered_categories(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    sizes = ["small", "medium", "large"]
    frame = pd.DataFrame(
        {"size": rng.choice(sizes, 200, p=[0.2, 0.5, 0.3]), "x": rng.normal(size=200)}
    )
    kinds = {"size": Categorical(sizes, ordered=True)}
    model = MDMA(**options, columns=kinds, random_state=0).fit(frame)
    shares = model.probabilities("size", given={"x": 0.3})
    assert list(shares.index) == sizes
    for level in (0.05, 0.5, 0.95):
        wanted = sizes[int(np.searchsorted(shares.cumsum(), level))]
        assert model.ppf(level, "size", given={"x": 0.3}) == wanted
        assert model.query(f"Q[{level}](size | x = 0.3)").value == wanted
    found = model.ppf([0.05, 0.5], "size", given=frame[["x"]].head(4))
    assert found.shape == (4, 2)
    assert model.cdf({"size": "medium"}) == pytest.approx(model.prob({"size": {"small", "medium"}}))
    assert model.impute(frame.assign(size=None).head(2), "median")["size"].isin(sizes).all()


def test_numbers_that_no_row_had_are_predicted_from() -> None:
    """A kind that was inferred, and not declared, may not make a prediction fail."""
    rng = np.random.default_rng(0)
    age = rng.choice([1, 3, 7, 14, 28, 56, 90, 100], 300)
    x = pd.DataFrame({"age": age, "size": rng.exponential(size=300).round(2) + 0.01})
    y = np.log(age) + 0.1 * rng.normal(size=300)
    small = MDMA(width=4, max_steps=30, random_state=0)
    smooth = MDMARegressor(small).fit(x, y).predict(pd.DataFrame({"age": [6, 365], "size": 1.0}))
    assert np.isfinite(smooth).all()
    regressor = MDMARegressor(small, average=False).fit(x, y)
    assert isinstance(regressor.model_.schema_["age"].kind, Discrete)
    new = pd.DataFrame({"age": [6, 7, 365, 100, None], "size": [1.0, 1.0, 1.0, 1.0, 1.0]})
    found = regressor.predict(new)
    assert found[0] == found[1]
    assert found[2] == found[3]
    beyond = regressor.predict(pd.DataFrame({"age": [7, 7], "size": [-3.0, None]}))
    assert beyond[0] == beyond[1]
    declared = MDMARegressor(clone(small).set_params(columns={"age": Discrete()})).fit(x, y)
    with pytest.raises(ValueError, match="'age' to hold one of 1, 3"):
        declared.predict(new)
    imputer = MDMAImputer(small, average=False).fit(x)
    holes = pd.DataFrame({"age": [6.0, np.nan, 365.0], "size": [np.nan, -3.0, 1.0]})
    filled = imputer.transform(holes)
    assert not filled.isna().any(axis=None)
    assert filled.dtypes.eq(float).all()
    pd.testing.assert_frame_equal(filled.where(holes.notna()), holes)
    lower, upper = imputer.transform_interval(holes)
    assert lower.loc[0, "age"] == upper.loc[0, "age"] == 6
    assert lower.loc[0, "size"] < upper.loc[0, "size"]
