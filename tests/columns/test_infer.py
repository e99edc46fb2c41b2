"""What a column is guessed to be, and why."""

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from marginals.columns import Categorical, Continuous, Integer, infer
from tests.columns.helpers import NAN, column_of, schema_of

TEXT = pd.Series(["a"]).dtype.name  # "object" before pandas 3, then "str"


REAL, WHOLE, FLAGS, AB = (
    Continuous(),
    Integer(),
    Categorical([False, True]),
    Categorical(["a", "b"]),
)
GAPS = "float64 with gaps, whole numbers only"
OSLO = pd.date_range("2020", periods=2, tz="Europe/Oslo").as_unit("s")
BANDS = pd.arrays.IntervalArray.from_tuples([(0, 1)], closed="left")
DATES = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]


@pytest.mark.parametrize(
    ("values", "kind", "dtype", "reason"),  # where the reason is the dtype, it is left out
    [
        *(([1.5], REAL, dtype, "") for dtype in ("float64", "float32", "float16", "Float32")),
        *(([1, 2], WHOLE, dtype, "") for dtype in ("int64", "uint8", "Int16")),
        *((flags, FLAGS, "bool", "") for flags in ([True, False], [True, True])),
        ([1, None], WHOLE, "Int16", ""),
        ([None], WHOLE, "Int64", ""),
        ([True, None], FLAGS, "boolean", ""),
        (["b", "a", "b"], AB, TEXT, f"{TEXT} with 2 distinct strings"),
        (["b", None, "a"], AB, "string", "string with 2 distinct strings"),
        ([1.0, 2.0, 3.0, NAN], WHOLE, "float64", GAPS),
        ([1.0, 2.0, NAN, 1.0], WHOLE, "float64", GAPS),
        ([1.0, 1.0, NAN, 1.0], REAL, "float64", ""),
        ([1.0, 2.5, 3.0, NAN], REAL, "float64", ""),
        ([1.0, 2.0, 2.0**53, NAN], REAL, "float64", ""),
        ([NAN, NAN], REAL, "float64", "no value seen"),
        (pd.Categorical(["b", "a"]), AB, f"category[{TEXT}]", "category"),
        (pd.Categorical([2], [9, 2]), Categorical([9, 2]), "category[int64]", "category"),
        (pd.Categorical([None, None]), REAL, "float64", "no value seen"),
        (pd.to_datetime(["2020-01-01"]).as_unit("ns"), REAL, "datetime64[ns]", ""),
        (OSLO, REAL, "datetime64[s, Europe/Oslo]", ""),
        (pd.to_timedelta([1, 2], "s").as_unit("ms"), REAL, "timedelta64[ms]", ""),
        (BANDS.astype("interval[float64, left]"), REAL, "interval[float64, left]", "intervals"),
        (BANDS, REAL, "interval[float64, left]", "intervals"),
    ],
)
def test_dtypes(values: Any, kind: Any, dtype: str, reason: str) -> None:
    plain = isinstance(values, list)
    column = column_of(pd.Series(values, dtype=dtype) if plain else values)
    assert (column.kind, column.dtype, column.reason) == (kind, dtype, reason or dtype)
    assert column_of([pd.NaT, pd.NaT]).kind == REAL


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([1, 2, None], WHOLE, "whole numbers only"),
        ([2**70, 2**70 + 1], WHOLE, "whole numbers only"),
        ([1.5, None, 2], REAL, "numbers only"),
        ([1.0, None, 2.0, 3.0], WHOLE, "numbers only with gaps, whole numbers only"),
        ([True, None], FLAGS, "booleans only"),
        (["b", None, "a"], AB, "2 distinct strings"),
        (["b", 2, 1.5, "a", 1], Categorical([1.5, 1, 2, "a", "b"]), "5 distinct values"),
        ([decimal.Decimal("1.5")], REAL, "decimals only"),
        (DATES[::-1], Categorical(DATES), "2 distinct dates"),
    ],
)
def test_objects(values: Any, kind: Any, reason: str) -> None:
    column = column_of(pd.Series(values, dtype=object))
    assert (column.kind, column.reason) == (kind, f"object with {reason}")
    assert column_of(pd.Series([None, None], dtype=object)).reason == "no value seen"


def test_times_with_and_without_zone_are_categories_in_some_order() -> None:
    times = pd.Series([pd.Timestamp("2021"), pd.Timestamp("2020", tz="UTC"), "x"], dtype=object)
    assert len(column_of(times).kind.categories) == 3


