"""Means, spreads and modes of columns, in the columns' own numbers."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marginals.columns import Column
from marginals.columns.axis import Axis, quiet
from marginals.columns.lattice_axis import LatticeAxis
from marginals.columns.table_axis import TableAxis
from marginals.densities import Univariates

FloatArray = npt.NDArray[np.float64]

# A lattice with more values than this between its extreme quantiles is integrated, not summed.
_MOST_VALUES = 1024
# Probability ignored at each end when the values of a lattice are summed.
_TAIL = 1e-10
# Deviations beyond this many units carry no noticeable mass; their squares still fit into float32.
_FARTHEST = 1e18
# Units are powers of 2^4, and origins 2^4 units apart: at most 8 of float32's 24 bits are lost.
_COARSE = 4


def moments(parts: Univariates, column: Column) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (B,) of univariates of one column, in its numbers.

    Columns of tables have all moments, see `columns.open_tail`; a margin that was glued on may have
    none, which `check_finite` refuses.
    """
    if len(parts.log_evidence) == 0:
        return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    mean, spread = _moments(parts, column.axis)
    if column.margin is not None and not column.margin.has_moment("mean"):
        mean = torch.full_like(mean, torch.nan)
    if column.margin is not None and not column.margin.has_moment("std"):
        spread = torch.full_like(spread, torch.nan)
    # Rounding may have moved a mean next to a bound beyond it.
    return mean.clamp(*column.axis.bounds), spread


def check_finite(column: Column, what: str, values: Tensor) -> None:
    """Refuse moments that are not finite; `what` names them."""
    if not bool(values.isfinite().all()):
        raise ValueError(
            f"Expected the {what} of column {column.name!r} ({column.reason}) to be finite; got "
            "tails too heavy for one, or numbers too large. Ask for quantiles (`ppf`, `interval`, "
            "or `impute` by the median), or give the column bounds or a lighter margin."
        )


def _moments(parts: Univariates, line: Axis) -> tuple[Tensor, Tensor]:
    if isinstance(line, TableAxis):
        return _table_moments(parts, line)
    if isinstance(line, LatticeAxis):
        summed = _lattice_moments(parts, line)
        if summed is not None:
            return summed
    origins, group_of = np.unique(_origins(parts, line), axis=0, return_inverse=True)
    if len(origins) == 1:
        return _moments_about(parts, line, *origins[0])
    mean, spread = torch.empty(2, len(parts.log_evidence), dtype=torch.float64)
    for number, (middle, unit) in enumerate(origins):
        held = torch.from_numpy(np.flatnonzero(group_of.reshape(-1) == number))
        part = parts.take(0, held.to(parts.log_evidence.device))
        mean[held], spread[held] = _moments_about(part, line, middle, unit)
    return mean, spread


def _moments_about(
    parts: Univariates, line: Axis, middle: float, unit: float
) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (B,), computed about an origin `middle` in a unit."""

    def power(exponent: int) -> Tensor:
        def function(x: Tensor, _: object) -> Tensor:
            away = _numbers(line, x) / unit - middle / unit
            return away.clamp(-_FARTHEST, _FARTHEST).pow(exponent).to(x)

        return parts.expect(function)[:, 0].double().cpu()

    first, second = power(1), power(2)
    return first * unit + middle, (second - first.square()).clamp_min(0).sqrt() * unit


def _origins(parts: Univariates, line: Axis) -> FloatArray:
    """Return an origin and a unit for the moments of each row, (B, 2).

    Moments about 0 would cancel for columns far from it, and squares of numbers such as 1e300
    overflow. Origins and units are rounded to a coarse lattice, so that many rows share them; they
    depend on their own row alone, and so does the answer.
    """
    levels = torch.tensor([_TAIL, 0.5, 1 - _TAIL], dtype=torch.float64)[:, None, None]
    found = parts.rough_quantile(levels.log(), torch.log1p(-levels))
    low, middle, high = _numbers(line, found)[..., 0].numpy()  # (B,) each
    # Halves, as a difference may overflow.
    reach = np.maximum(middle / 2 - low / 2, high / 2 - middle / 2)
    exponent = np.ceil((np.frexp(reach)[1] + 1) / _COARSE) * _COARSE
    unit = np.where(reach > 0, np.exp2(np.minimum(exponent, 1023)), 1.0)
    # Written so that no quotient overflows, whether the unit is above one or below.
    apart = unit * np.minimum(2.0**_COARSE, np.finfo(np.float64).max / np.maximum(unit, 1.0))
    return np.stack([np.rint(middle / apart) * apart, unit], -1)


def modes(parts: Univariates, column: Column) -> Tensor:
    """Return the most likely of 99 quantiles, or of few values, on the model's scale, (B,)."""
    if isinstance(column.axis, TableAxis):
        return most_likely(parts, len(column.axis.points))
    levels = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)[:, None, None]
    points = parts.ppf(levels)[..., 0]  # (Q, B)
    best = _log_heights(parts, points, column.axis).argmax(0)
    return points.gather(0, best[None])[0]


