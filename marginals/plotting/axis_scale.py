"""From a column's values to numbers along an axis, and back."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.columns import Categorical, Column, Integer
from marginals.columns.dtypes import base, family, parse
from marginals.plotting.canvas import pyplot, shown

Floats = npt.NDArray[np.float64]

_EXACT = 2**50  # up to here, whole numbers and the halves between them are floats
_DAY = 86400.0  # matplotlib counts times in days
_UNITS = (("days", _DAY), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


@final
@dataclass(frozen=True)
class Scale:
    """Map one column to an axis.

    Args:
        column: the column.
        seconds: seconds in one unit of the axis for times and durations, otherwise 1; a density per
            second times this is a density per unit of the axis.
        unit: name of that unit; empty for plain numbers.
        origin: where the axis starts counting, for whole numbers too large for floats.
    """

    column: Column
    seconds: float = 1.0
    unit: str = ""
    origin: int = 0

    @property
    def family(self) -> str:
        """Return the family of the values: "category", "number", "time" or "span"."""
        if isinstance(self.column.kind, Categorical):
            return "category"
        return family(self.column.dtype)

    @property
    def label(self) -> str:
        """Return the column's name with the remark."""
        return shown(self.column.name) + self.remark

    @property
    def remark(self) -> str:
        """Return the unit of durations, or the origin of large whole numbers."""
        if self.family == "span":
            return f" ({self.unit})"
        return f"\n(from {shown(self.origin, 13)})" if self.origin else ""

    @property
    def zone(self) -> Any:
        """Return the time zone, or None."""
        return getattr(parse(base(self.column.dtype)), "tz", None)

    def numbers(self, values: Any) -> Floats:
        """Return values (N,) as numbers along the axis, NaN for missing and unknown categories."""
        series = values if isinstance(values, pd.Series) else pd.Series(values)
        if isinstance(self.column.kind, Categorical):
            places = {value: i for i, value in enumerate(self.column.kind.categories or ())}
            return np.array([_place(places, value) for value in series], dtype=np.float64)
        if isinstance(series.dtype, pd.IntervalDtype):
            series = pd.Series(pd.arrays.IntervalArray(series).mid)
        if self.origin:
            steps = [np.nan if pd.isna(value) else int(value) - self.origin for value in series]
            return np.array(steps, dtype=np.float64)
        if self.family == "number":
            return pd.to_numeric(series).to_numpy(dtype=np.float64, na_value=np.nan)
        if self.family == "time":
            series = pd.to_datetime(series)
            if series.dt.tz is not None:
                series = series.dt.tz_convert("UTC").dt.tz_localize(None)
            spans = series - _epoch()
        else:
            spans = pd.to_timedelta(series)
        return np.asarray(spans / pd.Timedelta(seconds=self.seconds), dtype=np.float64)

    def values(self, numbers: Floats) -> Any:
        """Return numbers along the axis as values for a query."""
        if self.family == "number":
            return numbers
        spans = pd.to_timedelta(numbers * self.seconds, unit="s")
        if self.family == "span":
            return spans
        times = _epoch() + spans
        return times if self.zone is None else times.tz_localize("UTC").tz_convert(self.zone)

    def texts(self, values: Any) -> list[str]:
        """Return values as text; times show minutes only if their dates are not distinct."""
        if self.family == "span":
            return [f"{number:.3g}" for number in self.numbers(values)]
        if self.family != "time":
            return [shown(value, 18) for value in values]
        dates = [f"{pd.Timestamp(value):%Y-%m-%d}" for value in values]
        if len(set(dates)) == len(set(values)):
            return dates
        return [f"{pd.Timestamp(value):%Y-%m-%d %H:%M}" for value in values]

    def mark_times(self, axis: Any, most: int = 5) -> None:
        """Give an axis of times at most `most` ticks at dates; leave other axes alone."""
        if self.family != "time":
            return
        from matplotlib import dates

        locator = dates.AutoDateLocator(tz=self.zone, minticks=2, maxticks=max(3, most))
        # It warns if a few ticks span less than two of the next unit, so allow a whole one.
        for every, whole in (
            (dates.MONTHLY, 12),
            (dates.DAILY, 31),
            (dates.HOURLY, 24),
            (dates.MINUTELY, 60),
            (dates.SECONDLY, 60),
        ):
            locator.intervald[every] = [*locator.intervald[every], whole]
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=self.zone))


def scale_of(column: Column, span: Any = None) -> Scale:
    """Return a column's axis; durations use the unit that suits `span`."""
    plain = Scale(column)
    if plain.family == "time":
        return Scale(column, _DAY, "day")
    if plain.family != "span":
        far = isinstance(column.kind, Integer) and abs(column.reference) > _EXACT
        return Scale(column, origin=column.reference) if far else plain
    size = abs(float(plain.numbers([span])[0])) if span is not None else 1.0
    name, seconds = next((unit for unit in _UNITS if size >= 2 * unit[1]), _UNITS[-1])
    return Scale(column, seconds, name)


def _place(places: dict[Any, int], value: Any) -> float:
    try:
        return places.get(value, np.nan)
    except TypeError:  # not hashable, so no category
        return np.nan


def _epoch() -> pd.Timestamp:
    pyplot()
    from matplotlib.dates import get_epoch

    return pd.Timestamp(get_epoch())
