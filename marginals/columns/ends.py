"""The two ends of each cell of a column, as numbers."""

from typing import Any, NoReturn

import numpy as np
import pandas as pd

from marginals.columns.axis import Axis, Flags
from marginals.columns.cell_reading import Floats, numbers
from marginals.columns.kinds import Categorical, Continuous
from marginals.columns.schema import Column
from marginals.columns.table_coercion import row_of

__all__ = ["check_closed", "ends", "refuse", "refuse_empty"]


def ends(column: Column, series: Any, upper: Any = None) -> tuple[Floats, Floats]:
    """Return the ends of cells (low, high]: equal of an exact value, NaN both if missing.

    A single end that is missing or infinite is open. Without `upper`, all cells are exact and the
    two arrays are one, unless the column holds pandas intervals.
    """
    intervals = isinstance(series.dtype, pd.IntervalDtype)
    if isinstance(column.kind, Categorical) or not intervals:
        low = numbers(column, series)
        if upper is None:
            _check_finite(column, series, low)
            return low, low
        return _ordered(column, (series, upper), low, numbers(column, upper))
    if upper is not None:
        raise TypeError(
            f"Expected column {column.name!r} to hold lower ends, as there are upper ones; got "
            f"{series.dtype}. Give one of the two."
        )
    check_closed(column, series.dtype.closed)
    left, right = (pd.Series(side) for side in (series.array.left, series.array.right))
    return _ordered(column, (series, right), numbers(column, left), numbers(column, right))


def check_closed(column: Column, closed: str) -> None:
    """Refuse intervals that leave out their upper end where single values have mass."""
    kind = column.kind
    density = isinstance(kind, Continuous) and kind.resolution is None and not kind.atoms
    if closed != "right" and not density:
        raise ValueError(
            f"Expected intervals of column {column.name!r}, whose values have mass, to be closed "
            f"on the right: (low, high]; got closed={closed!r}. Rebuild them with closed='right'."
        )


def _ordered(
    column: Column, sides: tuple[Any, Any], low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    missing = np.isnan(low) & np.isnan(high)
    if isinstance(column.kind, Categorical) and not column.ordered:
        _check_same(column, sides, missing | (low == high))
    low = np.where(np.isnan(low) & ~missing, -np.inf, low)
    high = np.where(np.isnan(high) & ~missing, np.inf, high)
    for bad, expected, remedy in (
        (low > high, "lower ends below upper ends", "Swap the ends."),
        ((low == high) & np.isinf(low), "finite values", "Leave the cell missing."),
    ):
        if bad.any():
            at = int(bad.argmax())
            raise ValueError(
                f"Expected column {column.name!r} to have {expected}; got {sides[0].iloc[at]} and "
                f"{sides[1].iloc[at]}{row_of(sides[0], at)}. {remedy}"
            )
    nothing = (low == -np.inf) & (high == np.inf)
    return np.where(nothing, np.nan, low), np.where(nothing, np.nan, high)


def _check_same(column: Column, sides: tuple[Any, Any], same: Flags) -> None:
    if not same.all():
        at = int((~same).argmax())
        raise TypeError(
            f"Expected a category or a set of them for column {column.name!r}, whose categories "
            f"have no order; got an interval from {sides[0].iloc[at]!r} to "
            f"{sides[1].iloc[at]!r}{row_of(sides[0], at)}. Use a set, or an ordered category dtype "
            "when fitting."
        )


def _check_finite(column: Column, series: Any, low: Floats) -> None:
    infinite = np.isinf(low)
    if infinite.any():
        at = int(infinite.argmax())
        raise ValueError(
            f"Expected column {column.name!r} to hold finite numbers; got {low[at]}"
            f"{row_of(series, at)}. For an open end use an interval: two frames, the second as "
            "`upper=`, or a pair with None."
        )


def refuse(axis: Axis, series: Any, low: Floats, wrong: Flags) -> NoReturn:
    """Raise for the first value that cannot occur."""
    at = int(wrong.argmax())
    expected, remedy = axis.fault(float(low[at]))
    raise ValueError(
        f"Expected column {axis.column.name!r} {expected}; got {series.iloc[at]}"
        f"{row_of(series, at)}. {remedy}"
    )


def refuse_empty(column: Column, series: Any, empty: Flags) -> NoReturn:
    """Raise for the first cell that holds no value."""
    at = int(empty.argmax())
    raise ValueError(
        f"Expected each cell of column {column.name!r} to hold a value that it can take; got an "
        f"interval without any{row_of(series, at)}. Widen it, or leave the cell missing."
    )
