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
    schema, frame = infer(table()), table()
    full = encode(schema, frame).evidence
    assert full.columns == (0, 1, 2, 3)
    assert full.lower.dtype == torch.float64
    same(full.missing(), frame.isna())
    for some in (encode(schema, frame[["t", "x"]]), encode(schema, frame, columns=["t", 0])):
        assert some.evidence.columns == (3, 0)
        same(some.evidence.lower, full.lower[:, [3, 0]])


def test_arrays_are_read_by_position_and_left_alone() -> None:
    x = np.random.default_rng(0).normal(size=(6, 3))
    x.flags.writeable = False
    schema = infer(pd.DataFrame(x, columns=["a", "b", "c"]))
    by_name = encode(schema, pd.DataFrame(x, columns=["a", "b", "c"])).evidence.lower
    for data in (x, torch.from_numpy(x.copy()), np.asfortranarray(x), x[::-1][::-1]):
        same(encode(schema, data).evidence.lower, by_name)
    same(encode(schema, x[:, ::2], columns=["a", "c"]).evidence.lower, by_name[:, ::2])
    before = x.copy()
    encode(schema, x).evidence.lower.mul_(2)  # ours to change
    same(x, before)
    frame = table()
    encode(infer(frame), frame)
    pd.testing.assert_frame_equal(frame, table())


def test_no_rows_and_no_columns() -> None:
    schema = infer(table())
    none = encode(schema, table().iloc[:0])
    assert none.evidence.lower.shape == (0, 4)
    assert none.log_jacobian.shape == none.empty.shape == (0,)
    bare = encode(schema, table()[[]])
    assert (len(bare.evidence), bare.evidence.columns) == (4, ())
    same(bare.log_jacobian, np.zeros(4))


def test_exact_evidence_promises_no_interval() -> None:
    evidence = encode(infer(table()), table()[["x", "t", "c"]]).evidence
    assert evidence.upper is evidence.lower
    assert evidence.intervals == frozenset()
    assert encode(infer(table()), table()).evidence.intervals == {1}


# Cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bend"),
    [
        (Continuous(), lambda x: x),
        (Continuous(lower=-1), lambda x: np.log(x + 1)),
        (Continuous(upper=2), lambda x: -np.log(2 - x)),
        (Continuous(0, 1), lambda x: np.log(x / (1 - x))),
    ],
)
def test_continuous_cells(kind: Any, bend: Any) -> None:
    x = np.array([0.1, 0.5, 0.7])
    low, high, _ = cells(schema_of(x, kind), x)
    np.testing.assert_allclose(low, (bend(x) - bend(x).mean()) / bend(x).std(), atol=1e-14)
    same(low, high)


def test_integer_and_category_cells() -> None:
    x = [3, 4, 8]
    low, high, _ = cells(schema_of(x), x)
    np.testing.assert_allclose(low, (np.array(x) - 5.5) / np.std(x))
    np.testing.assert_allclose(high, (np.array(x) - 4.5) / np.std(x))
    low, high, _ = cells(schema_of(x, Integer(3, 8)), x)
    assert (low[0], high[2], high[0]) == (-INF, INF, low[1])
    low, high, _ = cells(schema_of(["b", "a", None]), ["b", "a", None])
    same(low, [1.0, 0.0, NAN])
    same(high, low)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_every_missing_value_is_missing(missing: Any) -> None:
    for seen in ([1.5, 2.5], [1, 2], ["a", "b"], [pd.Timestamp(0)], [True, False]):
        schema = schema_of(seen)
        low, high, empty = cells(schema, pd.Series([seen[0], missing], dtype=object))
        assert np.isnan([low[1], high[1]]).all()
        assert not empty.any()
        assert np.isnan(cells(schema, pd.Series([missing, missing], dtype=object))[0]).all()


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
    text = times.tz_localize(None).strftime("%Y-%m-%d %H:%M")
    others = [times.as_unit(unit) for unit in ("s", "us", "ns")]
    for other in (*others, times.tz_convert("Asia/Tokyo"), times.astype(object), text):
        same(cells(schema, other)[0], want)
    assert cells(schema, times[:1].as_unit("ns") + pd.Timedelta(500, "us"))[0][0] > want[0]
    spans = pd.to_timedelta([1, 2, 3], "h")
    same(cells(schema_of(spans), ["1h", "2h"])[0], cells(schema_of(spans), spans)[0][:2])