def test_order_of_categories() -> None:
    assert column_of(pd.Categorical(["a"], ordered=True)).ordered
    assert not column_of(pd.Categorical(["a"])).ordered
    assert not column_of(["a"]).ordered


def test_arrays_and_tensors() -> None:
    for data in (np.ones((3, 2)), torch.ones(3, 2), torch.ones(3, 2, dtype=torch.bfloat16)):
        schema = infer(data)
        assert schema.names == (0, 1)
        assert {column.dtype for column in schema} == {"float64"}
    assert infer(torch.ones(3, 2, dtype=torch.int32)).columns[0].dtype == "int32"
    assert infer(np.array([[1.5, "a"]], dtype=object)).columns[0].kind == Continuous()


def test_sparse_columns() -> None:
    column = column_of(pd.arrays.SparseArray([0.0, 0.0, 1.5]))
    assert (column.kind, column.dtype) == (Continuous(), "float64")


# Notes ----------------------------------------------------------------------------------------


def notes(values: Any, kind: Any = None, guess: bool = False) -> str:
    given = None if kind is None else {"x": kind}
    return "; ".join(infer(pd.DataFrame({"x": values}), given, guess=guess)["x"].notes)


def test_notes_on_values() -> None:
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(100) < 0.12, 0, rng.random(100))
    share = int((rain == 0).sum())
    assert notes(rain) == f"{share} % of rows are exactly 0: consider atoms=(0,)"
    assert notes(rain, guess=True) == ""
    assert notes(rain, Continuous(lower=0, atoms=(0,))) == ""
    assert notes(rng.random(100)) == ""
    assert notes(np.repeat([1.0, 2.0, 5.0], 30)) == "whole numbers only: consider Integer()"
    assert (
        notes(np.repeat([1.25, 2.5, 5.0], 30)) == "multiples of 0.01 only: consider resolution=0.01"
    )
    assert notes(np.repeat([1.25, 2.5, 5.0], 30), Continuous(resolution=0.01)) == ""
    # Zeros among rounded values: every multiple has its own mass, so atoms are not advised.
    zeros = np.concatenate([np.zeros(60), np.repeat([1.25, 2.5, 5.0], 20)])
    assert notes(zeros) == "multiples of 0.01 only: consider resolution=0.01"
    assert notes(zeros, Continuous(atoms=(0,))).endswith("resolution=0.01 instead of atoms")
    assert notes(zeros, Continuous(resolution=0.01)) == ""
    assert notes(np.rint(zeros)) == "whole numbers only: consider Integer()"
    two = np.concatenate([np.zeros(20), np.full(80, 7.0), rng.random(50)])
    assert notes(two, Continuous(atoms=(0,))).endswith("consider atoms=(0, 7)")
    assert notes([NAN, NAN]) == "all values are missing: leave it out"
    assert notes([7.5] * 50) == ""


def test_notes_on_what_comes_back() -> None:
    assert notes([1, 2], Continuous()) == "comes back as float64"
    assert notes(pd.array([1, 2], dtype="Int8"), Continuous()) == "comes back as Float64"
    assert "comes back as float64" in notes(pd.Series([decimal.Decimal("1.5")]))
    assert "pd.to_datetime" in notes(pd.Series([datetime.date(2020, 1, 1)]))
    assert "identifier" in notes([f"id{i}" for i in range(30)])
    assert "no multiples of 0.5" in notes([0.1, 0.3, 0.5], Continuous(resolution=0.5))


def test_zones_without_a_name_come_back_in_utc() -> None:
    zone = pytest.importorskip("dateutil.tz").tzoffset("mine", 5400)
    times = pd.Series([pd.Timestamp("2020", tz=zone)])
    column = column_of(times)
    assert column.dtype == f"datetime64[{times.dt.unit}, UTC]"
    assert "comes back in UTC" in column.notes[0]


# Given ----------------------------------------------------------------------------------------


def test_given_kinds_are_completed() -> None:
    frame = pd.DataFrame({"n": [3, 1], "s": ["b", "a"], "f": [2.0, 1.0], "x": [1.0, 2.0]})
    given = {"n": Categorical(), "s": Categorical(["b", "a", "c"]), "f": Integer(lower=0)}
    schema = infer(frame, given)
    assert [column.kind for column in schema] == [
        Categorical([1, 3]),
        Categorical(["b", "a", "c"]),
        Integer(lower=0),
        Continuous(),
    ]
    assert [column.reason for column in schema] == ["given", "given", "given", "float64"]
    assert infer(frame.to_numpy(dtype=object)[:, :1], {0: Categorical()}).categories == {0: 2}


