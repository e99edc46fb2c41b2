"""What a table shows without declarations: grids, atoms, bounds, tables of few values."""

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marginals import MDMA, Categorical, Continuous, Discrete, Integer, SchemaWarning
from marginals.columns import Schema, decode, encode, encode_values, infer
from marginals.columns.rounding import Rounding
from tests.columns.helpers import column_of, schema_of

RNG = np.random.default_rng(0)
ROWS = 2000
NORMAL = RNG.normal(size=ROWS)
GAMMA = RNG.gamma(2, 10, ROWS)
TIMES = pd.Timestamp("2020-03-01") + pd.to_timedelta(RNG.integers(0, 10**6, ROWS), "s")


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        (NORMAL, Continuous(), "float64"),
        (NORMAL.astype(np.float32), Continuous(), "float32"),
        (NORMAL.round(6), Continuous(), "float64"),  # 10^6 steps in a standard deviation
        (NORMAL.round(2), Continuous(resolution=0.01), "float64; multiples of 0.01"),
        (NORMAL.round(1).astype(np.float32), Continuous(resolution=0.1), "multiples of 0.1"),
        (np.rint(20 * NORMAL) * 5 + 2, Continuous(resolution=5.0), "multiples of 5 from 2"),
        (np.rint(20 * NORMAL).astype(int) * 100, Continuous(resolution=100), "multiples of 100"),
        (np.rint(50 * NORMAL), Integer(), "float64"),
        (GAMMA, Continuous(lower=0), "float64; no value below 0"),
        (GAMMA.round(2), Continuous(lower=0, resolution=0.01), "multiples of 0.01; no value"),
        (np.rint(GAMMA).astype(int), Integer(lower=0), "int64; no value below 0"),
        (
            np.where(NORMAL < 0, 0, GAMMA.round(2)),
            Continuous(lower=0, resolution=0.01, atoms=(0.0,)),
            "multiples of 0.01; 1 value repeats; no value below 0",
        ),
        (np.where(NORMAL < 0, 0, GAMMA), Continuous(lower=0, atoms=(0.0,)), "1 value repeats"),
        (
            np.minimum(np.rint(GAMMA), 50).astype(int) * 2,
            Continuous(lower=0, upper=100, resolution=2, atoms=(100,)),
            "between 0 and 100",
        ),
        (np.where(NORMAL < 0, 36, 60), Discrete([36, 60]), "int64; 2 values, each often"),
        (np.where(NORMAL < 0, 0.1, 0.7).astype("f4"), Discrete([0.1, 0.7]), "2 values"),
        (np.where(NORMAL < 0, 7.0, np.nan), Discrete([7.0]), "always the same value"),
        (RNG.beta(1, 1, ROWS), Continuous(0, 1), "between 0 and 1"),
        (TIMES, Continuous(resolution=pd.Timedelta("1s")), "steps of 0 days 00:00:01"),
        (TIMES.floor("15min"), Continuous(resolution=pd.Timedelta("15min")), "00:15:00"),
        (TIMES.floor("D"), Continuous(resolution=pd.Timedelta("1D")), "steps of 1 days"),
        (TIMES + pd.to_timedelta(RNG.random(ROWS), "s"), Continuous(), "datetime64"),
    ],
)
def test_kinds_from_values(values: Any, kind: Any, reason: str) -> None:
    column = column_of(values)
    assert column.kind == kind
    assert reason in column.reason
    # A declared kind wins, and the switch leaves the dtype alone.
    assert column_of(values, Continuous()).kind == Continuous()
    plain = infer(pd.DataFrame({"x": values}), guess=False)["x"].kind
    assert plain in (Continuous(), Integer())


def test_few_rows_show_nothing() -> None:
    assert column_of([0.1, 0.2, 0.3] * 9).kind == Continuous()
    assert column_of([0, 1] * 14).kind == Integer()


