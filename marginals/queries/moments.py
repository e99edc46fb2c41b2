"""Means and spreads of columns, in the columns' own numbers."""

import numpy as np
import torch
from torch import Tensor

from marginals.columns import Column
from marginals.columns.axis import Axis
from marginals.densities import Univariates
from marginals.queries.value_masses import TAIL, FloatArray, numbers_at, value_masses

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
    masses = value_masses(parts, line)
    if masses is not None:
        return _summed(*masses)
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
            away = numbers_at(line, x) / unit - middle / unit
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
    levels = torch.tensor([TAIL, 0.5, 1 - TAIL], dtype=torch.float64)[:, None, None]
    levels = levels.to(parts.log_evidence.device)
    found = parts.rough_quantile(levels.log(), torch.log1p(-levels))
    low, middle, high = numbers_at(line, found)[..., 0].numpy()  # (B,) each
    # Halves, as a difference may overflow.
    reach = np.maximum(middle / 2 - low / 2, high / 2 - middle / 2)
    exponent = np.ceil((np.frexp(reach)[1] + 1) / _COARSE) * _COARSE
    unit = np.where(reach > 0, np.exp2(np.minimum(exponent, 1023)), 1.0)
    # Written so that no quotient overflows, whether the unit is above one or below.
    apart = unit * np.minimum(2.0**_COARSE, np.finfo(np.float64).max / np.maximum(unit, 1.0))
    return np.stack([np.rint(middle / apart) * apart, unit], -1)


def _summed(values: FloatArray, log_masses: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over values (V,) with log masses (V, B)."""
    mass = log_masses.softmax(0)
    middle = values.mean()
    away = torch.from_numpy(values - middle)[:, None]
    mean = (away * mass).sum(0)
    return mean + middle, ((away - mean).square() * mass).sum(0).sqrt()
