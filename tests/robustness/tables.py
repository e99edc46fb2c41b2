"""Random tables of columns of every dtype, with gaps and odd values."""

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

Rng = np.random.Generator
Make = Callable[[int, Rng], Any]

_INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_NULLABLE = ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"]
_UNITS = ["s", "ms", "us", "ns"]
_ZONES = ["UTC", "Europe/Oslo", "America/New_York", "Asia/Kathmandu", "+05:30"]
_WORDS = ["a", "B", "", " ", "größe", "x y", "`tick`", "'quote'", "\n", "nan", "None", "1", "🌧"]
_ODD = [0.0, -0.0, 1.0, -1.0, 5e-324, 2.2e-308, 1e-300, 1e300, -1e300, 1.7e308, np.pi, 2.0**53]


def _floats(rows: int, rng: Rng) -> Any:
    return rng.normal(size=rows) * 10.0 ** rng.integers(-9, 9) + rng.integers(-3, 3)


def _whole_floats(rows: int, rng: Rng) -> Any:
    return pd.Series(rng.integers(-5, 6, rows).astype(float))


def _integers(dtype: str, rows: int, rng: Rng) -> Any:
    info = np.iinfo(dtype)
    span = int(rng.choice([1, 3, 100, 2**62]))
    low = [int(info.min), 0, max(int(info.min), int(info.max) - span)][int(rng.integers(3))]
    high = min(low + span, int(info.max))
    return rng.integers(low, high, rows, dtype=dtype, endpoint=True)


def _times(rows: int, rng: Rng) -> Any:
    unit = str(rng.choice(_UNITS))
    reach = int(rng.choice([10, 10**5, 10**9]))
    seconds = rng.integers(-reach, reach, rows).astype("M8[s]")
    series = pd.Series(seconds).dt.as_unit(unit)
    fine = rng.integers(0, 10**6, rows).astype("m8[us]").astype(f"m8[{unit}]")
    return series + fine if rng.random() < 0.5 else series


def _zoned(rows: int, rng: Rng) -> Any:
    return _times(rows, rng).dt.tz_localize("UTC").dt.tz_convert(str(rng.choice(_ZONES)))


def _spans(rows: int, rng: Rng) -> Any:
    reach = 10 ** int(rng.integers(1, 10))
    return pd.Series(rng.integers(-reach, reach, rows).astype(f"m8[{rng.choice(_UNITS)}]"))


def _categories(rows: int, rng: Rng, ordered: bool = False) -> Any:
    every: list[Any] = [_WORDS, [3, 1, 2], [0.5, -1.5], [True, False], list("zyx")]
    listed = every[int(rng.integers(len(every)))]
    codes = rng.integers(-1, len(listed), rows)
    return pd.Series(pd.Categorical.from_codes(codes, listed, ordered=ordered))


def _mixed(rows: int, rng: Rng) -> Any:
    values = ["a", 1, 2.5, True, None, datetime.date(2020, 1, 1), pd.Timestamp("2020"), "1", np.inf]
    return pd.Series([values[i] for i in rng.integers(0, len(values), rows)], dtype=object)


def _huge_integers(rows: int, rng: Rng) -> Any:
    base = 10 ** int(rng.integers(18, 60))
    return pd.Series([base + int(i) for i in rng.integers(-9, 9, rows)], dtype=object)


def _intervals(rows: int, rng: Rng) -> Any:
    low = rng.normal(size=rows)
    width = np.where(rng.random(rows) < 0.3, 0.0, rng.exponential(size=rows))
    return pd.Series(pd.arrays.IntervalArray.from_arrays(low, low + width))


def _objects(values: list[Any]) -> Make:
    def make(rows: int, rng: Rng) -> Any:
        return pd.Series([values[i] for i in rng.integers(0, len(values), rows)], dtype=object)

    return make


def _of(dtype: str) -> Make:
    return lambda rows, rng: _integers(dtype, rows, rng)


