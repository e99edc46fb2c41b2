"""Columns of Arrow dtypes, where pyarrow is there."""

import datetime
import decimal
from typing import Any

import pandas as pd
import pytest

from marginals.columns import Categorical, Continuous, Integer
from tests.columns.helpers import column_of, there_and_back

pa = pytest.importorskip("pyarrow")

DAY = pd.Timestamp("2020-01-02 03:04:05")


@pytest.mark.parametrize(
    ("dtype", "values", "kind"),
    [
        (pa.int64(), [1, None, 2**40], Integer()),
        (pa.uint8(), [1, None, 255], Integer()),
        (pa.float64(), [1.5, None, 2.0], Continuous()),
        (pa.float32(), [1.5, None, 2.0], Continuous()),
        (pa.bool_(), [True, None], Categorical([False, True])),
        (pa.large_string(), ["b", None, "a"], Categorical(["a", "b"])),
    ],
)
def test_dtypes_come_back(dtype: Any, values: list[Any], kind: Any) -> None:
    series = pd.Series(values, dtype=pd.ArrowDtype(dtype))
    assert column_of(series).kind == kind
    back = there_and_back(series)
    assert back.dtype == series.dtype
    pd.testing.assert_series_equal(back, series.rename("x"))


@pytest.mark.parametrize(
    ("dtype", "values", "restored"),
    [
        (pa.timestamp("us"), [DAY, None], "datetime64[us]"),
        (pa.timestamp("ns", "Europe/Oslo"), [DAY.tz_localize("UTC"), None], None),
        (pa.duration("ns"), [pd.Timedelta(5, "s"), None], None),
        (pa.date32(), [datetime.date(2020, 1, 2), None], None),
        (pa.decimal128(5, 2), [decimal.Decimal("1.50"), None], "float64"),
        (pa.dictionary(pa.int32(), pa.string()), ["b", None, "a"], None),
        (pa.string(), ["b", None, "a"], None),
    ],
)
def test_values_come_back(dtype: Any, values: list[Any], restored: str | None) -> None:
    series = pd.Series(values, dtype=pd.ArrowDtype(dtype))
    back = there_and_back(series)
    assert back.isna().tolist() == series.isna().tolist()
    for one, two in zip(back.dropna(), series.dropna(), strict=True):
        assert one == two or pd.Timestamp(one) == pd.Timestamp(two)
    if restored == "datetime64[us]" and pd.__version__ < "3":
        restored = "datetime64[ns]"
    assert restored is None or column_of(series).dtype == restored
