r"""How far beyond the data a column with one bound reaches: the rule for its open tail.

Such a column is modelled on the logarithm of d, the distance from its bound. Leaves have
exponential tails there, which would be powers of d: without a deviation, or even a mean, however
light the tail of the data is. So the logarithm ends with the data. With r the largest distance in
the data, the scale is

    log d                           up to r,
    log r + 2 (sqrt(d / r) - 1)     beyond, with the same value and slope at r.

A tail :math:`d^{-a}` at r goes on as :math:`\exp(-2 a \sqrt{d / r})`, lighter than any power: every
moment is finite. Up to r nothing changes, and so nothing in training. A square root, not a line, is
kind to data whose tail is a power: held-out values far beyond r cost a few nats each, not hundreds.

The functions take log d and the knot log r, or None where the logarithm has no end.
"""

import numpy as np

from marginals.columns.axis import Floats

__all__ = ["bend_tail", "log_bend", "unbend_tail"]


def bend_tail(log_distance: Floats, knot: float | None) -> Floats:
    """Return the scale at distances from the bound.

    >>> bend_tail(np.log([1.0, 4.0, 16.0]), knot=np.log(4.0)) - np.log(4.0)
    array([-1.38629436,  0.        ,  2.        ])
    """
    if knot is None:
        return log_distance
    beyond = np.maximum(log_distance - knot, 0.0)
    return np.minimum(log_distance, knot) + 2 * np.expm1(beyond / 2)


def unbend_tail(bent: Floats, knot: float | None) -> Floats:
    """Return log distances from the bound: undo `bend_tail`."""
    if knot is None:
        return bent
    beyond = np.maximum(bent - knot, 0.0)
    return np.minimum(bent, knot) + 2 * np.log1p(beyond / 2)


def log_bend(log_distance: Floats, knot: float | None) -> Floats | float:
    """Return the log slope of `bend_tail` with respect to the log distance."""
    return 0.0 if knot is None else np.maximum(log_distance - knot, 0.0) / 2
