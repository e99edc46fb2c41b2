r"""The scale of a column with one bound that is a line, except next to the bound.

A logarithm takes a bound to infinity and makes a product a sum, but bends every sum: columns that
are linear in each other are so no longer. With d the distance from the bound and s a length, the
scale here is

    s log(exp(d / s) - 1),

which is d from some s on, and s log(d / s) next to the bound. As s grows it becomes a logarithm.
Beyond the data it is a line: leaves keep their exponential tails, so that every moment is finite.
`bound_scales` chooses between both.
"""

import numpy as np

from marginals.columns.axis import Floats

__all__ = ["log_straight_slope", "straight", "straight_between", "unstraight", "unstraight_from"]

_TINY = 1e-9


def straight(distance: Floats, length: float) -> Floats:
    """Return the scale at distances from the bound.

    >>> straight(np.array([0.01, 1.0, 10.0]), length=1.0).round(3)
    array([-4.6  ,  0.541, 10.   ])
    """
    return distance + length * _log_bow(distance, length)


def unstraight(scale: Floats, length: float) -> Floats:
    """Return distances from the bound: undo `straight`."""
    return length * np.logaddexp(0.0, scale / length)


def log_straight_slope(distance: Floats, length: float) -> Floats:
    """Return the log slope of `straight`."""
    return -_log_bow(distance, length)


def straight_between(step: Floats, whole: Floats, reach: float, length: float) -> Floats:
    """Return how much higher the scale is at whole = reach + step than at reach.

    It is exact for a small step and a huge reach.
    """
    return step + length * (_log_bow(whole, length) - _log_bow(reach, length))


def unstraight_from(rise: Floats, reach: float, length: float) -> Floats:
    """Return the step of `straight_between`."""
    bow = length * _log_bow(reach, length)
    scale = rise + (reach + bow)
    # The distance is the scale plus this, and the reach falls out.
    above = length * np.logaddexp(0.0, -np.abs(scale) / length)
    return np.where(scale > 0, rise + bow + above, above - reach)


def _log_bow(distance: Floats | float, length: float) -> Floats:
    """Return log(1 - exp(-distance / length)); -inf at the bound, NaN beyond."""
    distance = np.asarray(distance)
    share = distance / length
    # Next to the bound the share, unlike the distance, may underflow.
    near = np.log(distance) - np.log(length)
    return np.where(share < _TINY, near, np.log(-np.expm1(-share)))
