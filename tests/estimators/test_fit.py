"""Fitting tables: weights, censored cells, efforts, and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import marginals
from marginals import MDMA, Continuous, Discrete, Integer, MDMAImputer, MDMARegressor, Tree
from marginals.densities import Mixture
from marginals.estimators.member_list import MemberList
from marginals.queries import TableView

SMALL: dict[str, Any] = {"width": 4, "max_steps": 60, "random_state": 0}


def make(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": a + rng.normal(size=rows), "c": rng.choice(["u", "v"], rows)})


# One model ------------------------------------------------------------------------------------


def test_weights_and_validation_rows() -> None:
    frame, held = make(), make(40)
    heavy = np.where(frame["a"] > 0, 10.0, 0.1)
    plain = MDMA(**SMALL).fit(frame, validation=held)
    assert MDMA(**SMALL).fit(frame, sample_weight=heavy).mean("a") > plain.mean("a") + 0.3
    # The loss is that of the model's scale, from which the log-Jacobian parts the score.
    jacobian = np.log([plain.schema_["a"].scale, plain.schema_["b"].scale]).sum()
    assert plain.result_.best_loss == pytest.approx(-plain.score(held) - jacobian, abs=1e-3)
    assert len(plain.mean("a", given=frame.head(0)[["b"]])) == 0


def test_censored_cells() -> None:
    rng = np.random.default_rng(0)
    time = rng.exponential(10, 300)
    lower = pd.DataFrame({"t": np.minimum(time, 8.0), "z": rng.normal(size=300)})
    upper = lower.assign(t=np.where(time > 8, np.inf, time))
    model = MDMA(width=8, max_steps=150, random_state=0).fit(lower, upper=upper)
    # The share beyond the censoring point is known exactly, where in it is not.
    assert model.prob({"t": (8, None)}) == pytest.approx((time > 8).mean(), abs=0.08)
    blind = MDMA(width=8, max_steps=150, random_state=0).fit(lower)
    assert model.mean("t") > blind.mean("t")
    low = rng.normal(size=100)  # a column of intervals means the same
    frame = pd.DataFrame({"t": pd.arrays.IntervalArray.from_arrays(low, low + 0.5), "z": low})
    assert np.isfinite(MDMA(**SMALL).fit(frame).score(frame))


def test_kinds_override_inference_and_arrays_are_read_by_position() -> None:
    frame = pd.DataFrame({"n": np.random.default_rng(0).poisson(3, 100).astype(float)})
    model = MDMA(**SMALL, columns={"n": Integer(lower=0)}).fit(frame)
    assert model.pdf(pd.DataFrame({"n": np.arange(100.0)})).sum() == pytest.approx(1, abs=1e-4)
    frame = make().drop(columns="c").set_axis([1, 0], axis=1)
    model = MDMA(**SMALL).fit(frame)
    assert model.score(frame.to_numpy()) == pytest.approx(model.score(frame))


def test_a_file_brings_everything_back(tmp_path: Path) -> None:
    frame, tree = make(), Tree(((0, 1), 2))
    columns = {"c": marginals.Categorical(["u", "v", "w"])}
    model = MDMA(**SMALL, columns=columns, tree=tree).fit(frame)
    model.save(tmp_path / "model.mdma")
    again = marginals.load(tmp_path / "model.mdma")
    assert isinstance(again, MDMA)
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    pd.testing.assert_frame_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    assert str(again.schema_) == str(model.schema_)
    assert again.result_ == model.result_
    assert again.columns == model.columns
    assert list(again.feature_names_in_) == ["a", "b", "c"]
    assert again.get_params()["width"] == 4
    assert again.tree == tree
    marginals.save(model.module_, tmp_path / "m")
    assert isinstance(marginals.load(tmp_path / "m"), marginals.Density)


@pytest.mark.parametrize(
    ("settings", "fit", "words"),
    [
        ({"tensor": "tt"}, {}, "tensor"),
        ({"width": 0}, {}, "width"),
        ({"columns": {"nope": Integer()}}, {}, "nope"),
        ({}, {"sample_weight": [1.0]}, "sample_weight"),
        ({}, {"sample_weight": np.full(120, -1.0)}, "sample_weight"),
        ({}, {"upper": make(3)}, "upper"),
        ({}, {"validation": pd.DataFrame({"q": [1.0]})}, "q"),
        ({"device": "tpu9"}, {}, "device"),
        ({"learning_rate": -1.0}, {}, "learning_rate"),
        ({"effort": "most", "width": None, "max_steps": None}, {}, "`effort`"),
        (
            {"effort": "quick", "width": None, "max_steps": None},
            {"sample_weight": np.full(120, -1.0)},
            "`sample_weight`",
        ),
    ],
)
def test_wrong_settings(settings: dict[str, Any], fit: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        MDMA(**{**SMALL, **settings}).fit(make(), **fit)


# Efforts --------------------------------------------------------------------------------------


def curved(count: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=count)
    frame = pd.DataFrame({"a": a, "b": a**2 + rng.normal(size=count), "n": rng.poisson(3, count)})
    frame["c"] = np.where(a > 0, "up", "down")
    frame.loc[::9, "a"] = np.nan
    return frame


@pytest.mark.parametrize("settings", [{"max_seconds": 2}, {"effort": "quick"}])
def test_efforts_fit_a_mixture_that_answers(settings: dict[str, Any], tmp_path: Path) -> None:
    model = MDMA(**settings, random_state=0).fit(curved())
    assert sum(member["weight"] for member in model.members_) == pytest.approx(1)
    if "effort" in settings:
        assert {member["steps"] for member in model.members_} == {0}
    else:
        assert len(model.members_) == 7
    assert 0 < model.prob({"a": (0, None)}, given={"c": "up"}) <= 1
    assert np.isfinite(model.score(curved()))
    assert not model.impute(curved()).isna().any().any()
    assert np.isfinite(model.mean("b", given={"a": 1.0}))
    level = model.cdf({"b": model.ppf(0.3, "b", given={"a": 1.0})}, given={"a": 1.0})
    assert level == pytest.approx(0.3, abs=1e-3)
    model.save(tmp_path / "m")
    again = marginals.load(tmp_path / "m")
    assert isinstance(again, MDMA)
    np.testing.assert_array_equal(again.score_samples(curved()), model.score_samples(curved()))
    assert again.members_ == model.members_


def test_an_option_of_one_model_fits_one() -> None:
    one = MDMA(tensor="copula", rank=1, width=3, max_steps=10, random_state=0).fit(curved())
    assert one.members_ == []
    tree = MDMA(width=3, max_steps=10, random_state=0).fit(curved())
    assert isinstance(tree.module_, marginals.TensorDensity)
    assert not isinstance(one.module_, marginals.TensorDensity | marginals.Mixture)


@pytest.mark.parametrize("settings", [{"max_seconds": 0.5}, {"effort": "quick"}])
@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": [1.0], "y": ["a"]}),
        pd.DataFrame({"x": [1.0], "y": [2.0]}),
        pd.DataFrame({"x": [2.0] * 20, "y": np.arange(20.0)}),
        pd.DataFrame({"c": ["u", "v"] * 30, "d": ["u", "v", "v"] * 20}),  # nothing to couple
    ],
    ids=["row", "numbers", "constant", "words"],
)
def test_tables_with_little_in_them(settings: dict[str, Any], frame: pd.DataFrame) -> None:
    assert np.isfinite(MDMA(**settings, random_state=0).fit(frame).score(frame))


def test_a_quick_fit_counts_rows_by_their_weight() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["x", "y"])
    frame["x"] += np.where(np.arange(400) < 200, -3.0, 3.0)
    heavy = np.where(np.arange(400) < 200, 9.0, 1.0)
    model = MDMA(effort="quick", random_state=0).fit(frame, sample_weight=heavy)
    assert model.prob({"x": (None, 0)}) == pytest.approx(0.9, abs=0.03)
    assert model.mean("x") == pytest.approx(np.average(frame["x"], weights=heavy), abs=0.2)


def test_members_print_as_a_table() -> None:
    lines = [
        {"tensor": "copula", "width": 3, "rank": 2, "noise": 0.1, "weight": 0.0, "score": -3.25},
        {"tensor": "ht", "width": 8, "noise": 0.05, "weight": 1.0, "score": -2.5},
    ]
    shown = str(MemberList(lines)).splitlines()
    assert shown[0].split() == ["tensor", "width", "rank", "noise", "weight", "score"]
    assert shown[1].split() == ["ht", "8", "0.05", "1.000", "-2.500"]
    assert MemberList(lines).frame["tensor"].tolist() == ["ht", "copula"]
    assert "<table" in MemberList(lines)._repr_html_()
    assert "single model" in str(MemberList())


def test_a_focus_is_trained_and_averaged() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3))
    x[:, 0] = x[:, 1] + 0.2 * x[:, 0]
    frame = pd.DataFrame(x, columns=list("abc"))
    model = MDMA(focus="a", max_seconds=2, n_jobs=1, random_state=0, progress=False).fit(frame)
    weights = {member["focus_weight"] for member in model.members_}
    assert weights == {1.0, 10.0}
    held = np.asarray(model.logpdf(frame[["a"]], given=frame[["b", "c"]]))
    assert held.mean() > -0.5
    answers = model.averaged()
    given = frame[["b"]].head(3)
    mixed = isinstance(model.module_, Mixture)  # else one member was kept
    members = list(model.module_.densities) if mixed else [model.module_]  # type: ignore[union-attr]
    parts = [
        TableView(m, model.schema_).cdf({"a": 0.3}, given={"b": float(given.iloc[0, 0])})
        for m in members
    ]
    shares = model.module_.log_weights().exp().tolist() if mixed else [1.0]  # type: ignore[union-attr]
    expected = sum(w * part for w, part in zip(shares, parts, strict=True))
    found = answers.cdf({"a": 0.3}, given={"b": float(given.iloc[0, 0])})
    assert np.isclose(found, expected, rtol=1e-4)
    regressor = MDMARegressor(model, target="a").fit(frame[["b", "c"]])
    assert np.allclose(
        regressor.predict(frame.head(3)), answers.mean("a", given=frame[["b", "c"]].head(3))
    )
    alone = MDMARegressor(model, target="a", average=False).fit(frame[["b", "c"]])
    assert np.allclose(
        alone.predict(frame.head(3)), model.mean("a", given=frame[["b", "c"]].head(3))
    )
    score = model.score_conditional(frame, columns="a", average=True)
    assert score.summary["crps"] < 0.2


def test_imputer_and_predictors_fit_for_answers_unless_told_otherwise() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.choice([3, 4, 8], 200), "m": rng.choice([1, 2], 200)})
    frame["x"] = frame["n"] + 0.1 * rng.normal(size=200)
    holes = frame.mask(rng.random(frame.shape) < 0.2)
    small = MDMA(**SMALL, columns={"m": Discrete()})
    imputer = MDMAImputer(small).fit(holes)
    assert (imputer.model_.aim, imputer.model_.guess) == ("answers", "smooth")
    assert imputer.model_.schema_["n"].kind == Continuous()
    assert imputer.model_.schema_["m"].kind == Discrete([1, 2])  # as declared
    drawn = MDMAImputer(imputer.model_, method="draw", random_state=0).fit(holes).transform(holes)
    assert set(drawn["n"]) == {3, 4, 8}
    means = imputer.transform(holes)["n"]
    assert not set(means) <= {3, 4, 8}
    assert means.between(3, 8).all()
    lower, upper = imputer.transform_interval(holes)
    assert set(lower["n"]) | set(upper["n"]) <= {3, 4, 8}
    blank = pd.DataFrame({"n": [None, None], "x": [3.4, 5.0]})
    assert imputer.transform(blank)["n"].dtype == float
    joint = MDMAImputer(small, average=False).fit(holes).model_
    assert (joint.aim, joint.guess) == ("joint", True)
    assert isinstance(joint.schema_["n"].kind, Discrete)
    by_dtype = MDMARegressor(MDMA(**SMALL, guess=False)).fit(frame[["n"]], frame["x"]).model_
    assert (by_dtype.aim, by_dtype.guess) == ("answers", False)
    assert small.aim == "joint"


def test_predictors_focus_on_their_target() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    small = MDMA(width=2, max_steps=3, random_state=0)
    assert MDMARegressor(small).fit(x, x[:, 0]).model_.focus == "target"
    assert (
        MDMARegressor(clone(small).set_params(focus=0), target=2).fit(x, x[:, 0]).model_.focus == 0
    )
    assert small.focus is None