@given(
    st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.25, 0.3, 0.5, 2.5, 5.0, 100.0]),
    st.sampled_from([0.0, 0.2, 0.4]),
    st.sampled_from(["float64", "float32"]),
    st.integers(0, 2**32 - 1),
)
def test_values_come_back_to_the_last_digit(
    step: float, part: float, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    k = np.rint(rng.normal(20, 40, 300))
    decimals = np.array([float(f"{value:.9g}") for value in k * step + part * step])
    values = decimals.astype(dtype)
    schema = schema_of(values)
    assert getattr(schema["x"].kind, "resolution", step) == step
    model, _ = encode_values(schema, "x", values)
    np.testing.assert_array_equal(decode(schema, model[:, None])["x"].to_numpy(), values)


def test_a_few_values_off_the_grid_are_rounded() -> None:
    values = NORMAL.round(2)
    values[:5] += 0.003
    schema = schema_of(values)
    assert schema["x"].kind == Continuous(resolution=0.01)
    assert schema["x"].notes == ("0.25 % of the values are off this grid: rounded to it",)
    back = decode(schema, encode_values(schema, "x", values)[0][:, None])["x"]
    np.testing.assert_array_equal(back, NORMAL.round(2))
    days = TIMES.floor("D").to_series().reset_index(drop=True)
    days[:3] += pd.Timedelta("5h")
    column = column_of(days)
    assert column.kind.resolution == pd.Timedelta("1D")
    assert pd.Timestamp(column.reference, unit=days.dt.unit).hour == 0


def test_the_schema_says_why() -> None:
    tips = np.where(NORMAL < -0.5, 0, GAMMA.round(2))
    text = str(infer(pd.DataFrame({"tip": tips, "term": np.where(NORMAL < 0, 36, 60)})))
    assert "0 to inf, steps of 0.01, atoms at 0.0" in text
    assert "multiples of 0.01; 1 value repeats; no value below 0" in text
    assert "discrete    int64    36 < 60" in text


def test_values_beyond_inferred_bounds_have_no_probability() -> None:
    frame = pd.DataFrame({"tip": GAMMA, "term": np.where(NORMAL < 0, 36, 60)}).head(300)
    model = MDMA(width=4, max_steps=5, random_state=0).fit(frame)
    new = pd.DataFrame({"tip": [1.0, -1.0, 0.0, 1.0], "term": [36, 36, 36, 48]})
    assert (model.score_samples(new) == -np.inf).tolist() == [False, True, True, True]
    assert model.logpdf({"tip": -1.0}) == -np.inf
    assert model.prob({"tip": (None, 0)}) == 0
    with pytest.raises(ValueError, match=r"bound 0; got -1\.0 in row 1"):
        encode(model.schema_, new)
    declared = MDMA(columns={"tip": Continuous(lower=0)}, width=4, max_steps=5).fit(frame)
    with pytest.raises(ValueError, match=r"bound 0; got -1\.0"):
        declared.logpdf({"tip": -1.0})


def test_relations_are_named_in_one_warning() -> None:
    frame = pd.DataFrame({"id": np.arange(ROWS), "a": NORMAL, "b": GAMMA, "k": 7})
    frame = frame.assign(triple=3 * frame.a, total=frame.a + frame.b, name=frame.id.astype(str))
    with pytest.warns(SchemaWarning) as found:
        infer(frame)
    (warning,) = found
    for text in ("'id' has a value of its own", "'name' has a value", "'k' is constant"):
        assert text in str(warning.message)
    assert "'triple' = 3 'a' in every row: leave it out" in str(warning.message)
    assert "'total' = 'a' + 'b' in every row" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer(frame, guess=False)
        kinds = {name: Continuous() for name in ("a", "b", "triple", "total")}
        infer(frame, {**kinds, "id": Integer(), "k": Integer(), "name": Categorical()})


def test_huge_integers_are_not_taken_for_constants() -> None:
    infer(pd.DataFrame({"huge": 2**60 + RNG.integers(0, 9, 100), "x": NORMAL[:100]}))


def test_censored_columns_keep_the_kind_of_their_dtype() -> None:
    lower = pd.DataFrame({"t": NORMAL.round(1)})
    assert infer(lower, upper=lower + 1)["t"].kind == Continuous()


def test_a_large_table_is_inferred_quickly() -> None:
    rows = 200_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({i: rng.gamma(2, 10, rows).round(i) for i in range(4)})
    frame = frame.assign(city=rng.choice(list("abcdef"), rows), real=rng.normal(size=rows))
    start = time.perf_counter()
    infer(frame.rename(columns=str))
    assert time.perf_counter() - start < 5  # 0.5 s on an idle core


@pytest.mark.parametrize(
    ("values", "rounding"),
    [
        (NORMAL, None),
        (np.where(NORMAL < 0, 36, 60), Rounding((36.0, 60.0))),
        (NORMAL.round(1), Rounding(tuple(np.unique(NORMAL.round(1)).tolist()))),
        (NORMAL[:200].round(4), Rounding(step=0.0001)),
        (GAMMA, Rounding(lower=0.0)),
        (RNG.permutation(10**5)[:ROWS], Rounding(step=1.0, lower=0.0)),
    ],
)
def test_smooth_numbers_are_rounded_when_they_come_back(values: Any, rounding: Any) -> None:
    frame = pd.DataFrame({"x": values})
    schema = infer(frame, guess="smooth")
    assert schema["x"].kind == Continuous()
    assert schema["x"].rounding == rounding
    assert schema["x"].reason != "given"
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    model, _ = encode_values(schema, "x", frame["x"])
    pd.testing.assert_series_equal(decode(schema, model[:, None], ["x"])["x"], frame["x"])
    draws = decode(schema, model[:, None] + 0.01 * torch.randn(len(model), 1), ["x"])["x"]
    assert draws.dtype == frame["x"].dtype
    if rounding is not None and rounding.values:
        assert set(draws) <= set(values)
    if rounding is not None and rounding.lower is not None:
        assert draws.min() >= 0


@pytest.mark.parametrize(
    ("values", "kind", "least"),
    [
        (NORMAL.round(6), Continuous(), None),
        ((1e4 * GAMMA).round(2) + 0.01, Continuous(lower=0), 0.01),
        (np.where(NORMAL < 0, 0, (1e4 * GAMMA).round(2)), Continuous(lower=0, atoms=(0.0,)), 0.0),
    ],
)
def test_draws_of_a_fine_grid_lie_on_it(values: Any, kind: Any, least: float | None) -> None:
    schema = infer(pd.DataFrame({"x": values}))
    assert schema["x"].kind == kind
    rounding = schema["x"].rounding
    assert rounding is not None
    assert rounding.lower == least
    model, _ = encode_values(schema, "x", values)
    drawn = decode(schema, model[:, None] * 1.0001, ["x"])["x"].to_numpy()
    np.testing.assert_allclose(drawn, drawn.round(6 if least is None else 2), atol=1e-12)
    # Whatever is drawn can occur.
    assert not schema["x"].axis.wrong(drawn).any()


def test_accidents_of_binary_fractions_are_no_grid() -> None:
    assert infer(pd.DataFrame({"x": GAMMA * 100 + 1e-10}))["x"].rounding is None


def test_smooth_is_for_numbers_that_are_not_declared() -> None:
    spiked = np.where(NORMAL < -0.5, 0, GAMMA)  # no smooth density has so many zeros
    frame = pd.DataFrame({"n": np.where(NORMAL < 0, 1, 2), "tip": spiked, "c": list("ab") * 1000})
    kinds = {"n": Discrete()}
    assert infer(frame, kinds, guess="smooth")["n"].kind == Discrete([1, 2])
    assert infer(frame, guess="smooth")["tip"].kind == Continuous(lower=0, atoms=(0.0,))
    assert isinstance(infer(frame, guess="smooth")["c"].kind, Categorical)
    with pytest.raises(ValueError, match="`guess` to be True, False or 'smooth'"):
        infer(frame, guess="rough")


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, unique=True), st.lists(st.floats(-1e7, 1e7)))
def test_rounding_takes_the_nearest_value_and_keeps_order(
    values: list[float], numbers: list[float]
) -> None:
    every, x = np.sort(values), np.sort(numbers)
    found = Rounding(tuple(every.tolist()))(x)
    away = np.abs(x[:, None] - every).min(1) if len(x) else x
    np.testing.assert_allclose(np.abs(found - x), away, rtol=1e-9)
    assert (np.diff(found) >= 0).all()


