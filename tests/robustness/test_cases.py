"""Tables that are odd in one way each."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA, Categorical, Continuous, Integer
from tests.robustness.questions import ask_all
from tests.robustness.tables import make_frame


def fit(data: Any, **options: Any) -> MDMA:
    settings = {"width": 3, "max_steps": 2, "random_state": 0, "progress": False}
    return MDMA(**{**settings, **options}).fit(data)


def asked(model: MDMA, frame: pd.DataFrame) -> int:
    return ask_all(model, frame, np.random.default_rng(0))[0]


@pytest.mark.parametrize("value", [0.0, -3, 1e300, 1e-300, True, "x", pd.Timestamp("2020")])
def test_constant_columns(value: Any) -> None:
    frame = pd.DataFrame({"a": [value] * 8, "b": np.arange(8.0)})
    assert asked(fit(frame), frame) >= 10


def test_a_row_and_a_column_without_values() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": ["x", None, "y"], "c": [np.nan] * 3})
    model = fit(frame)
    assert model.score_samples(frame)[1] == pytest.approx(0, abs=1e-6)  # float32
    assert model.impute(frame).notna().all(axis=None)
    assert "all values are missing" in str(model.schema_)


def test_a_table_of_nothing() -> None:
    model = fit(pd.DataFrame({"a": [np.nan, np.nan]}))
    assert np.isfinite(model.sample(3, random_state=0).to_numpy()).all()


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_one_row(columns: int) -> None:
    frame = pd.DataFrame([[1.5] * columns], columns=[f"c{i}" for i in range(columns)])
    assert asked(fit(frame), frame) >= 8


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame(), "rows and columns"),
        (pd.DataFrame({"a": []}), "rows and columns"),
        (pd.DataFrame(index=range(3)), "rows and columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "each column name once"),
        (pd.DataFrame([[1]], columns=[1.5]), "column names"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])), "names"),
        (pd.DataFrame({"a": [1.0, np.inf]}), "finite"),
        (pd.DataFrame({"a": [1.0, -np.inf]}), "finite"),
    ],
)
def test_tables_that_are_refused(frame: pd.DataFrame, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"Expected.*{words}"):
        fit(frame)


def test_empty_frames_have_empty_answers() -> None:
    frame = make_frame(["float64", "category", "times", "Int64"], 20, 0)
    model = fit(frame)
    none = frame.iloc[:0]
    assert model.score_samples(none).shape == (0,)
    assert model.cdf(none[["c0"]]).shape == (0,)
    assert len(model.sample(0)) == 0
    for method in ("mean", "draw"):
        assert model.impute(none, method=method).shape == none.shape


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_scales(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=200)
    wide = fit(pd.DataFrame({"a": x * scale}), max_steps=30)
    plain = fit(pd.DataFrame({"a": x}), max_steps=30)
    for ask in (lambda m: m.mean("a"), lambda m: m.std("a"), lambda m: m.ppf(0.9, "a")):
        np.testing.assert_allclose(ask(wide) / scale, ask(plain), rtol=1e-3, atol=1e-3)
    shift = wide.score_samples(pd.DataFrame({"a": x * scale})) + np.log(scale)
    np.testing.assert_allclose(shift, plain.score_samples(pd.DataFrame({"a": x})), atol=1e-3)


def test_all_scales_at_once_need_a_bound() -> None:
    frame = pd.DataFrame({"a": 10.0 ** np.linspace(-300, 300, 50)})
    model = fit(frame, columns={"a": Continuous(lower=0)})
    assert np.isfinite(model.score_samples(frame)).all()
    assert 0.3 < model.prob({"a": (None, 1.0)}) < 0.7


def test_ten_thousand_categories() -> None:
    names = [f"n{i}" for i in range(10_000)]
    frame = pd.DataFrame({"a": names, "x": np.arange(10_000.0)})
    model = fit(frame, columns={"a": Categorical(), "x": Continuous()})  # or they seem identifiers
    half = model.prob({"a": set(names[:5000])})
    assert half + model.prob({"a": set(names[5000:])}) == pytest.approx(1, abs=1e-4)
    assert set(model.sample(50, random_state=0)["a"]) <= set(names)


def test_huge_integers_keep_their_neighbours() -> None:
    base = 10**54
    frame = pd.DataFrame({"a": pd.Series([base + i % 7 for i in range(60)], dtype=object)})
    model = fit(frame, max_steps=30)
    masses = [model.prob({"a": base + i}) for i in range(7)]
    assert min(masses) > 0.02
    below = model.prob({"a": (None, base + 3)})
    assert below + model.prob({"a": (base + 3, None)}) == pytest.approx(1, abs=1e-5)
    assert below == pytest.approx(model.prob({"a": (None, base - 1)}) + sum(masses[:4]), abs=1e-5)
    assert {type(value) for value in model.sample(5, random_state=0)["a"]} == {int}


@pytest.mark.parametrize("far", [2**60, 10**30])
def test_integers_too_far_apart_for_floats_still_add_up(far: int) -> None:
    frame = pd.DataFrame({"a": pd.Series([0, 1, 2, far, far + 1], dtype=object)})
    model = fit(frame)
    for cut in (0, 1, far - 1, far, far + 1):
        total = model.prob({"a": (None, cut)}) + model.prob({"a": (cut, None)})
        assert total == pytest.approx(1, abs=1e-5)


def test_integer_means_beyond_the_dtype_are_floats() -> None:
    values = pd.array([2**64 - 1, 2**64 - 1, None], dtype="UInt64")
    full = fit(pd.DataFrame({"a": values})).impute(pd.DataFrame({"a": values}))
    assert full["a"].notna().all()
    assert float(full["a"].iloc[2]) == pytest.approx(2.0**64, rel=1e-9)


@pytest.mark.parametrize("zone", ["Europe/Oslo", "UTC", "+05:30", None])
def test_times_keep_their_zone(zone: str | None) -> None:
    days = pd.date_range("2024-03-30", periods=40, freq="h", tz=zone)
    frame = pd.DataFrame({"t": days})
    model = fit(frame)
    assert model.sample(3, random_state=0)["t"].dtype == frame["t"].dtype
    assert asked(model, frame) >= 10


ARRAYS = {
    "rows apart": lambda x: np.repeat(x, 2, 0)[::2],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "fortran": np.asfortranarray,
    "read-only": lambda x: (y := x.copy(), y.setflags(write=False))[0],
    "big-endian": lambda x: x.astype(">f8"),
    "strided tensor": lambda x: torch.tensor(np.repeat(x, 2, 1))[:, ::2],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_in_any_layout(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    x[::4, 1] = np.nan
    data = ARRAYS[name](x)
    before = np.asarray(data).copy()
    plain, other = fit(x), fit(data)
    np.testing.assert_array_equal(np.asarray(other.score_samples(data)), plain.score_samples(x))
    full = np.asarray(other.impute(data))
    np.testing.assert_array_equal(full, plain.impute(x))
    np.testing.assert_array_equal(np.asarray(data), before)  # nothing was written into it


def test_read_only_frames() -> None:
    x = np.arange(12.0).reshape(6, 2)
    x.setflags(write=False)
    frame = pd.DataFrame(x, columns=["a", "b"], copy=False)
    assert asked(fit(frame), frame) >= 10


def test_kinds_that_the_values_break_are_refused() -> None:
    frame = pd.DataFrame({"a": [0.5, 1.5], "b": ["x", "y"]})
    for kind in ({"a": Integer()}, {"a": Continuous(lower=1)}, {"b": Categorical(["x"])}):
        with pytest.raises(ValueError, match="Expected column"):
            fit(frame, columns=kind)
