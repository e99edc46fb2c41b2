"""The most likely value of a column."""

import math
from typing import Any

import torch
from torch import Tensor

from marginals.columns import Categorical, Column, decode_column
from marginals.columns.axis import quiet
from marginals.columns.dtypes import UNITS, family, unit
from marginals.columns.lattice_axis import LatticeAxis
from marginals.densities import Univariates
from marginals.densities.univariate_cells import log_mass
from marginals.queries import requests
from marginals.queries.named_rows import NamedModel
from marginals.queries.value_masses import numbers_at, value_masses

# The search starts from quantiles: evenly spaced ones, and logarithmically in both tails.
_TAILS = 10.0 ** torch.linspace(-4, -2.1, 16, dtype=torch.float64)
_LEVELS = torch.cat([_TAILS, torch.linspace(0.01, 0.99, 99, dtype=torch.float64), 1 - _TAILS])
_LEVELS = _LEVELS.sort().values
# The highest peaks among these are refined, by rounds of even points between their neighbours.
_STARTS, _POINTS, _ROUNDS = 6, 9, 12
# An atom competes with an interval of this share of the range from the 1 % to the 99 % quantile.
_WIDTH = 0.01


class Modes(NamedModel):
    """Most likely values, by column names."""

    def mode(self, column: Any, given: Any = None) -> Any:
        """Return the most likely value of a column: one value, or one for each row of `given`.

        This is the category, integer or rounded value with the largest probability. For a
        continuous column, it is the point with the largest density per unit of the column, found
        from 131 quantiles between 0.0001 and 0.9999, whose highest peaks are refined. An atom is
        the mode if it is as likely as the values around that point, within an interval as wide as
        1 % of the range from the 1 % to the 99 % quantile.

        Args:
            column: any column.
            given: evidence; None for none.
        """
        density, schema = self._parts()
        position = schema.index(column)
        described = schema.columns[position]
        density, known = requests.conditioned(density, schema, given, [position])
        known = density.checked(known)
        size = max(1, density.rows_at_once(known) // len(_LEVELS))
        with torch.no_grad():
            found = density.map_univariates(
                lambda part: modes(part, described), known, [position], size
            )
        points = torch.cat(found)
        values = decode_column(schema, described.name, points)
        return values[0] if requests.is_single(given) else values


def modes(parts: Univariates, column: Column) -> Tensor:
    """Return the most likely value of univariates of one column, (B,), on the model's scale."""
    if isinstance(column.kind, Categorical):
        return most_likely(parts, len(column.kind.categories or ()))
    masses = value_masses(parts, column.axis)
    if masses is None:
        return _smooth(parts, column)
    values, log_masses = masses
    with quiet():
        points = torch.from_numpy(column.axis.point(values))
    return points[log_masses.argmax(0)]


def most_likely(parts: Univariates, categories: int) -> Tensor:
    """Return the code of the most likely category of each row, (B,)."""
    codes = torch.arange(categories).to(parts.log_evidence)
    return parts.logpdf(codes[:, None, None])[..., 0].argmax(0).double()


def _smooth(parts: Univariates, column: Column) -> Tensor:
    """Search for the highest point of densities, and compare it with the atoms, (B,)."""
    levels = _LEVELS[:, None, None].to(parts.log_evidence.device)
    grid = parts.quantile(levels.log(), torch.log1p(-levels))[..., 0].double().cpu()  # (Q, B)
    heights = _log_heights(parts, grid, column)
    beside = torch.nn.functional.pad(heights, (0, 0, 1, 1), value=-torch.inf)
    peaks = (heights >= beside[:-2]) & (heights >= beside[2:])
    start = heights.where(peaks, -torch.inf).topk(_STARTS, 0).indices  # (S, B)
    low, high = (
        grid.gather(0, (start + step).clamp(0, len(grid) - 1)) for step in (-1, 1)
    )  # (S, B)
    share = torch.linspace(0, 1, _POINTS, dtype=torch.float64)[:, None, None]
    for _ in range(_ROUNDS):
        points = low + (high - low) * share  # (P, S, B)
        heights = _log_heights(parts, points.flatten(0, 1), column).unflatten(0, (_POINTS, -1))
        top = heights.max(0)
        low, high = (
            points.gather(0, (top.indices + step).clamp(0, _POINTS - 1)[None])[0]
            for step in (-1, 1)
        )
    point = points.gather(0, top.indices[None])[0]  # (S, B)
    height, best = top.values.max(0)
    point = point.gather(0, best[None])[0]  # (B,)
    lattice = isinstance(column.axis, LatticeAxis)  # whose heights count the atoms
    return point if lattice or not column.atoms else _or_atom(parts, column, grid, point, height)


def _log_heights(parts: Univariates, points: Tensor, column: Column) -> Tensor:
    """Return log densities per unit of the column at points (Q, B); masses on a lattice.

    Points of the model's scale that are atoms have none.
    """
    line, at = column.axis, points.to(parts.log_evidence)
    numbers = numbers_at(line, points).reshape(-1).numpy()
    if isinstance(line, LatticeAxis):
        with quiet():
            ends = line.rounded(numbers)
        cells = (torch.from_numpy(end).reshape(points.shape).to(at)[..., None] for end in ends)
        return log_mass(*map(parts.evaluate, cells))[..., 0].double().cpu()
    with quiet():
        slope = torch.from_numpy(line.exact(numbers).log_slope).reshape(points.shape)
    height = parts.logpdf(at[..., None])[..., 0].double().cpu() + slope
    for atom in column.atoms:
        height = height.masked_fill(at.cpu() == torch.tensor(atom, dtype=at.dtype), -torch.inf)
    return height


def _or_atom(
    parts: Univariates, column: Column, grid: Tensor, point: Tensor, height: Tensor
) -> Tensor:
    """Return the atom with the largest mass where it is as likely as the values around a point."""
    atoms = torch.tensor(column.atoms, dtype=torch.float64)
    log_masses = parts.logpdf(atoms.to(parts.log_evidence)[:, None, None])[..., 0].double().cpu()
    mass, best = log_masses.max(0)  # (B,)
    ends = [int((_LEVELS - level).abs().argmin()) for level in (0.01, 0.99)]
    low, high = numbers_at(column.axis, grid[ends])
    width = _WIDTH * (high - low) * _unit(column)
    return torch.where(mass >= height + width.log(), atoms[best], point)


def _unit(column: Column) -> float:
    """Return the user's units in one of the column's numbers; those of times are seconds."""
    if family(column.dtype) == "number":
        return 1.0
    return math.exp(math.log(column.grain) - math.log(UNITS[unit(column.dtype)]))
