"""From the values of a column to numbers along an axis of a picture, and back."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from marginals.columns import Categorical, Column, Integer
from marginals.columns.dtypes import base, family, parse
from marginals.plotting.canvas import pyplot, shown

__all__ = ["Scale", "scale_of"]

Floats = npt.NDArray[np.float64]

_EXACT = 2**50  # whole numbers up to here, and halves between them, are floats
_DAY = 86400.0  # matplotlib counts times in days
# A unit is used where the values come to at least so many of its own.
_UNITS = (("days", _DAY), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))

_WHOLE = (12, 31, 24, 60, 60)  # months, days, hours, minutes and seconds that make up the next unit


@final
@dataclass(frozen=True)
class Scale:
    """The axis of one column.

    Args:
        column: the column.
        seconds: in one unit of the axis for times and durations, else 1: densities per second
            times this are densities per unit of the axis.
        unit: its name; empty for plain numbers.
        origin: of whole numbers beyond the digits of floats, that from which the axis counts.
    """

    column: Column
    seconds: float = 1.0
    unit: str = ""
    origin: int = 0

    @property
    def family(self) -> str:
        """What the values are: "category", "number", "time" or "span"."""
        if isinstance(self.column.kind, Categorical):
            return "category"
        return family(self.column.dtype)

    @property
    def label(self) -> str:
        """The column's name, with what its numbers are."""
        return shown(self.column.name) + self.remark

    @property
    def remark(self) -> str:
        """The unit of durations, or from where whole numbers are counted."""
        if self.family == "span":
            return f" ({self.unit})"
        return f"\n(from {shown(self.origin, 13)})" if self.origin else ""

    def numbers(self, values: Any) -> Floats:
        """Return values (N,) as numbers along the axis, NaN where missing or no category."""
        series = pd.Series(values) if not isinstance(values, pd.Series) else values
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
        """Return numbers along the axis as values that the model can be asked about."""
        if self.family == "number":
            return numbers
        spans = pd.to_timedelta(numbers * self.seconds, unit="s")
        if self.family == "span":
            return spans
        zone = getattr(parse(base(self.column.dtype)), "tz", None)
        times = _epoch() + spans
        return times if zone is None else times.tz_localize("UTC").tz_convert(zone)

    def texts(self, values: Any) -> list[str]:
        """Return values as text, times no finer than tells them apart."""
        if self.family == "span":
            return [f"{number:.3g}" for number in self.numbers(values)]
        if self.family != "time":
            return [shown(value, 18) for value in values]
        dates, times = (
            [f"{pd.Timestamp(value):{form}}" for value in values]
            for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M")
        )
        return dates if len(set(dates)) == len(set(values)) else times

    def mark(self, axis: Any, most: int = 5) -> None:
        """Give the axis of a picture the ticks of dates, at most so many."""
        if self.family == "time":
            from matplotlib.dates import (
                DAILY,
                HOURLY,
                MINUTELY,
                MONTHLY,
                SECONDLY,
                AutoDateLocator,
                ConciseDateFormatter,
            )

            zone = getattr(parse(base(self.column.dtype)), "tz", None)
            locator = AutoDateLocator(tz=zone, minticks=2, maxticks=max(3, most))
            # It warns where a few ticks do not span a year, month, day, hour or minute twice over.
            for every, whole in zip(
                (MONTHLY, DAILY, HOURLY, MINUTELY, SECONDLY), _WHOLE, strict=True
            ):
                locator.intervald[every] = [*locator.intervald[every], whole]
            axis.set_major_locator(locator)
            axis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))


def scale_of(column: Column, span: Any = None) -> Scale:
    """Return the axis of a column; of durations, in the unit that suits a typical one."""
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
