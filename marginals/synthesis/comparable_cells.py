"""The cells of several tables on one scale: numbers as numbers, everything else as codes."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from marginals.columns.table_coercion import as_frame

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NANOSECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}  # common unit for times


@final
@dataclass(frozen=True)
class Cells:
    """Hold one column of several tables on one scale.

    Args:
        name: name of the column.
        number: whether its values are numbers or times; otherwise they are codes 0, 1, ...
        parts: values in each table, NaN where missing.
    """

    name: Any
    number: bool
    parts: tuple[Floats, ...]

    @property
    def categories(self) -> int:
        """Return the number of codes."""
        return 1 + int(max((np.nanmax(p) for p in self.parts if np.isfinite(p).any()), default=-1))


def checked_tables(**tables: Any) -> list[pd.DataFrame]:
    """Return tables as frames; refuse those whose columns differ from the first table's."""
    frames = {name: as_frame(table) for name, table in tables.items()}
    first, wanted = next(iter(frames.items()))
    for name, frame in frames.items():
        twice = frame.columns[frame.columns.duplicated()].unique()
        if len(twice):
            raise ValueError(
                f"Expected `{name}` to have columns of different names; got {list(twice)} more "
                "than once. Rename them."
            )
        if set(frame.columns) != set(wanted.columns):
            raise ValueError(
                f"Expected `{name}` to have the columns of `{first}`, {list(wanted.columns)}; got "
                f"{list(frame.columns)}. Select the same columns of both."
            )
        if len(frame) < 2:
            raise ValueError(
                f"Expected `{name}` to have at least two rows; got {len(frame)}. Give more."
            )
    return list(frames.values())


def aligned(real: pd.DataFrame, *others: pd.DataFrame) -> list[Cells]:
    """Return the columns of a table together with those of others, which must have them all."""
    found = []
    for name in real.columns:
        series = [frame[name] for frame in (real, *others)]
        number = all(map(_is_number, series))
        parts = map(_numbers, series) if number else _codes(series)
        found.append(Cells(name, number, tuple(parts)))
    return found


def spread(values: Floats) -> float:
    """Return the standard deviation; exactly 0 if all values are equal.

    >>> bool(np.std(np.full(30, 0.1)) > 0), spread(np.full(30, 0.1))
    (True, 0.0)
    """
    return float(values.std()) if len(values) and np.ptp(values) > 0 else 0.0


def _is_number(series: pd.Series) -> bool:
    dtype = series.dtype
    if types.is_bool_dtype(dtype):
        return False
    times = types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype)
    # A column without values counts as either.
    return times or types.is_numeric_dtype(dtype) or not series.notna().any()


def _numbers(series: pd.Series) -> Floats:
    if types.is_numeric_dtype(series.dtype) or not series.notna().any():
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    observed = series.notna().to_numpy()
    out = np.full(len(series), np.nan)
    out[observed] = series[observed].astype("int64") * _NANOSECONDS[series.dt.unit]
    return out


def _codes(series: list[pd.Series]) -> list[Floats]:
    """Return one code for each distinct value in any table, NaN for missing."""
    every = pd.concat([one.astype(object) for one in series], ignore_index=True)
    codes = pd.factorize(every)[0].astype(np.float64)
    codes[codes < 0] = np.nan
    return np.split(codes, np.cumsum([len(one) for one in series])[:-1])
