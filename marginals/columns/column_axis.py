"""Which axis a column has, and location, scale and knot of the model's scale."""

from dataclasses import replace

import numpy as np
import pandas as pd

from marginals.columns.axis import Axis, CodeAxis
from marginals.columns.cell_reading import Floats, number_of
from marginals.columns.dtypes import family, unit
from marginals.columns.glued_axis import GluedAxis
from marginals.columns.kinds import Categorical, Discrete, Integer
from marginals.columns.lattice_axis import LatticeAxis, softness
from marginals.columns.normal_scores import fit_normal_scores
from marginals.columns.schema import Column
from marginals.columns.smooth_axis import SmoothAxis, with_atoms
from marginals.columns.table_axis import TableAxis

__all__ = ["axis_of", "standardised"]

# Steps of a lattice from its reference: a location beyond leaves few digits for values near it.
_FAR = 2.0**40
# A standard deviation this many times the interquartile range comes from a few outliers. On such a
# scale, float32 could not tell the other values apart.
_OUTLIERS = 1e6


def axis_of(column: Column) -> Axis:
    """Build the axis of a column; `Column.axis` keeps it."""
    kind = column.kind
    if column.margin is not None:
        return GluedAxis(column, column.margin)
    if isinstance(kind, Categorical):
        return CodeAxis(column, len(kind.categories or ()))
    if isinstance(kind, Discrete):
        return TableAxis(column, tuple(number_of(column, value) for value in kind.values or ()))
    lower = -np.inf if kind.lower is None else number_of(column, kind.lower)
    upper = np.inf if kind.upper is None else number_of(column, kind.upper)
    points = tuple(number_of(column, atom) for atom in kind.atoms)
    if isinstance(kind, Integer):
        return LatticeAxis(column, 1.0, 0.0, 0, lower, upper, points)
    if kind.resolution is None:
        return SmoothAxis(column, lower, upper, points)
    if family(column.dtype) != "number":
        step = kind.resolution / pd.Timedelta(1, unit(column.dtype)) / column.grain
        return LatticeAxis(column, step, 0.0, 0, lower, upper, points)
    return LatticeAxis(
        column, float(kind.resolution), column.offset, column.reference, lower, upper, points
    )


def standardised(column: Column, values: Floats) -> Column:
    """Return the column with location, scale, knot and atoms fitted to numbers that are finite."""
    bare = replace(column, location=0.0, scale=1.0, knot=None, soft=0.0, scores=None).axis
    if isinstance(bare, CodeAxis | TableAxis):
        return column
    observed = values = values[np.isfinite(values)]
    if isinstance(bare, SmoothAxis):
        inside = (values > bare.lower) & (values < bare.upper)
        values = bare.bent(values[inside & ~np.isin(values, bare.points)])
    elif isinstance(bare, LatticeAxis):
        observed = values = values[~bare.at_atom(values)]
        if not column.line:
            column = replace(column, soft=softness(bare, values))
        values = replace(bare, column=replace(bare.column, soft=column.soft)).point(values)
    values = values[np.isfinite(values)]
    location, scale = _moments(values)
    if isinstance(bare, LatticeAxis) and abs(location) > _FAR:
        location = 0.0  # the reference, near which neighbours keep their distance
    column = replace(column, location=location, scale=scale, knot=_knot(column, values))
    if family(column.dtype) == "number":
        scores = fit_normal_scores((values - location) / scale)
        scored = replace(column, scores=scores)
        # On a coarse lattice, sums over its points need a scale without kinks.
        lattice = scored.axis if scores is not None else None
        coarse = isinstance(lattice, LatticeAxis) and not lattice.is_fine(observed)
        column = column if coarse else scored
    if isinstance(column.axis, LatticeAxis):
        return replace(column, atoms=column.axis.atom_points)
    return with_atoms(column.axis) if isinstance(column.axis, SmoothAxis) else column


def _knot(column: Column, bent: Floats) -> float | None:
    """Return the largest log distance of transformed values from their bound, if it is the only."""
    kind = column.kind
    assert not isinstance(kind, Categorical)
    if column.line or not len(bent) or (kind.lower is None) == (kind.upper is None):
        return None
    return float(bent.max() if kind.upper is None else -bent.min())


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
