"""Whether columns with one bound are modelled on a logarithm or on a line.

A logarithm suits columns that vary by factors, a line those that add up: ingredients with a nearly
constant sum, or totals and their parts. The choice is that of one normal distribution of all
columns, by its pseudo-likelihood: each column is regressed on the others, on each of its scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from marginals.columns.straight_scale import log_straight_slope, straight

__all__ = ["Distances", "choose_lengths"]

Floats = npt.NDArray[np.float64]

# Lengths of a line that are tried, in standard deviations of the distance from the bound.
_LENGTHS = (1.0, 0.25, 0.0625)
_LEAST_ROWS = 20
# A line must be this much likelier than a logarithm, in nats.
_LEAST_GAIN = 3.0
# With more columns, each is judged without the others.
_MOST_COLUMNS = 60
# Share of rows without a value from which on the lack of it is a predictor too.
_OFTEN = 0.02
# Of the variance of each predictor: repeated columns have one solution.
_RIDGE = 1e-9
_ROUNDS = 3
# Next to the bound, 0.8 steps may be at most this share of the deviation.
_STEPS, _WIDEST = 0.8, 0.25


@final
@dataclass(frozen=True)
class Distances:
    """The distances of a column's values from its only bound.

    Args:
        values: positive, NaN where a value is missing, at an atom or on the bound.
        sign: 1 for a lower bound, -1 for an upper one.
        step: the width of a cell, 0 for a continuous column; a line may not make it too wide next
            to the bound.
    """

    values: Floats
    sign: float = 1.0
    step: float = 0.0


@final
@dataclass(frozen=True)
class _Scale:
    """Values of a column on one scale: standardised, and filled with zeros."""

    length: float
    filled: Floats
    log_slope: float  # summed over the rows with a value, of the standardised scale


def choose_lengths(columns: Sequence[Floats | Distances]) -> list[float]:
    """Return the length of each column's line, 0 for a logarithm or a column without the choice.

    A single column keeps its logarithm.

    Args:
        columns: rows of each column: numbers, or distances where there is a choice.

    >>> rng = np.random.default_rng(0)
    >>> parts = rng.dirichlet([8, 8, 8], 500).T  # they add up to one
    >>> [length > 0 for length in choose_lengths([Distances(part) for part in parts])]
    [True, True, True]
    >>> size = rng.lognormal(0, 0.5, 500)
    >>> cubes = [Distances(size), Distances(size**3 * rng.lognormal(0, 0.1, 500))]
    >>> choose_lengths(cubes)
    [0.0, 0.0]
    """
    present = [np.isfinite(c.values if isinstance(c, Distances) else c) for c in columns]
    options = [_scales(c, rows) for c, rows in zip(columns, present, strict=True)]
    if len(columns) < 2 or all(len(own) < 2 for own in options):
        return [0.0] * len(columns)
    fixed = [~rows - (~rows).mean() for rows in present if _OFTEN < 1 - rows.mean() < 1]
    lacks = np.stack(fixed, 1) if fixed else np.zeros((len(present[0]), 0))
    # A single column's scale may only pay if the others have theirs: both ends are tried.
    starts = ([0] * len(options), [min(1, len(own) - 1) for own in options])
    ends = [_improved(options, present, lacks, list(start)) for start in starts]
    best = max(ends, key=lambda end: end[1])[0]
    return [own[at].length for own, at in zip(options, best, strict=True)]


def _improved(
    options: Sequence[Sequence[_Scale]],
    present: Sequence[npt.NDArray[np.bool_]],
    lacks: Floats,
    chosen: list[int],
) -> tuple[list[int], float]:
    """Choose each column's scale given the others, in turns; return the choice and its value."""
    for _ in range(_ROUNDS):
        before, total = list(chosen), 0.0
        for j, own in enumerate(options):
            others = [options[i][at].filled for i, at in enumerate(chosen) if i != j]
            few = len(options) <= _MOST_COLUMNS
            design = np.column_stack([*others, lacks]) if few else lacks[:, :0]
            values = np.nan_to_num(_values(own, design[present[j]], present[j]), nan=-np.inf)
            if len(values) > 1 and values[1:].max() < values[0] + _LEAST_GAIN:
                chosen[j] = 0
            else:
                chosen[j] = int(values.argmax())
            total += float(values[chosen[j]])
        if chosen == before:
            break
    return chosen, total


def _values(own: Sequence[_Scale], design: Floats, rows: npt.NDArray[np.bool_]) -> Floats:
    """Return the log likelihood of a column on each scale, given predictors (n, P)."""
    count = len(design)
    if count < _LEAST_ROWS:
        return np.zeros(len(own))
    targets = np.column_stack([scale.filled[rows] for scale in own])  # (n, S)
    centred, x = targets - targets.mean(0), design - design.mean(0)
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += _RIDGE * count
    rest = centred - x @ np.linalg.lstsq(gram, x.T @ centred, rcond=None)[0]
    free = max(1, count - 1 - x.shape[1])
    variance = np.maximum((rest**2).sum(0) / free, np.finfo(np.float64).tiny)
    return np.array([scale.log_slope for scale in own]) - 0.5 * count * np.log(variance)


def _scales(column: Floats | Distances, rows: npt.NDArray[np.bool_]) -> list[_Scale]:
    """Return a column's values on each of its scales, the first of them a logarithm."""
    if not isinstance(column, Distances):
        return [_scale(0.0, column, np.zeros(len(column)), rows)]
    found = column.values
    with np.errstate(all="ignore"):
        scales = [_scale(0.0, column.sign * np.log(found), -np.log(found), rows)]
        seen = found[rows]
        spread = float(seen.std()) if rows.sum() >= _LEAST_ROWS else 0.0
        for length in (share * spread for share in _LENGTHS if spread > 0):
            widest = column.step * np.exp(log_straight_slope(seen.min(), length))
            if _STEPS * widest <= _WIDEST * spread:
                line = column.sign * straight(found, length)
                scales.append(_scale(length, line, log_straight_slope(found, length), rows))
    return scales


def _scale(length: float, values: Floats, slopes: Floats, rows: npt.NDArray[np.bool_]) -> _Scale:
    seen = values[rows]
    mean, spread = (float(seen.mean()), float(seen.std())) if len(seen) else (0.0, 1.0)
    if not np.isfinite(spread):  # numbers near the largest float: no scale to compare, no predictor
        return _Scale(length, np.zeros(len(values)), -np.inf)
    spread = spread if spread > 0 else 1.0
    filled = np.where(rows, (values - mean) / spread, 0.0)
    log_slope = float(slopes[rows].sum()) - len(seen) * float(np.log(spread))
    return _Scale(length, filled, log_slope)
