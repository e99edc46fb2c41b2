"""Tables become evidence on the model's scale, with the log-Jacobian."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals.columns import (
    Categorical,
    Continuous,
    Integer,
    encode,
    encode_bounds,
    encode_values,
    infer,
)
from tests.columns.helpers import INF, NAN, cells, ordered, same, schema_of, table

# Columns --------------------------------------------------------------------------------------


def test_columns_are_found_by_name() -> None:
    frame = table()
    schema = infer(frame)
    full = encode(schema, frame).evidence
    assert full.columns == (0, 1, 2, 3)
    assert full.lower.dtype == torch.float64
    some = encode(schema, frame[["t", "x"]]).evidence
    assert some.columns == (3, 0)
    same(some.lower, full.lower[:, [3, 0]])
    chosen = encode(schema, frame, columns=["t", 0]).evidence
    assert chosen.columns == (3, 0)
    same(chosen.lower, some.lower)


def test_missing_is_nan() -> None:
    evidence = encode(infer(table()), table()).evidence
    same(evidence.missing(), table().isna())


def test_arrays_are_read_by_position() -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    schema = infer(pd.DataFrame(x, columns=["a", "b", "c"]))
    by_name = encode(schema, pd.DataFrame(x, columns=["a", "b", "c"])).evidence.lower
    for data in (x, torch.from_numpy(x), np.asfortranarray(x), x[::-1][::-1]):
        same(encode(schema, data).evidence.lower, by_name)
    same(encode(schema, x[:, ::2], columns=["a", "c"]).evidence.lower, by_name[:, ::2])


def test_read_only_and_strided_arrays() -> None:
    x = np.random.default_rng(0).normal(size=(6, 6))
    x.flags.writeable = False
    view = x[::2, ::-2]
    schema = infer(view)
    before = view.copy()
    out = encode(schema, view)
    out.evidence.lower.mul_(2)  # ours to change
    same(view, before)
    same(encode(schema, view).evidence.lower, encode(schema, before).evidence.lower)
    frame = pd.DataFrame({"x": x[0], "n": np.arange(6), "c": list("abcabc")})
    copy = frame.copy()
    encode(infer(frame), frame)
    pd.testing.assert_frame_equal(frame, copy)


def test_no_rows_and_no_columns() -> None:
    schema = infer(table())
    none = encode(schema, table().iloc[:0])
    assert none.evidence.lower.shape == (0, 4)
    assert none.log_jacobian.shape == none.empty.shape == (0,)
    bare = encode(schema, table()[[]])
    assert len(bare.evidence) == 4
    assert bare.evidence.columns == ()
    same(bare.log_jacobian, np.zeros(4))


def test_exact_evidence_promises_no_interval() -> None:
    evidence = encode(infer(table()), table()[["x", "t", "c"]]).evidence
    assert evidence.upper is evidence.lower
    assert evidence.intervals == frozenset()
    assert encode(infer(table()), table()).evidence.intervals == {1}


# Cells ----------------------------------------------------------------------------------------


def test_continuous_cells() -> None:
    x = np.array([1.0, 2.0, 6.0])
    low, high, _ = cells(schema_of(x), x)
    np.testing.assert_allclose(low, (x - 3) / x.std(), atol=1e-15)
    assert low is high or (low == high).all()


def test_bounded_cells() -> None:
    x = np.array([0.1, 0.5, 0.7])
    for kind, bent in [
        (Continuous(lower=-1), np.log(x + 1)),
        (Continuous(upper=2), -np.log(2 - x)),
        (Continuous(0, 1), np.log(x / (1 - x))),
    ]:
        low, _, _ = cells(schema_of(x, kind), x)
        np.testing.assert_allclose(low, (bent - bent.mean()) / bent.std(), atol=1e-14)


def test_integer_cells() -> None:
    x = [3, 4, 8]
    low, high, _ = cells(schema_of(x), x)
    np.testing.assert_allclose(low, (np.array(x) - 5.5) / np.std(x))
    np.testing.assert_allclose(high, (np.array(x) - 4.5) / np.std(x))
    bounded = schema_of(x, Integer(3, 8))
    low, high, _ = cells(bounded, x)
    assert low[0] == -INF
    assert high[2] == INF
    assert high[0] == low[1]


def test_category_cells() -> None:
    low, high, _ = cells(schema_of(["b", "a", None]), ["b", "a", None])
    same(low, [1.0, 0.0, NAN])
    same(high, low)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_every_missing_value_is_missing(missing: Any) -> None:
    for seen in ([1.5, 2.5], [1, 2], ["a", "b"], [pd.Timestamp(0)], [True, False]):
        schema = schema_of(seen)
        values = pd.Series([seen[0], missing], dtype=object)
        low, high, empty = cells(schema, values)
        assert np.isnan(low[1])
        assert np.isnan(high[1])
        assert not empty.any()
        only = cells(schema, pd.Series([missing, missing], dtype=object))[0]
        assert np.isnan(only).all()


def test_a_column_may_come_with_another_dtype() -> None:
    schema = schema_of([1, 2, 3])
    want = cells(schema, [2, 3])[0]
    for dtype in ("float64", "Int8", "uint64", "float32", object):
        same(cells(schema, pd.Series([2, 3], dtype=dtype))[0], want)
    same(cells(schema_of([1.5, 2.0]), [2])[0], cells(schema_of([1.5, 2.0]), [2.0])[0])
    # Categories are compared as Python does.
    flags = schema_of([True, False])
    same(cells(flags, pd.Series([True, None], dtype=object))[0], [1, NAN])
    same(cells(flags, [0.0, 1.0, NAN])[0], [0, 1, NAN])
    codes = schema_of([1, 2], Categorical())
    same(cells(codes, [2.0, NAN])[0], [1, NAN])
    same(cells(codes, pd.Categorical([2, 1, 2]))[0], [1, 0, 1])


def test_times_of_other_units_zones_and_text() -> None:
    times = pd.date_range("2020-01-01 12:00", periods=4, freq="D", tz="Europe/Oslo").as_unit("ms")
    schema = schema_of(times)
    want = cells(schema, times)[0]
    for unit in ("s", "us", "ns"):
        same(cells(schema, times.as_unit(unit))[0], want)
    same(cells(schema, times.tz_convert("Asia/Tokyo"))[0], want)
    same(cells(schema, times.astype(object))[0], want)
    same(cells(schema, times.tz_localize(None).strftime("%Y-%m-%d %H:%M"))[0], want)
    half = cells(schema, times[:1].as_unit("ns") + pd.Timedelta(500, "us"))[0]
    assert half[0] > want[0]
    spans = pd.to_timedelta([1, 2, 3], "h")
    assert cells(schema_of(spans), ["1h", "2h"])[0][0] == cells(schema_of(spans), spans)[0][0]


# The Jacobian ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "x"),
    [
        (Continuous(), [-3.0, 0.1, 50.0]),
        (Continuous(lower=-4), [-3.0, 0.1, 50.0]),
        (Continuous(upper=51), [-3.0, 0.1, 50.0]),
        (Continuous(lower=-4, upper=51), [-3.0, 0.1, 50.0]),
        (Continuous(lower=-4, atoms=(7,)), [-3.0, 0.1, 50.0]),
    ],
)
@pytest.mark.parametrize("size", [1.0, 1e-5, 1e8])
def test_log_jacobian_is_the_log_derivative(kind: Continuous, x: list[float], size: float) -> None:
    at = np.array(x) * size
    scaled = [None if b is None else b * size for b in (kind.lower, kind.upper)]
    schema = schema_of(at, Continuous(*scaled, atoms=tuple(a * size for a in kind.atoms)))
    step = 1e-6 * size
    ends = [encode_values(schema, "x", at + side * step)[0].numpy() for side in (-1, 1)]
    slope = (ends[1] - ends[0]) / (2 * step)
    _, log_jacobian = encode_values(schema, "x", at)
    np.testing.assert_allclose(log_jacobian.numpy(), np.log(slope), atol=1e-6)
    out = encode(schema, pd.DataFrame({"x": at}))
    same(out.log_jacobian, log_jacobian)


def test_log_jacobian_sums_over_exact_continuous_cells() -> None:
    frame = table()
    schema = infer(frame)
    lone = sum(encode(schema, frame[[name]]).log_jacobian for name in ("x", "t"))
    same(encode(schema, frame).log_jacobian, lone)
    same(encode(schema, frame[["n", "c"]]).log_jacobian, np.zeros(4))
    censored = encode(schema, frame[["x"]], frame[["x"]] + np.array([[1], [0], [0], [0]]))
    same(censored.log_jacobian == 0, [True, False, True, False])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_densities_of_times_are_per_second(unit: str) -> None:
    times = pd.Series(pd.to_datetime([0, 10, 20], unit="s")).dt.as_unit(unit)
    _, log_jacobian = encode_values(schema_of(times), "x", times)
    np.testing.assert_allclose(log_jacobian, -math.log(np.std([0, 10, 20])))
    _, log_jacobian = encode_values(schema_of(times - times[0]), "x", times - times[0])
    np.testing.assert_allclose(log_jacobian, -math.log(np.std([0, 10, 20])))


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_huge_and_tiny_scales(size: float) -> None:
    schema = schema_of(np.array([1.0, 2.0, 4.0]) * size)
    out = encode(schema, pd.DataFrame({"x": np.array([1.0, 2.0, 4.0]) * size}))
    assert out.evidence.lower.abs().max() < 2
    np.testing.assert_allclose(out.log_jacobian, -math.log(np.std([1, 2, 4])) - math.log(size))
    far = encode(schema, pd.DataFrame({"x": [1.7e308, -1.7e308]})).evidence.lower
    assert far.isfinite().all()


# Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "error", "match"),
    [
        ({"x": ["low"]}, TypeError, r"'x' \(float64\) to hold numbers; got 'low'.*in row 0. Conv"),
        ({"x": pd.Series([1.0, "a"], dtype=object)}, TypeError, "numbers; got 'a'.*in row 1"),
        ({"x": [True]}, TypeError, "'x' .* to hold numbers; got True"),
        ({"x": pd.Series([True, 1.5], dtype=object)}, TypeError, "numbers; got True"),
        ({"x": [pd.Timestamp(0)]}, TypeError, "to hold numbers; got Timestamp"),
        ({"x": pd.Categorical([1.0])}, TypeError, "to hold numbers; got 1.0"),
        ({"x": [1j]}, TypeError, "to hold numbers; got 1j"),
        ({"x": [np.inf]}, ValueError, "column 'x' to hold finite numbers; got inf in row 0"),
        ({"n": [1.5]}, ValueError, "whole numbers; got 1.5 in row 0"),
        ({"n": [2, 99]}, ValueError, r"\[0, 9\]; got 99 in row 1"),
        ({"c": ["a", "z"]}, ValueError, "one of 'a', 'b'; got 'z' in row 1. Leave"),
        ({"c": [1]}, ValueError, "one of 'a', 'b'; got 1 in row 0"),
        ({"c": pd.Series([{}], dtype=object)}, TypeError, "column 'c'.*a string, a number.*dict"),
        ({"t": [1]}, TypeError, r"'t' \(datetime64.* to hold times; got 1"),
        ({"t": ["nonsense"]}, TypeError, "to hold times such as .*got 'nonsense'"),
        (
            {"t": [pd.Timestamp(0, tz="UTC")]},
            TypeError,
            r"got times with a time zone. Use tz_convert\(None\)",
        ),
        ({"d": ["nonsense"]}, TypeError, "to hold durations such as .*got 'nonsense'"),
        ({"d": [pd.Timestamp(0)]}, TypeError, "'d' .* to hold durations"),
        (
            {"tz": [pd.Timestamp(0)]},
            TypeError,
            r"times with no time zone. Use tz_localize\('UTC'\)",
        ),
        ({"xx": [1.0]}, ValueError, "got 'xx'. Did you mean 'x'?"),
        ({"other": [1.0]}, ValueError, "got 'other'. The columns are 'x', 'n'"),
    ],
)
def test_errors(frame: dict[str, Any], error: type[Exception], match: str) -> None:
    seen = pd.DataFrame({"x": [1.5, 2.0], "n": [1, 2], "c": ["a", "b"], "t": [pd.Timestamp(0)] * 2})
    seen["d"] = pd.to_timedelta([1, 2], "s")
    seen["tz"] = seen["t"].dt.tz_localize("UTC")
    schema = infer(seen, {"n": Integer(0, 9)})
    with pytest.raises(error, match=match):
        encode(schema, pd.DataFrame(frame))


def test_rows_are_named_by_their_label() -> None:
    frame = pd.DataFrame({"x": [0.5, 2.0]}, index=["first", "second"])
    with pytest.raises(ValueError, match=r"got 2.0 in row 'second'"):
        encode(schema_of([0.5], Continuous(0, 1)), frame)


def test_errors_of_shape() -> None:
    schema = infer(table())
    with pytest.raises(ValueError, match="Expected 4 columns, as in the table fitted; got 3"):
        encode(schema, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="Expected each column name once; got 'x' twice"):
        encode(schema, table()[["x", "x"]])
    with pytest.raises(ValueError, match="none called 'n'"):
        encode(schema, table()[["x"]], columns=["n"])
    with pytest.raises(TypeError, match="to hold lower ends, as there are upper ones"):
        cells(schema_of([1.0, 2.0]), pd.arrays.IntervalArray.from_tuples([(0, 1)]), [1.0])


def test_values_that_cannot_occur_may_be_empty_instead() -> None:
    for kind, seen, bad in [
        (Continuous(0, 1), [0.5], [0.0, 1.0, -3.0, 7.0]),
        (Integer(0, 3), [1], [-1.0, 4.0, 1.5]),
        (Continuous(0, 1, resolution=0.1), [0.5], [-0.1, 1.1]),
    ]:
        schema = schema_of(seen, kind)
        low, high, empty = cells(schema, [*bad, seen[0], NAN], strict=False)
        same(empty, [True] * len(bad) + [False, False])
        assert np.isnan(low[: len(bad)]).all()
        assert np.isnan(high[: len(bad)]).all()
        out = encode(schema, pd.DataFrame({"x": bad}), strict=False)
        same(out.log_jacobian, np.zeros(len(bad)))


# Arrays of values and bounds ------------------------------------------------------------------


def test_encode_values() -> None:
    schema = infer(table())
    for name in schema.names:
        model, _ = encode_values(schema, name, table()[name])
        cell = encode(schema, table()[[name]]).evidence
        inside = (cell.lower[:, 0] <= model) & (model <= cell.upper[:, 0])
        same(inside | model.isnan(), [True] * 4)
    same(encode_values(schema, "c", "b")[0], [1.0])
    same(encode_values(schema, "x", 2.0)[0], encode_values(schema, 0, torch.tensor([2.0]))[0])
    assert len(encode_values(schema, "x", [])[0]) == 0
    with pytest.raises(ValueError, match="finite numbers; got inf at position 1"):
        encode_values(schema, "x", [0.0, INF])
    with pytest.raises(ValueError, match="one dim"):
        encode_values(schema, "x", np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"whole numbers; got 1.5. Round"):
        encode_values(schema, "n", 1.5)


def test_encode_bounds() -> None:
    schema = schema_of([0.5, 0.2, 0.7], Continuous(0, 1))
    half = encode_values(schema, "x", 0.5)[0].item()
    low, high = encode_bounds(
        schema, "x", [-INF, 0.5, 0.5, NAN, -3, 1, -3], [0.5, INF, 0.5, NAN, 9, 2, 0]
    )
    same(low, [-INF, half, half, -INF, -INF, INF, INF])
    same(high, [half, INF, half, INF, INF, INF, INF])
    same(torch.cat(encode_bounds(schema, "x", None, 0.5)), [-INF, half])
    same(encode_bounds(schema, "x", None, [0.5, 0.5])[1], [half, half])
    same(encode_bounds(schema, "x", [0.5, 0.5], None)[0], [half, half])
    assert len(encode_bounds(schema, "x", None, [])[0]) == 0
    same(torch.cat(encode_bounds(schema, "x", 3.0, 3.0)), [INF, INF])
    same(torch.cat(encode_bounds(ordered(), "x", None, "M")), [-INF, 1])
    with pytest.raises(ValueError, match=r"lower ends below upper ends; got 0.7 and 0.5. Swap"):
        encode_bounds(schema, "x", 0.7, 0.5)
    with pytest.raises(ValueError, match=r"as many lower as upper.*got 2 and 3"):
        encode_bounds(schema, "x", [0, 0], [1, 1, 1])


def test_text_with_and_without_a_time_zone() -> None:
    schema = schema_of(pd.date_range("2020-03-01", periods=60, tz="Europe/Oslo"))
    want = pd.Series([pd.Timestamp("2020-03-05 12:00"), pd.Timestamp("2020-03-06")])
    want = want.dt.tz_localize("Europe/Oslo")
    got = cells(schema, ["2020-03-05T11:00Z", "2020-03-06"])[0]
    same(got, cells(schema, want)[0])
    same(cells(schema, ["2020-03-05 12:00:00+01:00", "2020-03-06 00:00"])[0], got)
    # The clocks skip from two to three o'clock.
    skipped = cells(schema, ["2020-03-29 02:30", "2020-03-29 03:00"])[0]
    assert skipped[0] == skipped[1]
    naive = schema_of(pd.date_range("2020", periods=3))
    with pytest.raises(TypeError, match=r"got times with a time zone. Use tz_convert\(None\)"):
        cells(naive, ["2020-01-01 00:00Z"])


def test_times_out_of_reach() -> None:
    schema = schema_of(pd.Series(pd.date_range("2020", periods=3)).dt.as_unit("ns"))
    with pytest.raises(ValueError, match=r"within reach of datetime64\[ns\]"):
        cells(schema, pd.Series([pd.Timestamp("3000-01-01").as_unit("s")]))


def test_narrow_floats_with_bounds_beyond_them() -> None:
    x = np.array([1.5, 2.5], "float16")
    schema = schema_of(x, Continuous(-1e6, 1e6))
    assert np.isfinite(cells(schema, x)[0]).all()