def test_location_and_scale() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(5, 3, 200)
    column = column_of(np.append(x, NAN))
    assert (column.location, column.scale) == (pytest.approx(x.mean()), pytest.approx(x.std()))
    y = rng.random(200)
    column = column_of(np.append(y, 0), Continuous(0, 1, atoms=(0,)))
    t = np.log(y / (1 - y))
    assert (column.location, column.scale) == (pytest.approx(t.mean()), pytest.approx(t.std()))


@pytest.mark.parametrize("size", [1e300, 1e-300, 1.0])
def test_moments_of_any_size(size: float) -> None:
    column = column_of(np.array([1.0, 2.0, 4.0, 9.0]) * size)
    assert column.location == pytest.approx(4 * size)
    assert column.scale == pytest.approx(np.std([1, 2, 4, 9]) * size)


def test_constants_have_scale_one() -> None:
    for value in (0.0, 7.0, 1e300, -1e-300):
        column = column_of([value] * 3)
        assert (column.location, column.scale) == (value, 1.0)
    assert column_of([5e-324, 0.0]).scale == 1.0


def test_a_few_outliers_do_not_set_the_scale() -> None:
    x = np.append(np.linspace(0, 1, 101), 1e300)
    column = column_of(x)
    assert 0.1 < column.scale < 1
    assert 0 < column.location < 1


# Errors ---------------------------------------------------------------------------------------


V, T, ZERO = ValueError, TypeError, pd.Timestamp(0)


