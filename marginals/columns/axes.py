"""The axis of a column, and the location and scale of the model's scale."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from marginals.columns.axis import Axis, CodeAxis
from marginals.columns.cell_reading import Floats, numbers
from marginals.columns.dtypes import family, unit
from marginals.columns.glued_axis import GluedAxis
from marginals.columns.kinds import Categorical, Integer
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.schema import Column
from marginals.columns.smooth_axis import SmoothAxis, with_atoms

__all__ = ["axis", "standardised"]

# In steps of a lattice: a location beyond would leave few digits for those next to 0.
_FAR = 2.0**40
# A standard deviation so many times the distance of the quartiles is that of a few outliers: on its
# scale, float32 could not tell the other values apart.
_OUTLIERS = 1e6


def axis(column: Column) -> Axis:
    """Return the axis of a column."""
    kind = column.kind
    if column.margin is not None:
        return GluedAxis(column, column.margin)
    if isinstance(kind, Categorical):
        return CodeAxis(column, len(kind.categories or ()))
    lower = _number(column, kind.lower, -np.inf)
    upper = _number(column, kind.upper, np.inf)
    if isinstance(kind, Integer):
        return LatticeAxis(column, 1.0, 0.0, 0, lower, upper)
    if kind.resolution is None:
        points = tuple(_number(column, atom, np.nan) for atom in kind.atoms)
        return SmoothAxis(column, lower, upper, points)
    if family(column.dtype) != "number":
        step = kind.resolution / pd.Timedelta(1, unit(column.dtype)) / column.grain
        return LatticeAxis(column, step, 0.0, 0, lower, upper)
    return LatticeAxis(
        column, float(kind.resolution), column.offset, column.reference, lower, upper
    )


def _number(column: Column, value: Any, absent: float) -> float:
    if value is None:
        return absent
    return float(numbers(column, pd.Series([value]))[0])


def standardised(column: Column, values: Floats) -> Column:
    """Return the column with location, scale and atoms for numbers, which may be NaN or inf."""
    bare = axis(replace(column, location=0.0, scale=1.0))
    if isinstance(bare, CodeAxis):
        return column
    values = values[np.isfinite(values)]
    if isinstance(bare, SmoothAxis):
        inside = (values > bare.lower) & (values < bare.upper)
        values = bare.bent(values[inside & ~np.isin(values, bare.points)])
    else:
        values = bare.point(values)
    location, scale = _moments(values[np.isfinite(values)])
    if isinstance(bare, LatticeAxis) and abs(location) > _FAR:
        location = 0.0  # the reference, near which neighbours stay apart
    column = replace(column, location=location, scale=scale)
    finished = axis(column)
    return with_atoms(finished) if isinstance(finished, SmoothAxis) else column


def _moments(values: Floats) -> tuple[float, float]:
    """Return location and scale of numbers of any size; the scale of a constant is 1."""
    if not len(values):
        return 0.0, 1.0
    if values.min() == values.max():
        return float(values[0]), 1.0
    power = int(np.frexp(np.abs(values).max())[1])
    near_one = np.ldexp(values, -power)  # a power of two: no rounding
    middle, spread = near_one.mean(), near_one.std()
    low, median, high = np.quantile(near_one, [0.25, 0.5, 0.75])
    if spread > _OUTLIERS * (high - low) > 0:
        middle, spread = median, (high - low) / 1.35  # as of a normal distribution
    location, scale = float(np.ldexp(middle, power)), float(np.ldexp(spread, power))
    return location, scale if scale >= np.finfo(np.float64).tiny else 1.0
