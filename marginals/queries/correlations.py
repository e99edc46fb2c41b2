r"""Correlations of columns, from conditional means.

Cov(X, Y) = E[(X - E X) E[Y | X]]. The inner mean is that of a univariate conditional, given values
of X: all those of a lattice, else quantiles between which it is interpolated. The outer mean is
that of the margin of X. Both columns of a pair take the outer place once, and the two results are
averaged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import Categorical, Column, Schema
from marginals.columns.axis import quiet
from marginals.columns.dtypes import family
from marginals.densities import Density, Univariates
from marginals.queries import requests
from marginals.queries.moments import moments
from marginals.queries.named_rows import NamedModel
from marginals.queries.value_masses import FloatArray, numbers_at, value_masses

# Logits of the quantiles at which conditional means are taken: out to probabilities of 2e-9.
_LOGITS = torch.arange(-40, 41, dtype=torch.float64)[:, None, None] / 2
# As many even points, without so small a share of the quantiles at each end, follow the tails on
# both sides of a gap in the column.
_CUT = 6
# A lattice with more values than this counts as continuous.
_MOST_VALUES = 512
# Spreads beyond which values carry no noticeable mass; their products still fit into float32.
_FARTHEST = 1e9


class Correlations(NamedModel):
    """Pearson correlations, by column names."""

    def corr(self, columns: Any = None, given: Any = None) -> pd.DataFrame:
        """Return the Pearson correlation matrix of columns of numbers or times.

        It is computed from conditional means given each value of integers and atoms, and given 162
        points of a continuous column with interpolation between them. The error is about 1e-4, as
        in `mean`.

        Args:
            columns: the columns; by default all numeric columns that are not given.
            given: one row of evidence, as a dict.
        """
        density, schema = self._parts()
        if not requests.is_single(given):
            raise TypeError(
                f"Expected `given` to be a dict or None; got {type(given).__name__}. Condition on "
                "one row at a time."
            )
        positions = _positions(schema, columns, requests.given_columns(schema, given))
        density, known = requests.conditioned(density, schema, given, positions)
        found = correlations(density, schema, positions, density.checked(known))
        names = [schema.names[i] for i in positions]
        return pd.DataFrame(found.numpy(), index=names, columns=names)


@final
@dataclass(frozen=True)
class _Margin:
    """A column given the evidence alone: its mean, its spread and, on a lattice, its values."""

    column: Column
    part: Univariates
    mean: float
    spread: float
    masses: tuple[FloatArray, Tensor] | None


@torch.no_grad()
def correlations(
    density: Density, schema: Schema, positions: tuple[int, ...], known: Evidence
) -> Tensor:
    """Return the correlations of columns given one row of checked evidence, (n, n).

    A column without spread, or with an infinite one, has none: NaN.
    """
    every = density.univariates(known, positions)
    one = torch.zeros(1, dtype=torch.long, device=known.lower.device)
    margins = {i: _margin(every.take(k, one), schema.columns[i]) for k, i in enumerate(positions)}
    found = torch.full((len(positions),) * 2, torch.nan, dtype=torch.float64)
    varied = [k for k, i in enumerate(positions) if 0 < margins[i].spread < math.inf]
    for k in varied:
        found[k, k] = 1.0
        others = [m for m in varied if m != k]
        if others:
            own = {positions[m]: margins[positions[m]] for m in others}
            i = positions[k]
            found[k, others] = _covariances(density, known, i, margins[i], own)
    return ((found + found.T) / 2).clamp(-1.0, 1.0)


def _covariances(
    density: Density, known: Evidence, position: int, margin: _Margin, others: dict[int, _Margin]
) -> Tensor:
    """Return the covariances of a column with others, in spreads of the columns, (n,)."""
    points = _points(margin)
    with quiet():
        cells = margin.column.axis.exact(numbers_at(margin.column.axis, points).numpy())
    lower, upper = (torch.from_numpy(np.array(end))[:, None] for end in (cells.lower, cells.upper))
    given = density.checked(Evidence.interval(lower, upper, [position])).join(known)
    means = _means(density, given, others)  # (T, n)
    if margin.masses is not None:
        weights = margin.masses[1][:, 0].softmax(0)
        away = (torch.from_numpy(margin.masses[0]) - margin.mean) / margin.spread
        return (weights * away) @ means
    return torch.stack([_covariance(margin, points, column) for column in means.T])


def _covariance(margin: _Margin, points: Tensor, means: Tensor) -> Tensor:
    """Return the mean of X E[Y | X], in spreads, from E[Y | X] (T,) at points of the model's scale.

    The atoms are the last of the points, and no part of the curve between the others.
    """
    from scipy.interpolate import PchipInterpolator  # slow to import

    count = len(points) - len(margin.column.atoms)
    places, first = np.unique(points[:count].numpy(), return_index=True)
    curve = PchipInterpolator(places, means.numpy()[first]) if len(places) > 1 else None

    def product(x: Tensor, _: object) -> Tensor:
        at = x.double().cpu()
        mean = torch.zeros_like(at)
        if curve is not None:
            mean = torch.tensor(curve(at.numpy().clip(places[0], places[-1])))
        for atom, own in zip(points[count:], means[count:], strict=True):
            mean = torch.where(x.cpu() == atom.to(x.dtype), own, mean)
        away = (numbers_at(margin.column.axis, at) - margin.mean) / margin.spread
        return (away.clamp(-_FARTHEST, _FARTHEST) * mean).to(x)

    return margin.part.expect(product)[0, 0].double().cpu()


def _margin(part: Univariates, column: Column) -> _Margin:
    mean, spread = (float(value) for value in moments(part, column))
    masses = value_masses(part, column.axis)
    few = masses is not None and len(masses[0]) <= _MOST_VALUES
    return _Margin(column, part, mean, spread, masses if few else None)


def _positions(schema: Schema, columns: Any, given: tuple[int, ...]) -> tuple[int, ...]:
    if columns is None:
        return tuple(
            i
            for i, column in enumerate(schema)
            if i not in given and _is_number(column) and family(column.dtype) == "number"
        )
    positions = schema.positions(columns)
    for i in positions:
        if not _is_number(schema.columns[i]):
            raise TypeError(
                "Expected columns of numbers or times; got categorical column "
                f"{schema.names[i]!r}. Leave it out, or ask for `mutual_information`."
            )
    return positions


def _is_number(column: Column) -> bool:
    return not isinstance(column.kind, Categorical)


def _means(density: Density, rows: Evidence, margins: dict[int, _Margin]) -> Tensor:
    """Return the mean of each column given each row, in spreads from its own mean, (T, n)."""

    def standardised(x: Tensor, columns: Sequence[int]) -> Tensor:
        own = [margins[j] for j in columns]
        away = [
            (numbers_at(m.column.axis, v) - m.mean) / m.spread for m, v in zip(own, x, strict=True)
        ]
        return torch.stack(away).clamp(-_FARTHEST, _FARTHEST).to(x)

    def means_of(part: Univariates) -> Tensor:
        means = torch.empty(len(part.log_evidence), len(margins), dtype=torch.float64)
        index = torch.arange(len(means), device=rows.lower.device)
        smooth = [k for k, m in enumerate(margins.values()) if m.masses is None]
        for k, margin in enumerate(margins.values()):
            if margin.masses is not None:
                means[:, k] = _mean_of_values(part.take(k, index), margin)
        if smooth:
            means[:, smooth] = part.expect(standardised)[:, smooth].double().cpu()
        return means

    found = density.map_univariates(means_of, rows, list(margins))
    return torch.cat(found)


def _mean_of_values(part: Univariates, margin: _Margin) -> Tensor:
    """Return means (T,) by a sum over the gaps between values: E X = last - sum of gap F(end)."""
    assert margin.masses is not None
    line, values = margin.column.axis, margin.masses[0]
    with quiet():
        ends = line.between(np.full(len(values) - 1, -np.inf), values[:-1])[1]
    below = part.cdf(torch.from_numpy(ends).to(part.log_evidence)[:, None, None])[..., 0]
    gaps = torch.from_numpy(np.diff(values))
    return (values[-1] - gaps @ below.double().cpu() - margin.mean) / margin.spread


def _points(margin: _Margin) -> Tensor:
    """Return points of the model's scale at which others' means are taken, atoms last, (T,)."""
    if margin.masses is not None:
        with quiet():
            return torch.from_numpy(margin.column.axis.point(margin.masses[0]))
    atoms = torch.tensor(margin.column.atoms, dtype=torch.float64)
    device = margin.part.log_evidence.device
    levels = (level.to(device) for level in _smooth_levels(margin.part, atoms))
    points = margin.part.quantile(*levels)[:, 0, 0].double().cpu()
    # Next to where the CDF jumps, a quantile may be the atom or its neighbour.
    near = torch.isclose(points[:, None], atoms, rtol=1e-6, atol=1e-6).any(1)
    points = points[~near]
    cut = len(points) // _CUT
    share = torch.linspace(0, 1, len(_LOGITS), dtype=torch.float64)
    even = points[cut] + (points[-1 - cut] - points[cut]) * share if len(points) else points
    return torch.cat([torch.cat([points, even]).unique(), atoms])


def _smooth_levels(part: Univariates, atoms: Tensor) -> tuple[Tensor, Tensor]:
    """Return log u and log(1 - u) of levels at which the CDF does not jump, (T, 1, 1) each."""
    log_u, log_1mu = (torch.nn.functional.logsigmoid(sign * _LOGITS) for sign in (1, -1))
    if not len(atoms):
        return log_u, log_1mu
    at = part.evaluate(atoms.to(part.log_evidence)[:, None, None])
    mass, up_to = (value[:, 0, 0].double().cpu().exp() for value in (at.log_density, at.log_cdf))
    share = log_u.exp() * (1 - mass.sum())  # of the smooth part
    below = up_to - mass.cumsum(0)  # the smooth part below each atom
    u = (share + (mass * (share > below)).sum(-1, keepdim=True)).clamp(1e-12, 1 - 1e-12)
    return u.log(), torch.log1p(-u)
