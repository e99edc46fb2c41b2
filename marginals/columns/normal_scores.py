r"""The normal scores of a column: a smooth increasing map that makes its margin nearly normal.

Components on this scale start with the column's margin, whatever its shape, so that training has
only the dependence to learn. Between knots at quantiles of the data the map is a rational quadratic
spline (Gregory and Delbourgo 1982), which has a continuous slope and a closed-form inverse; beyond
them it is a line.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_ROWS", "NormalScores", "fit_normal_scores"]

Floats = npt.NDArray[np.float64]

# Rows from which on quantiles are known well enough.
LEAST_ROWS = 5000
# Intervals of equal probability; towards each end, further knots halve what is beyond, down to so
# many rows.
_INTERVALS, _LEAST_BEYOND = 32, 30
# The largest slope between knots, relative to that of the middle 80 %: repeated values are steeper.
_STEEPEST = 30.0
_FARTHEST = float(np.finfo(np.float64).max) / 2


@final
@dataclass(frozen=True)
class NormalScores:
    """An increasing spline.

    Args:
        x, y: the knots.
        slopes: the slopes at the knots.

    >>> scores = NormalScores((0.0, 1.0, 3.0), (-1.0, 0.0, 1.0), (1.5, 0.7, 0.3))
    >>> x = np.array([-2.0, 0.3, 1.0, 2.5, 7.0])
    >>> scores.inverse(scores(x)).round(9)
    array([-2. ,  0.3,  1. ,  2.5,  7. ])
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    slopes: tuple[float, ...]

    def __post_init__(self) -> None:
        parts = [np.asarray(part, np.float64) for part in (self.x, self.y, self.slopes)]
        sound = len({len(part) for part in parts}) == 1 and len(self.x) > 1
        sound = sound and all(bool(np.isfinite(part).all()) for part in parts)
        if not (
            sound and all(bool((np.diff(p) > 0).all()) for p in parts[:2]) and parts[2].min() > 0
        ):
            raise ValueError(f"Expected increasing knots and positive slopes; got {self}.")

    def __call__(self, x: Floats) -> Floats:
        """Return the scores of values."""
        at, xi, _ = self._place(x, self.x)
        width, rise, left, right = self._interval(at)
        mean = rise / width
        both = xi * (1 - xi)
        inside = rise * (mean * xi**2 + left * both) / (mean + (left + right - 2 * mean) * both)
        value = np.asarray(self.y)[at] + inside
        return self._with_lines(x, value, self.x, self.y, 1)

    def inverse(self, y: Floats) -> Floats:
        """Return the values of scores."""
        at, _, above = self._place(y, self.y)
        width, rise, left, right = self._interval(at)
        mean = rise / width
        bend = above * (left + right - 2 * mean)
        a, b, c = rise * (mean - left) + bend, rise * left - bend, -mean * above
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
        value = np.asarray(self.x)[at] + width * np.clip(2 * c / (-b - root), 0.0, 1.0)
        return self._with_lines(y, value, self.y, self.x, -1)

    def log_slope(self, x: Floats) -> Floats:
        """Return the log slope at values."""
        at, xi, _ = self._place(x, self.x)
        width, rise, left, right = self._interval(at)
        mean = rise / width
        both = xi * (1 - xi)
        top = mean**2 * (right * xi**2 + 2 * mean * both + left * (1 - xi) ** 2)
        slope = top / (mean + (left + right - 2 * mean) * both) ** 2
        slope = np.where(x <= self.x[0], self.slopes[0], slope)
        slope = np.where(x >= self.x[-1], self.slopes[-1], slope)
        return np.where(np.isnan(x), np.nan, np.log(slope))

    def _place(self, values: Floats, knots: tuple[float, ...]) -> tuple[Any, Floats, Floats]:
        """Return the interval of each value, its place therein from 0 to 1, and its distance."""
        ends = np.asarray(knots)
        inside = np.clip(np.nan_to_num(values), ends[0], ends[-1])
        at = np.clip(np.searchsorted(ends, inside, side="right") - 1, 0, len(ends) - 2)
        distance = inside - ends[at]
        return at, distance / (ends[at + 1] - ends[at]), distance

    def _interval(self, at: Any) -> tuple[Floats, Floats, Floats, Floats]:
        """Return width and rise of intervals, and the slopes at their ends."""
        slopes = np.asarray(self.slopes)
        return np.diff(self.x)[at], np.diff(self.y)[at], slopes[at], slopes[at + 1]

    def _with_lines(
        self, at: Floats, value: Floats, x: tuple[float, ...], y: tuple[float, ...], power: int
    ) -> Floats:
        """Return values with those beyond the knots on lines; NaN and infinity stay."""
        low, high = self.slopes[0] ** power, self.slopes[-1] ** power
        value = np.where(at < x[0], y[0] + (at - x[0]) * low, value)
        value = np.where(at > x[-1], y[-1] + (at - x[-1]) * high, value)
        return np.where(np.isfinite(at), np.clip(value, -_FARTHEST, _FARTHEST), at)


def fit_normal_scores(values: Floats) -> NormalScores | None:
    """Return the normal scores of finite values; None if they are few, or few are distinct."""
    count = len(values)
    if count < LEAST_ROWS:
        return None
    levels = list(np.arange(1, _INTERVALS) / _INTERVALS)
    beyond = 0.5 / _INTERVALS
    while beyond * count >= _LEAST_BEYOND:
        levels += [beyond, 1 - beyond]
        beyond /= 2
    u = np.sort(levels)
    x, y = np.quantile(values, u), np.array([NormalDist().inv_cdf(level) for level in u])
    low, high = np.quantile(values, [0.1, 0.9])
    if not high > low:
        return None
    steepest = _STEEPEST * 2 * NormalDist().inv_cdf(0.9) / (high - low)
    kept = [0]
    for i in range(1, len(x)):
        if x[i] - x[kept[-1]] > (y[i] - y[kept[-1]]) / steepest:
            kept.append(i)
    if len(kept) < _INTERVALS // 2:  # a list of values rather than a smooth margin
        return None
    x, y = x[kept], y[kept]
    width = np.diff(x)
    secant = np.diff(y) / width
    # Harmonic means of the slopes on either side, weighted by the widths (Fritsch and Butland).
    first, second = width[:-1] + 2 * width[1:], 2 * width[:-1] + width[1:]
    inner = (first + second) / (first / secant[1:] + second / secant[:-1])
    slopes = np.concatenate([secant[:1], inner, secant[-1:]])
    return NormalScores(*(tuple(map(float, part)) for part in (x, y, slopes)))