def test_text_with_and_without_a_time_zone() -> None:
    schema = schema_of(pd.date_range("2020-03-01", periods=60, tz="Europe/Oslo"))
    want = pd.to_datetime(["2020-03-05 12:00", "2020-03-06 00:00"]).tz_localize("Europe/Oslo")
    for text in (
        ["2020-03-05T11:00Z", "2020-03-06"],
        ["2020-03-05 12:00:00+01:00", "2020-03-06 00:00"],
    ):
        same(cells(schema, text)[0], cells(schema, want)[0])
    # The clocks skip from two to three o'clock.
    skipped = cells(schema, ["2020-03-29 02:30", "2020-03-29 03:00"])[0]
    assert skipped[0] == skipped[1]
    with pytest.raises(TypeError, match=r"got times with a time zone. Use tz_convert\(None\)"):
        cells(schema_of(pd.date_range("2020", periods=3)), ["2020-01-01 00:00Z"])


def test_narrow_floats_with_bounds_beyond_them() -> None:
    x = np.array([1.5, 2.5], "float16")
    assert np.isfinite(cells(schema_of(x, Continuous(-1e6, 1e6)), x)[0]).all()


# The Jacobian ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "upper", "atoms"),
    [(None, None, ()), (-4, None, ()), (None, 51, ()), (-4, 51, ()), (-4, None, (7,))],
)
@pytest.mark.parametrize("size", [1.0, 1e-5, 1e8])
def test_log_jacobian_is_the_log_derivative(
    lower: Any, upper: Any, atoms: Any, size: float
) -> None:
    at = np.array([-3.0, 0.1, 50.0]) * size
    bounds = [None if b is None else b * size for b in (lower, upper)]
    schema = schema_of(at, Continuous(*bounds, atoms=tuple(a * size for a in atoms)))
    step = 1e-6 * size
    ends = [encode_values(schema, "x", at + side * step)[0].numpy() for side in (-1, 1)]
    _, log_jacobian = encode_values(schema, "x", at)
    np.testing.assert_allclose(log_jacobian, np.log((ends[1] - ends[0]) / (2 * step)), atol=1e-6)
    same(encode(schema, pd.DataFrame({"x": at})).log_jacobian, log_jacobian)


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
    for values in (times, times - times[0]):
        _, log_jacobian = encode_values(schema_of(values), "x", values)
        np.testing.assert_allclose(log_jacobian, -math.log(np.std([0, 10, 20])))


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_huge_and_tiny_scales(size: float) -> None:
    frame = pd.DataFrame({"x": np.array([1.0, 2.0, 4.0]) * size})
    schema = infer(frame)
    out = encode(schema, frame)
    assert out.evidence.lower.abs().max() < 2
    np.testing.assert_allclose(out.log_jacobian, -math.log(np.std([1, 2, 4])) - math.log(size))
    far = encode(schema, pd.DataFrame({"x": [1.7e308, -1.7e308]})).evidence.lower
    assert far.isfinite().all()


# Intervals ------------------------------------------------------------------------------------


def test_censored_cells() -> None:
    schema = schema_of([0.0, 1.0, 2.0])
    one = cells(schema, [1.0])[0][0]
    ends = [1.0, 1.0, -INF, NAN, 1.0, -INF, NAN], [1.0, INF, 1.0, 1.0, NAN, INF, NAN]
    low, high, _ = cells(schema, *ends)
    same(low, [one, one, -INF, -INF, one, NAN, NAN])
    same(high, [one, INF, one, one, INF, NAN, NAN])
    days = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]))
    at = cells(schema_of(days), days)[0]
    sides = pd.Series([pd.NaT, days[1], pd.NaT]), pd.Series([days[0], pd.NaT, pd.NaT])
    low, high, _ = cells(schema_of(days), *sides)
    same(low, [-INF, at[1], NAN])
    same(high, [at[0], INF, NAN])