FOLDER = os.environ.get("MARGINALS_DATA", "")


@pytest.mark.skipif(
    not Path(FOLDER, "synthesis", "adult.parquet").is_file(), reason="needs MARGINALS_DATA"
)
def test_adult() -> None:
    with pytest.warns(SchemaWarning, match="'education_num' follows from 'education'"):
        schema = infer(pd.read_parquet(Path(FOLDER, "synthesis", "adult.parquet")))
    assert schema["capital_gain"].kind == Integer(0, 99_999, (0, 7298, 7688, 15_024, 99_999))
    assert {20, 40, 50, 60} <= set(schema["hours_per_week"].kind.atoms)
    assert schema["education_num"].kind == Discrete(range(1, 17))
    assert schema["age"].kind.upper == 90


def test_columns_that_nearly_identify_rows_are_independent_of_the_others() -> None:
    """As the names of cars are: they are announced, and learn nothing by heart."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    frame = pd.DataFrame({"x": x, "name": [f"car {i}" for i in rng.integers(0, 400, 300)]})
    with pytest.warns(SchemaWarning, match="'name' has a value of its own in most rows"):
        schema = infer(frame)
    assert schema["name"].alone
    assert schema.build_options["alone"] == (1,)
    assert "independent of all other columns" in str(schema)
    with pytest.warns(SchemaWarning):
        model = MDMA(tensor="cp", width=6, max_steps=20, random_state=0).fit(frame)
    first, second = frame.name.iloc[:2]
    assert model.mean("x", given={"name": first}) == pytest.approx(model.mean("x"), abs=1e-5)
    p = model.prob({"name": first}), model.prob({"name": first}, given={"x": 1.0})
    assert p[0] == pytest.approx(p[1])
    assert model.prob({"name": [first, second]}) < 0.05
    declared = MDMA(
        columns={"name": Categorical()}, tensor="cp", width=6, max_steps=20, random_state=0
    ).fit(frame)
    assert not declared.schema_["name"].alone
    names = declared.module_.leaves.family_of(1)[0]
    assert names.logits.shape[1] == 6  # a table of each component
