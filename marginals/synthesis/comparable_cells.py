"""The cells of two tables side by side: numbers as numbers, everything else as codes."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]

# Times of any unit are counted in nanoseconds.
_NANOSECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


@final
@dataclass(frozen=True)
class Cells:
    """A column of several tables on one scale.

    Args:
        name: of the column.
        number: whether its values are numbers or times; otherwise they are codes 0, 1, ...
        parts: for each table its values, NaN where missing.
    """

    name: Any
    number: bool
    parts: tuple[Floats, ...]

    @property
    def categories(self) -> int:
        """The number of codes."""
        return 1 + int(max((np.nanmax(p) for p in self.parts if np.isfinite(p).any()), default=-1))


def aligned(real: pd.DataFrame, *others: pd.DataFrame) -> list[Cells]:
    """Return the columns of a table beside those of others, which must have them all."""
    found = []
    for name in real.columns:
        series = [frame[name] for frame in (real, *others)]
        number = all(_is_number(one) for one in series)
        parts = [_numbers(one) for one in series] if number else _codes(series)
        found.append(Cells(name, number, tuple(parts)))
    return found


def spread(values: Floats) -> float:
    """Return the standard deviation; exactly 0 where all values are equal.

    >>> bool(np.std(np.full(30, 0.1)) > 0), spread(np.full(30, 0.1))
    (True, 0.0)
    """
    return float(values.std()) if len(values) and np.ptp(values) > 0 else 0.0


def _is_number(series: pd.Series) -> bool:
    kinds = pd.api.types
    if kinds.is_bool_dtype(series.dtype):
        return False
    times = kinds.is_datetime64_any_dtype(series.dtype) or kinds.is_timedelta64_dtype(series.dtype)
    # A column without a value can be taken for either.
    return times or kinds.is_numeric_dtype(series.dtype) or not series.notna().any()


def _numbers(series: pd.Series) -> Floats:
    if not pd.api.types.is_numeric_dtype(series.dtype) and series.notna().any():
        known = series.notna().to_numpy()
        out = np.full(len(series), np.nan)
        ticks = series[known].astype("int64").to_numpy(dtype=np.float64)
        out[known] = ticks * _NANOSECONDS[series.dt.unit]
        return out
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def _codes(series: list[pd.Series]) -> list[Floats]:
    """Return one code for each value of any table, NaN for missing."""
    every = pd.concat([one.astype(object) for one in series], ignore_index=True)
    codes = pd.factorize(every)[0].astype(np.float64)
    codes[codes < 0] = np.nan
    ends = np.cumsum([len(one) for one in series])
    return np.split(codes, ends[:-1])