def most_likely(parts: Univariates, categories: int) -> Tensor:
    """Return the code of the most likely category of each row, (B,)."""
    codes = torch.arange(categories).to(parts.log_evidence)
    return parts.logpdf(codes[:, None, None])[..., 0].argmax(0).double()


def _log_heights(parts: Univariates, points: Tensor, line: Axis) -> Tensor:
    """Return log densities at points (Q, B); on a lattice, masses of the cells around them."""
    at = points.to(parts.log_evidence)
    if not isinstance(line, LatticeAxis):
        return parts.logpdf(at[..., None])[..., 0]
    with quiet():
        cells = line.rounded(_numbers(line, points).reshape(-1).numpy())
    ends = (torch.from_numpy(end).reshape(points.shape).to(at) for end in cells)
    below, up_to = (parts.cdf(end[..., None])[..., 0] for end in ends)
    return up_to - below


def _table_moments(parts: Univariates, line: TableAxis) -> tuple[Tensor, Tensor]:
    """Sum over the values of a table."""
    codes = torch.arange(len(line.points)).to(parts.log_evidence)
    mass = parts.logpdf(codes[:, None, None])[..., 0].double().cpu().softmax(0)  # (values, B)
    middle = line.values.mean()
    away = torch.from_numpy(line.values - middle)[:, None]
    mean = (away * mass).sum(0)
    return mean + middle, ((away - mean).square() * mass).sum(0).sqrt()


def _lattice_moments(parts: Univariates, line: LatticeAxis) -> tuple[Tensor, Tensor] | None:
    """Sum over the values between extreme quantiles; None if there are too many."""
    tail = torch.tensor([_TAIL, 1 - _TAIL], dtype=torch.float64)[:, None, None]
    ends = _numbers(line, parts.quantile(tail.log(), torch.log1p(-tail)))
    low, high = float(ends.min()), float(ends.max())
    if not (high - low) / line.step < _MOST_VALUES:
        return None
    count = round((high - low) / line.step) + 1
    values = np.arange(count, dtype=np.float64) * line.step + low
    with quiet():
        cells = line.rounded(values)
    # Each cell begins where the one before ends.
    ends = torch.from_numpy(np.append(cells[0][:1], cells[1]))[:, None, None]
    mass = parts.cdf(ends.to(parts.log_evidence)).diff(dim=0)[..., 0].double().cpu()  # (values, B)
    mass = mass / mass.sum(0)
    numbers = torch.from_numpy(values)[:, None]
    mean = (numbers * mass).sum(0)
    return mean, ((numbers - mean).square() * mass).sum(0).sqrt()


def _numbers(line: Axis, x: Tensor) -> Tensor:
    """Return points of the model's scale as numbers of the column, in float64."""
    model = x.detach().cpu().double().numpy()
    with quiet():
        numbers = np.asarray(line.numbers(model.reshape(-1)), dtype=np.float64)
    return torch.from_numpy(numbers).reshape(x.shape)
