"""What comes back: the same names, dtypes and values, and nothing past a bound."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals.columns import (
    Categorical,
    Continuous,
    Integer,
    decode,
    decode_column,
    encode,
    encode_values,
    infer,
)
from tests.columns.helpers import INF, NAN, cells, same, schema_of, there_and_back

DAY = pd.Timestamp("2020-01-02 03:04:05")


def exactly(values: Any, kind: Any = None) -> None:
    """Values come back with their dtype, none changed."""
    series = pd.Series(values, name="x")
    back = there_and_back(series, kind)
    assert back.dtype == series.dtype
    pd.testing.assert_series_equal(back, series, check_exact=True)


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 4, 1],
        np.array([3, 255, 0], "uint8"),
        np.array([-128, 127], "int8"),
        pd.array([3, None, 1], dtype="Int64"),
        pd.array([3, None, 255], dtype="UInt8"),
        [1.0, 2.0, NAN, 3.0],
        [True, False],
        pd.array([True, None], dtype="boolean"),
        ["b", "a", "b"],
        pd.array(["b", None, "a"], dtype="string"),
        pd.Series(["b", "a"], dtype=object),
        pd.Series([1, "a", 2.5, True], dtype=object),
        pd.Series([3, NAN, 4], dtype=object),
        pd.Series([2**80, 2**80 + 1], dtype=object),
        pd.Series([True, NAN], dtype=object),
        pd.Series([datetime.date(2020, 1, 2), datetime.date(2020, 1, 3)], dtype=object),
        pd.Categorical(["b", None, "a"], categories=["b", "a", "unused"]),
        pd.Categorical([2, 9], categories=[9, 2, 5], ordered=True),
        pd.Categorical([1.5, None]),
        pd.Categorical([True, False]),
        pd.Categorical([DAY, DAY + pd.Timedelta(1, "D")]),
        pd.Categorical([DAY.tz_localize("Europe/Oslo"), None]),
        pd.cut([1.0, 2.0, 3.0], 2),
        pd.to_timedelta([1, 2, 10**9], "s"),
        pd.to_timedelta([1, None, 5], "ns"),
        pd.date_range("2020", periods=5, freq="37h"),
        pd.date_range("2020-03-28", periods=50, freq="h", tz="Europe/Oslo"),
        pd.Series([DAY, pd.NaT]),
    ],
)
def test_dtypes_come_back_exactly(values: Any) -> None:
    exactly(values)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units_of_time_come_back(unit: str) -> None:
    exactly(pd.Series(pd.date_range("1901-01-01", periods=90, freq="450D").as_unit(unit)))
    exactly(pd.Series(pd.to_timedelta(range(0, 10**9, 10**7), "s").as_unit(unit)))


def test_times_keep_nanoseconds_within_weeks_and_microseconds_within_centuries() -> None:
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2020-01-01").as_unit("ns")
    exactly(pd.Series(start + pd.to_timedelta(rng.integers(0, 10**15, 500), "ns")))
    exactly(pd.Series(start + pd.to_timedelta(rng.integers(-(10**15), 10**15, 500), "us")))


def test_times_with_bounds() -> None:
    times = pd.Series(pd.date_range("2020-01-01 00:00:01", periods=90, freq="7h"))
    exactly(times, Continuous(lower=pd.Timestamp("2020")))
    exactly(times, Continuous(lower=pd.Timestamp("2020"), upper=pd.Timestamp("2021")))
    exactly(times, Continuous(resolution=pd.Timedelta(1, "s"), upper=times.max()))
    exactly(times, Continuous(atoms=(times[3],)))


@pytest.mark.parametrize(
    "kind", [None, Integer(lower=0), Integer(0, 2**64 - 1), Integer(upper=2**64)]
)
def test_huge_integers_stay_distinct(kind: Any) -> None:
    near = 2**63 - 1 - np.arange(50)
    exactly(near, kind)
    exactly(near.astype("uint64") + np.uint64(2**62), kind)
    low, high, _ = cells(schema_of(near, kind), near)
    same(high[1:], low[:-1])
    assert (low < high).all()


def test_integers_of_any_spread() -> None:
    exactly([1, 5, 2**60 + 5, 3])  # counted from 5
    wide = there_and_back(np.array([-(2**63), 2**63 - 1, 5]))
    np.testing.assert_allclose(wide.astype(float), [-(2.0**63), 2.0**63, 5], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "Float64", "Float32", object])
def test_floats_come_back(dtype: Any) -> None:
    values = pd.Series([1.5, -2.25, NAN, 1e4 / 3], dtype="float64").astype(dtype)
    for kind in (None, Continuous(lower=-3), Continuous(-3, 2**14), Continuous(atoms=(1.5,))):
        back = there_and_back(values, kind)
        assert back.dtype == values.dtype
        np.testing.assert_allclose(
            back.astype("float64"),
            values.astype("float64"),
            rtol=1e-12 if dtype != "float16" else 0,
        )


def test_small_values_beside_an_outlier_come_back() -> None:
    for values in (np.array([1.0, 2.0, 3.5]) * 1e-310, np.append(np.linspace(0, 1, 101), 1e300)):
        np.testing.assert_allclose(there_and_back(values), values, rtol=1e-12, atol=1e-15)


def test_constants_and_single_rows() -> None:
    for values in ([7.5], [7.5] * 3, [3], [True], ["a"], [DAY], [1e300] * 2):
        exactly(values)


def test_rounded_values_come_back_as_typed() -> None:
    for step, digits in [(0.1, 1), (0.01, 2), (0.05, 2), (0.25, 2), (2.5, 1), (100, 0)]:
        values = np.round(np.arange(-300, 300) * step, digits)
        exactly(values, Continuous(resolution=step))
        exactly(values[310:], Continuous(lower=0, resolution=step))
    exactly([0.15, 0.25, 1.05], Continuous(resolution=0.1))
    exactly(np.array([0.1, 0.2, 12.3], "float32"), Continuous(resolution=0.1))


def test_given_kinds_come_back() -> None:
    exactly([3, 1], Categorical())
    exactly([3.5, NAN, 1.0], Categorical())
    exactly(["b", "a"], Categorical(["b", "a", "c"]))
    assert there_and_back([1, 2, 4], Continuous()).tolist() == [1.0, 2.0, 4.0]


def test_categories_given_beyond_the_dtype() -> None:
    values = pd.Categorical([1, 2])
    schema = schema_of(values, Categorical([1, 2, "x"]))
    back = decode(schema, torch.tensor([[0.0], [2.0]]))["x"]
    assert back.tolist() == [1, "x"]


def test_missing_values_of_dtypes_without_one() -> None:
    nothing = torch.tensor([[0.0], [NAN]])
    assert decode(schema_of([1, 2]), nothing)["x"].dtype == "float64"
    assert decode(schema_of([1, 2], Categorical()), nothing)["x"].dtype == "float64"
    assert decode(schema_of([True, False]), nothing)["x"].tolist()[0] is False
    whole = pd.array([1], dtype="Int64")
    for values in ([1], [True], ["a"], [DAY], [1.5], whole, pd.cut([1.0], 1)):
        assert decode(schema_of(values), nothing)["x"].isna().tolist() == [False, True]


def test_interval_columns_come_back_without_width() -> None:
    array = pd.arrays.IntervalArray.from_tuples([(0.0, 1.0), (2.0, 2.0)])
    schema = schema_of(array)
    back = decode(schema, encode_values(schema, "x", [0.5, NAN])[0][:, None])["x"]
    assert back.dtype == array.dtype
    assert back[0].left == back[0].right == pytest.approx(0.5)
    assert pd.isna(back[1])
    low, high, _ = cells(schema, back)
    assert low[0] == high[0]
    assert decode_column(schema, "x", torch.zeros(2)).dtype == "float64"
    times = pd.arrays.IntervalArray.from_breaks(pd.date_range("2020", periods=3, tz="UTC"))
    assert decode(schema_of(times), torch.zeros(1, 1))["x"].dtype == times.dtype


# Frames ---------------------------------------------------------------------------------------


def test_frames() -> None:
    schema = infer(pd.DataFrame({"a": [1.5, 2.5], 7: ["u", "v"]}))
    back = decode(schema, torch.tensor([[0.0, 1.0], [1.0, 0.0], [NAN, NAN]]))
    assert back.columns.tolist() == ["a", 7]
    assert back.index.equals(pd.RangeIndex(3))
    assert back[7].tolist()[:2] == ["v", "u"]
    assert decode(schema, torch.zeros(2, 1), [7]).columns.tolist() == [7]
    assert decode(schema, torch.zeros(0, 2)).dtypes.tolist() == back.dtypes.tolist()
    assert decode(schema, torch.zeros(2, 2, requires_grad=True)).shape == (2, 2)
    with pytest.raises(ValueError, match=r"shape \(N, 2\).*got \(3, 1\)"):
        decode(schema, torch.zeros(3, 1))


def test_decode_column_keeps_the_shape() -> None:
    zoned = pd.date_range("2020", periods=3, tz="UTC")
    for values in ([1, 2], [1.5, 2.5], ["a", "b"], [True, False], [DAY], zoned, pd.cut([1.0], 1)):
        schema = schema_of(values)
        flat = decode_column(schema, "x", torch.zeros(6))
        assert flat.dtype == decode(schema, torch.zeros(1, 1))["x"].dtype
        for shape in ((2, 3), (6, 1, 1), ()):
            array = decode_column(schema, "x", torch.zeros(shape))
            assert isinstance(array, np.ndarray)
            assert array.shape == shape
            assert array.ravel()[0] == flat[0]


# Bounds ---------------------------------------------------------------------------------------

FAR = torch.tensor([-INF, -1e300, -1e9, -50.0, 0.0, 50.0, 1e9, 1e300, INF], dtype=torch.float64)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "Float32"])
@pytest.mark.parametrize(
    ("lower", "upper"), [(0.1, None), (None, 0.7), (0.1, 0.7), (-1, 1), (0, 2**-14)]
)
def test_nothing_leaks_past_bounds(lower: float | None, upper: float | None, dtype: str) -> None:
    middle = np.mean([x for x in (lower, upper) if x is not None]) if lower and upper else 2**-15
    middle = middle if lower is None or middle > lower else 0.2
    schema = schema_of(pd.Series([middle], dtype=dtype), Continuous(lower, upper))
    values = decode_column(schema, "x", FAR)
    floats = np.asarray(values, dtype="float64")
    assert np.isfinite(floats[1:-1]).all()
    assert lower is None or (floats > lower).all()
    assert upper is None or (floats < upper).all()
    assert (np.diff(floats) >= 0).all()


def test_unbounded_floats_may_be_infinite_only_at_infinity() -> None:
    values = decode_column(schema_of(np.array([1.5, 2.5], "float32")), "x", FAR)
    same(np.isinf(values), [True] + [False] * 7 + [True])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "Int16", "float64", object])
def test_integers_stay_within_bounds_and_dtypes(dtype: Any) -> None:
    for kind, least, most in [
        (Integer(), None, None),
        (Integer(2, 5), 2, 5),
        (Integer(1), 1, None),
    ]:
        values = decode_column(schema_of(pd.Series([3, 4], dtype=dtype), kind), "x", FAR)
        numbers = [float(value) for value in values]
        assert numbers == sorted(numbers)
        assert least is None or numbers[0] == least
        assert most is None or numbers[-1] == most
        assert dtype != "int8" or least or (numbers[0], numbers[-1]) == (-128, 127)
        assert "u" not in str(dtype) or numbers[0] >= 0


def test_times_stay_in_the_calendar() -> None:
    for values in (
        pd.Series([DAY, DAY + pd.Timedelta(1, "D")]),
        pd.Series([DAY, DAY + pd.Timedelta(1, "D")]).dt.as_unit("s"),
        pd.Series([pd.Timestamp("2261-01-01"), pd.Timestamp("1700-01-01")]).dt.as_unit("ns"),
        pd.Series([DAY.tz_localize("Europe/Oslo")]),
    ):
        back = pd.Series(decode_column(schema_of(values), "x", FAR))
        assert back.dtype == values.dtype
        assert back.notna().all()
        assert back.is_monotonic_increasing
        assert str(back[0])
    far = pd.Timestamp("1800-01-01").as_unit("ns"), pd.Timestamp("2200-01-01").as_unit("ns")
    seen = pd.Series([DAY, DAY + pd.Timedelta(1, "ns")]).dt.as_unit("ns")
    back = decode_column(schema_of(seen, Continuous(*far)), "x", FAR)
    assert far[0] < back[0] < far[0] + pd.Timedelta(9, "us")
    assert far[1] - pd.Timedelta(9, "us") < back[-1] < far[1]
    encode_values(schema_of(seen, Continuous(*far)), "x", back)  # raises for a bound
    bounded = schema_of([DAY], Continuous(lower=DAY - pd.Timedelta(1, "D"), upper=DAY.ceil("D")))
    back = pd.Series(decode_column(bounded, "x", FAR))
    assert (back > DAY - pd.Timedelta(1, "D")).all()
    assert (back < DAY.ceil("D")).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_atoms_come_back(dtype: torch.dtype) -> None:
    x = np.append(np.random.default_rng(0).random(50), [0.0, 1.0, 0.3])
    schema = schema_of(x, Continuous(0, 1, atoms=(0, 0.3, 1)))
    model = torch.tensor(schema.atoms("x"), dtype=dtype)
    assert decode_column(schema, "x", model).tolist() == [0, 0.3, 1]
    beside = torch.nextafter(model, torch.zeros(3, dtype=dtype))
    low, _, high = decode_column(schema, "x", beside)
    assert 0 < low < high < 1


def test_draws_of_a_cell_decode_to_its_value() -> None:
    rng = np.random.default_rng(0)
    for values, kind in [
        (np.arange(-20, 60), None),
        (np.arange(0, 60), Integer(lower=0)),
        (np.arange(0, 60), Integer(0, 59)),
        (np.arange(0, 60), Integer(upper=59)),
        (2**62 + np.arange(60), Integer(lower=0)),
        (np.arange(0, 60) / 10, Continuous(0, 5.9, resolution=0.1)),
    ]:
        schema = schema_of(values, kind)
        low, high, _ = cells(schema, values)
        low, high = np.maximum(low, -9), np.minimum(high, 9)
        for share in (1.0, 1e-9, *rng.random(5)):
            inside = np.clip(low + share * (high - low), np.nextafter(low, 9), high)
            same(decode_column(schema, "x", torch.from_numpy(inside)), values)


def test_encoding_a_decoded_sample_never_fails() -> None:
    rng = np.random.default_rng(0)
    kinds: dict[Any, Any] = {
        "a": Continuous(0, 1),
        "b": Integer(0, 8),
        "d": Continuous(0, 1, resolution=0.1),
        "f": Continuous(0, atoms=(0,)),
    }
    data = {
        **{"a": rng.random(50), "b": rng.integers(0, 9, 50), "c": rng.choice(["u", "v"], 50)},
        **{"d": np.round(rng.random(50), 1), "e": pd.date_range("2020", periods=50)},
        "f": np.where(rng.random(50) < 0.5, 0, rng.random(50)),
    }
    frame = pd.DataFrame(data)
    schema = infer(frame, kinds)
    draws = torch.from_numpy(rng.normal(size=(500, 6)) * 10.0 ** rng.integers(0, 6, (500, 1)))
    draws[:, 2] = torch.randint(2, (500,))
    sample = decode(schema, draws)
    assert sample.dtypes.tolist() == frame.dtypes.tolist()
    out = encode(schema, sample)
    assert not out.empty.any()
    assert not out.evidence.missing().any()
