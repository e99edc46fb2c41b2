"""Means and spreads of columns, in the columns' own numbers."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marginals.columns import Column
from marginals.columns.axis import Axis
from marginals.columns.lattice_axis import LatticeAxis
from marginals.densities import Univariates
from marginals.queries.lattice_masses import TAIL, lattice_masses, numbers_at

FloatArray = npt.NDArray[np.float64]

# Deviations beyond this many units carry no noticeable mass; their squares still fit into float32.
_FARTHEST = 1e18
# Units are powers of 2^4, and origins 2^4 units apart: at most 8 of float32's 24 bits are lost.
_COARSE = 4


def moments(parts: Univariates, column: Column) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (B,) of univariates of one column, in its numbers."""
    line = column.axis
    rows = len(parts.log_evidence)
    if rows == 0:
        return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    if isinstance(line, LatticeAxis):
        summed = _lattice_moments(parts, line)
        if summed is not None:
            return summed
    origins, group_of = np.unique(_origins(parts, line), axis=0, return_inverse=True)
    if len(origins) == 1:
        return _moments_about(parts, line, *origins[0])
    mean, spread = torch.empty(2, rows, dtype=torch.float64)
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
    found = parts.quantile(levels.log(), torch.log1p(-levels))
    low, middle, high = numbers_at(line, found)[..., 0].numpy()  # (B,) each
    # Halves, as a difference may overflow.
    reach = np.maximum(middle / 2 - low / 2, high / 2 - middle / 2)
    exponent = np.ceil((np.frexp(reach)[1] + 1) / _COARSE) * _COARSE
    unit = np.where(reach > 0, np.exp2(np.minimum(exponent, 1023)), 1.0)
    # Written so that no quotient overflows, whether the unit is above one or below.
    apart = unit * np.minimum(2.0**_COARSE, np.finfo(np.float64).max / np.maximum(unit, 1.0))
    return np.stack([np.rint(middle / apart) * apart, unit], -1)


def _lattice_moments(parts: Univariates, line: LatticeAxis) -> tuple[Tensor, Tensor] | None:
    """Sum over the values between extreme quantiles; None if there are too many."""
    found = lattice_masses(parts, line)
    if found is None:
        return None
    mass = found[1].exp()  # (V, B)
    mass = mass / mass.sum(0)
    numbers = torch.from_numpy(found[0])[:, None]
    mean = (numbers * mass).sum(0)
    return mean, ((numbers - mean).square() * mass).sum(0).sqrt()