@pytest.mark.parametrize(
    ("values", "kind", "error", "match"),
    [
        ([1.0, np.inf], None, V, "column 'x' to hold finite.*got inf in row 1.*`upper=`"),
        ([1 + 2j], None, T, "column 'x' to hold real numbers; got complex128"),
        (pd.Series([1j, None], dtype=object), None, T, "complex data not supported"),
        (pd.Series([{}, 1.0], dtype=object), None, T, "column 'x'.*string, a number.*dict"),
        (pd.Series([[1], "a"], dtype=object), None, T, "column 'x' to hold plain.*got list"),
        (pd.Series([(1, 2), "a"], dtype=object), None, T, "got tuple"),
        (pd.Series([10**400, 1], dtype=object), None, V, "within reach of floats"),
        ([-1.0, 1.0], Continuous(lower=0), V, "'x' to lie above.*0; got -1.0 in row 0"),
        ([1.0, 2.0], Continuous(upper=1.5), V, "below its bound 1.5; got 2.0 in row 1"),
        ([1.0, 0.0], Continuous(lower=0), V, r"not on it; got 0.0 in row 1.*atoms=\(0,\)"),
        ([1.0], Continuous(0, 1), V, r"below its bound 1, not on it.*resolution="),
        ([1, 5], Integer(upper=4), V, r"lie in \[-inf, 4\]; got 5 in row 1"),
        ([1.0, 1.5], Integer(), V, "whole numbers; got 1.5 in row 1. Round.*Continuous"),
        ([1e300, 2.0], Integer(), V, r"at most 2\*\*53 as floats; got 1e\+300 in row 0"),
        ([0.5, 3.0], Continuous(0, 1, resolution=0.1), V, r"\[0, 1\]; got 3.0 in row 1"),
        (["a", "b"], Categorical(["a"]), V, "one of 'a'; got 'b' in row 1"),
        ([1, 2], Categorical([1]), V, "one of 1; got 2 in row 1. Leave"),
        ([None, None], Categorical(), V, "column 'x' to hold a category"),
        (["a"], Continuous(), T, "column 'x' to hold numbers.*Declare|Categorical"),
        ([True], Integer(), T, r"as Integer\(\) says; got bool"),
        (pd.to_timedelta([1]), Integer(), T, "whole numbers.*got timedelta"),
        ([1.0], Integer, T, r"kind of column 'x'.*Write Integer\(\)"),
        ([1.0], "integer", T, "kind of column 'x'.*got 'integer'"),
        ([1.0], Continuous(lower=ZERO), T, "`lower` of column 'x' to fit.*float"),
        ([1.0], Continuous(resolution=pd.Timedelta(1)), T, "`resolution` of column 'x'"),
        ([ZERO], Continuous(lower=0), T, "`lower` of column 'x' to fit"),
        ([ZERO], Continuous(resolution=1), T, "`resolution` of column 'x' to fit"),
        ([ZERO], Continuous(atoms=(pd.Timedelta(0),)), T, "`atoms` of column 'x'"),
        ([ZERO], Continuous(lower=pd.Timestamp(0, tz="UTC")), T, "to hold datetime64.*time zone"),
    ],
)
def test_errors_of_values(values: Any, kind: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        schema_of(values, kind)


@pytest.mark.parametrize(
    ("frame", "given", "error", "match"),
    [
        (pd.DataFrame(), None, ValueError, r"rows and columns; got 0 row\(s\) and 0 column"),
        (pd.DataFrame({"a": []}), None, ValueError, r"got 0 row\(s\) and 1 column"),
        (np.ones((3, 0)), None, ValueError, r"3 row\(s\) and 0 column"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, ValueError, "once; got 'a' twice"),
        (pd.DataFrame([[1]], columns=[("a", "b")]), None, TypeError, "strings or whole numbers"),
        (pd.DataFrame([[1]], columns=[1.5]), None, TypeError, "got 1.5. Rename"),
        (pd.DataFrame({"income": [1]}), {"incone": Integer()}, ValueError, "mean 'income'"),
        ([[1.0]], None, TypeError, "a DataFrame, an array or a tensor; got list"),
        (np.ones(3), None, ValueError, r"two dims.*\(3,\).*reshape"),
    ],
)
def test_errors_of_tables(frame: Any, given: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        infer(frame, given)


# Censored -------------------------------------------------------------------------------------


def test_censored_columns() -> None:
    lower = pd.DataFrame({"t": [1.0, 2.0, -np.inf, NAN], "n": [1, 2, 3, 4]})
    upper = pd.DataFrame({"t": [1.0, np.inf, 3.0, NAN]})
    schema = infer(lower, None, upper)
    assert schema["t"].kind == Continuous()
    assert schema["n"].kind == Integer()
    assert schema["t"].location == pytest.approx((1 + 2 + 1 + 3) / 4)


def test_upper_ends_leave_complete_columns_as_they_are() -> None:
    frame = pd.DataFrame(
        {
            "x": [0.5, 1.5, NAN],
            "gaps": [1.0, 2.0, NAN],
            "whole": [1.0, 2.0, 3.0],
            "n": [1, 2, 3],
            "nullable": pd.array([1, None, 2], "Int64"),
            "objects": pd.Series([1.0, None, 2.0], dtype=object),
            "city": ["a", None, "b"],
            "day": pd.to_datetime(["2024-01-01", None, "2024-01-02"]),
        }
    )
    assert infer(frame, None, frame.copy()) == infer(frame)


def test_both_frames_show_what_a_censored_column_is() -> None:
    infinite = [1.0, np.inf, 3.0]
    assert schema_of([1, 2, 3], upper=infinite).columns[0].kind == Integer()
    left = schema_of([-np.inf, 2.0, 3.0], upper=[1, 2, 3]).columns[0]
    assert (left.kind, left.dtype) == (Integer(), "int64")
    parts = schema_of([1, 2, 3], upper=[1.5, 2.0, 3.0]).columns[0]
    assert (parts.kind, parts.dtype) == (Continuous(), "float64")


def test_errors_of_censored_columns() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    for upper, match in [
        ({"x": [0.5, 2.0]}, "lower ends below upper ends; got 1.0 and 0.5 in row 0. Swap"),
        ({"x": [1.0]}, "the 2 rows of the lower ends; got 1"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "got 'y', which is none"),
    ]:
        with pytest.raises(ValueError, match=match):
            infer(frame, None, pd.DataFrame(upper))
    with pytest.raises(ValueError, match="finite values; got inf and inf in row 1"):
        schema_of([1.0, np.inf], upper=[1.0, np.inf])
    with pytest.raises(ValueError, match=r"an interval without any in row 0\. Widen"):
        schema_of([1.2, 2.0], Integer(), upper=[1.8, 2.0])
    with pytest.raises(ValueError, match="an interval without any in row 0"):
        schema_of([-2.0, 2.0], Continuous(lower=0), upper=[-1.0, 2.0])
    with pytest.raises(TypeError, match="have no order; got an interval from 'a' to 'b' in row 0"):
        schema_of(["a", "b"], upper=["b", "b"])
