"""Fitting tables: weights, censored cells, validation rows, and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import marginals
from marginals import MDMA, Integer, Tree

SMALL: dict[str, Any] = {"width": 4, "max_steps": 60, "random_state": 0}


def make(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": a + rng.normal(size=rows), "c": rng.choice(["u", "v"], rows)})


def test_weights_move_the_fit() -> None:
    frame = make()
    heavy = np.where(frame["a"] > 0, 10.0, 0.1)
    plain, weighted = MDMA(**SMALL).fit(frame), MDMA(**SMALL).fit(frame, sample_weight=heavy)
    assert weighted.mean("a") > plain.mean("a") + 0.3


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


def test_interval_columns_mean_the_same() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(size=100)
    frame = pd.DataFrame({"t": pd.arrays.IntervalArray.from_arrays(low, low + 0.5), "z": low})
    assert np.isfinite(MDMA(**SMALL).fit(frame).score(frame))


def test_validation_rows() -> None:
    frame = make()
    held = make(40)
    model = MDMA(**SMALL).fit(frame, validation=held)
    # The loss is that of the model's scale, from which the log-Jacobian parts the score.
    jacobian = np.log([model.schema_["a"].scale, model.schema_["b"].scale]).sum()
    assert model.result_.best_loss == pytest.approx(-model.score(held) - jacobian, abs=1e-3)


def test_a_file_brings_everything_back(tmp_path: Path) -> None:
    frame = make()
    model = MDMA(**SMALL, columns={"c": marginals.Categorical(["u", "v", "w"])}).fit(frame)
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


def test_a_tree_is_kept(tmp_path: Path) -> None:
    tree = Tree(((0, 1), 2))
    MDMA(**SMALL, tree=tree).fit(make()).save(tmp_path / "m")
    again = marginals.load(tmp_path / "m")
    assert isinstance(again, MDMA)
    assert again.tree == tree


def test_a_bare_density_comes_back_as_one(tmp_path: Path) -> None:
    model = MDMA(**SMALL).fit(make())
    marginals.save(model.module_, tmp_path / "m")
    assert isinstance(marginals.load(tmp_path / "m"), marginals.Density)


def test_kinds_override_what_is_guessed() -> None:
    frame = pd.DataFrame({"n": np.random.default_rng(0).poisson(3, 100).astype(float)})
    model = MDMA(**SMALL, columns={"n": Integer(lower=0)}).fit(frame)
    assert model.pdf(pd.DataFrame({"n": np.arange(100.0)})).sum() == pytest.approx(1, abs=1e-4)


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
    ],
)
def test_wrong_settings(settings: dict[str, Any], fit: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        MDMA(**{**SMALL, **settings}).fit(make(), **fit)


def test_arrays_are_read_by_position() -> None:
    frame = make().drop(columns="c").set_axis([1, 0], axis=1)
    model = MDMA(**SMALL).fit(frame)
    assert model.score(frame.to_numpy()) == pytest.approx(model.score(frame))


def test_no_rows_have_no_means() -> None:
    model = MDMA(**SMALL).fit(make())
    assert len(model.mean("a", given=make().head(0)[["b"]])) == 0


def test_questions_before_the_fit() -> None:
    with pytest.raises(NotFittedError):
        MDMA().query("P(a > 0)")