def test_upper_ends_of_some_columns() -> None:
    frame = table()
    schema = infer(frame)
    evidence = encode(schema, frame, frame[["x"]] + 1).evidence
    assert evidence.intervals == {0, 1}
    plain = encode(schema, frame).evidence
    same(evidence.lower[:, [0, 2, 3]], plain.lower[:, [0, 2, 3]])
    same(evidence.upper[:, 3], plain.upper[:, 3])
    both = encode(schema, frame.to_numpy(object), frame.to_numpy(object)).evidence
    same(both.lower, plain.lower)


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_interval_columns(closed: Any) -> None:
    left, right = [0.0, 1.0, -np.inf, NAN, 2.0], [1.0, 3.0, 2.0, NAN, 2.0]
    array = pd.arrays.IntervalArray.from_arrays(left, right, closed)
    schema = schema_of(array)
    assert schema["x"].location == pytest.approx(np.mean([0, 1, 2, 1, 3, 2, 2]))
    low, high, _ = cells(schema, array)
    pair = cells(schema, left, right)
    same(low, pair[0])
    same(high, pair[1])
    assert low[4] == high[4] == cells(schema, [2.0])[0][0]
    times = pd.arrays.IntervalArray.from_breaks(pd.date_range("2020", periods=4, tz="UTC"), closed)
    low, high, _ = cells(schema_of(times), times)
    same(high[:-1], low[1:])
    assert (low < high).all()


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_intervals_of_columns_with_mass_have_the_ends_they_say(closed: Any) -> None:
    array = pd.arrays.IntervalArray.from_tuples([(1, 3)], closed)
    inside = [k for k in (1, 2, 3) if k in array[0]]
    schema = schema_of([1, 2, 3, 4])
    at_low, at_high, _ = cells(schema, inside)
    low, high, _ = cells(schema, array)
    assert (low[0], high[0]) == (at_low[0], at_high[-1])
    atoms = schema_of([1.5, 2.5], Continuous(atoms=(1, 3)))
    points = cells(atoms, [1.0, 3.0])[0]
    low, high, _ = cells(atoms, array)
    holds = [bool(low[0] < point <= high[0]) for point in points]
    assert holds == [closed in ("left", "both"), closed in ("right", "both")]


def test_empty_intervals() -> None:
    schema = schema_of([1, 2, 3, 4], Integer(1, 4))
    low, _, empty = cells(schema, [2.1, 4, -3, 1], [2.9, 9, 0, 2])
    same(empty, [True, True, True, False])
    same(np.isnan(low), empty)
    bounded = schema_of([0.5, 0.7], Continuous(0, 1))
    assert cells(bounded, [-2, 1, 0, 1.5], [0, 2, 1, 3])[2].tolist() == [True, True, False, True]


def test_ordered_categories() -> None:
    low, high, empty = cells(ordered(), ["S", "S", None, "L"], ["M", "S", "M", None])
    same(low, [0, 0, -INF, NAN])
    same(high, [1, 0, 1, NAN])
    same(empty, [False, False, False, True])
    with pytest.raises(ValueError, match="got L and S in row 0"):
        cells(ordered(), ["L"], ["S"])


def test_tiny_intervals_keep_width() -> None:
    low, high, _ = cells(schema_of([1e15, 2e15]), [1e15], [np.nextafter(1e15, 2e15)])
    assert low < high


# Atoms ----------------------------------------------------------------------------------------


def test_atoms_stand_for_themselves() -> None:
    x = [0.0, 1.0, 0.3, 0.5, 0.0]
    schema = schema_of(x, Continuous(0, 1, atoms=(0, 0.5, 1)))
    atoms = schema.atoms("x")
    assert atoms[0] == -1e6
    assert atoms[2] == 1e6
    low, high, _ = cells(schema, x)
    same(low[[0, 1, 3, 4]], [atoms[0], atoms[2], atoms[1], atoms[0]])
    same(low, high)
    out = encode(schema, pd.DataFrame({"x": x}))
    same(out.log_jacobian.numpy() != 0, [False, False, True, False, False])


def test_intervals_with_atoms() -> None:
    schema = schema_of([0.0, 0.3, 0.5, 1.0], Continuous(0, 1, atoms=(0, 0.5, 1)))
    zero, half, _ = schema.atoms("x")
    end = cells(schema, [0.3])[0][0]
    low, high, empty = cells(
        schema,
        [-1, 0, -1, 0.3, 0.3, 0.3, 0.5, 1, -3],
        [0.3, 0.3, 0, 0.5, 1, 0.7, 1, 2, -2],
    )
    # (-1, .] takes in the atom at 0 and (0, .] does not; ends on an atom meet it exactly.
    same(low[:7], [-INF, zero, -INF, end, end, end, half])
    same(high[:4], [end, end, zero, half])
    same(high[[4, 6]], [INF, INF])
    assert half < high[5] < 1e6
    same(empty, [False] * 7 + [True, True])