def _nullable(dtype: str) -> Make:
    return lambda rows, rng: pd.array(_integers(dtype.lower(), rows, rng), dtype=dtype)


# Columns that a model can be fitted to.
SOUND: dict[str, Make] = {
    "float64": _floats,
    "float32": lambda rows, rng: _floats(rows, rng).astype("float32"),
    "float16": lambda rows, rng: rng.normal(size=rows).astype("float16"),
    "whole floats": _whole_floats,
    "huge": lambda rows, rng: rng.normal(size=rows) * 1e300,
    "tiny": lambda rows, rng: rng.normal(size=rows) * 1e-300,
    "any scale": lambda rows, rng: 10.0 ** rng.uniform(-300, 300, rows),
    "odd floats": lambda rows, rng: rng.choice(_ODD, rows),
    "constant": lambda rows, rng: np.full(rows, rng.choice(_ODD)),
    **{dtype: _of(dtype) for dtype in _INTS},
    **{dtype: _nullable(dtype) for dtype in _NULLABLE},
    "Float64": lambda rows, rng: pd.array(_floats(rows, rng), dtype="Float64"),
    "Float32": lambda rows, rng: pd.array(rng.normal(size=rows), dtype="Float32"),
    "bool": lambda rows, rng: rng.random(rows) < 0.5,
    "boolean": lambda rows, rng: pd.array(rng.random(rows) < 0.5, dtype="boolean"),
    "category": _categories,
    "ordered": lambda rows, rng: _categories(rows, rng, ordered=True),
    "string": lambda rows, rng: pd.array(rng.choice(_WORDS, rows), dtype="string"),
    "text": _objects(_WORDS),
    "mixed": _mixed,
    "days": _objects([datetime.date(2020, 1, 1), datetime.date(1999, 12, 31)]),
    "decimals": _objects([decimal.Decimal("1.5"), decimal.Decimal("-2.25")]),
    "huge integers": _huge_integers,
    "times": _times,
    "zoned": _zoned,
    "spans": _spans,
    "intervals": _intervals,
    "nothing": lambda rows, rng: np.full(rows, np.nan),
    "none": lambda rows, rng: pd.Series([None] * rows, dtype=object),
    "nat": lambda rows, rng: pd.Series([pd.NaT] * rows, dtype="M8[ns]"),
}
# Columns that are refused.
UNSOUND: dict[str, Make] = {
    "infinite": lambda rows, rng: np.full(rows, np.inf),
    "complex": lambda rows, rng: rng.normal(size=rows) + 1j,
    "lists": lambda rows, rng: pd.Series([[1]] * rows, dtype=object),
    "bytes": _objects([b"a", b"b"]),
    "arrays": lambda rows, rng: pd.Series([np.zeros(2)] * rows, dtype=object),
    "beyond floats": lambda rows, rng: pd.Series([10**400] * rows, dtype=object),
    "functions": _objects([len, max]),
}


def make_column(kind: str, rows: int, rng: Rng) -> Any:
    """Return a column with some cells missing."""
    series = pd.Series({**SOUND, **UNSOUND}[kind](rows, rng))
    gaps = rng.random(rows) < rng.choice([0, 0.2, 0.6])
    return series.mask(gaps) if gaps.any() else series


def make_frame(kinds: list[str], rows: int, seed: int) -> pd.DataFrame:
    """Return a table with a column of each kind."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({f"c{i}": make_column(kind, rows, rng) for i, kind in enumerate(kinds)})


@st.composite
def frames(draw: st.DrawFn, least: int, most: int) -> pd.DataFrame:
    """Tables of some columns and one to 40 rows."""
    kinds = draw(st.lists(st.sampled_from(sorted(SOUND)), min_size=least, max_size=most))
    rows = draw(st.one_of(st.integers(1, 3), st.integers(4, 40)))
    return make_frame(kinds, rows, draw(st.integers(0, 2**32)))