def test_atoms_at_bounds_are_beyond_all_other_values() -> None:
    # A narrow column: the values next to the bound lie far out on the model's scale.
    x = np.append(1 + 1e-12 * np.arange(10), 0)
    schema = schema_of(x, Continuous(lower=0, upper=2, atoms=(0, 2)))
    near = cells(schema, [5e-324, np.nextafter(2, 0)])[0]
    assert schema.atoms("x")[0] < near[0] < near[1] < schema.atoms("x")[1]


def test_neighbours_of_an_atom_are_no_atoms() -> None:
    schema = schema_of([1e10, 2e10, 1.0], Continuous(atoms=(1.0,)))
    around = np.nextafter([1.0, 1.0], [0.0, 2.0])
    low = cells(schema, around)[0]
    assert low[0] < schema.atoms("x")[0] < low[1]


def test_float32_columns_know_their_bounds_and_atoms() -> None:
    x = np.array([0.1, 0.2, 0.7], "float32")
    schema = schema_of(x, Continuous(lower=0.1, upper=0.7, atoms=(0.1, 0.7)))
    same(cells(schema, x)[0][[0, 2]], [-1e6, 1e6])
    same(cells(schema, [0.1, 0.7])[0], [-1e6, 1e6])


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
    for name, values, match in [
        ("x", [0.0, INF], "finite numbers; got inf at position 1"),
        ("x", np.zeros((2, 2)), "one dim"),
        ("n", 1.5, "whole numbers; got 1.5. Round"),
    ]:
        with pytest.raises(ValueError, match=match):
            encode_values(schema, name, values)


def test_encode_bounds() -> None:
    schema = schema_of([0.5, 0.2, 0.7], Continuous(0, 1))
    half = encode_values(schema, "x", 0.5)[0].item()
    sides = [-INF, 0.5, 0.5, NAN, -3, 1, -3], [0.5, INF, 0.5, NAN, 9, 2, 0]
    low, high = encode_bounds(schema, "x", *sides)
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
        ({"other": [1.0]}, ValueError, "got 'other'. Known: 'x', 'n'"),
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
    with pytest.raises(ValueError, match="Expected 4 columns, as in the fitted table; got 3"):
        encode(schema, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="Expected each column name once; got 'x' twice"):
        encode(schema, table()[["x", "x"]])
    with pytest.raises(ValueError, match="none called 'n'"):
        encode(schema, table()[["x"]], columns=["n"])
    with pytest.raises(TypeError, match="to hold lower ends, as there are upper ones"):
        cells(schema_of([1.0, 2.0]), pd.arrays.IntervalArray.from_tuples([(0, 1)]), [1.0])
    reach = schema_of(pd.Series(pd.date_range("2020", periods=3)).dt.as_unit("ns"))
    with pytest.raises(ValueError, match=r"within reach of datetime64\[ns\]"):
        cells(reach, pd.Series([pd.Timestamp("3000-01-01").as_unit("s")]))


@pytest.mark.parametrize(
    ("kind", "seen", "bad"),
    [
        (Continuous(0, 1), 0.5, [0.0, 1.0, -3.0, 7.0]),
        (Integer(0, 3), 1, [-1.0, 4.0, 1.5]),
        (Continuous(0, 1, resolution=0.1), 0.5, [-0.1, 1.1]),
    ],
)
def test_values_that_cannot_occur_may_be_empty_instead(kind: Any, seen: Any, bad: Any) -> None:
    schema = schema_of([seen], kind)
    low, high, empty = cells(schema, [*bad, seen, NAN], strict="none")
    same(empty, [True] * len(bad) + [False, False])
    assert np.isnan([low[: len(bad)], high[: len(bad)]]).all()
    out = encode(schema, pd.DataFrame({"x": bad}), strict="none")
    same(out.log_jacobian, np.zeros(len(bad)))
