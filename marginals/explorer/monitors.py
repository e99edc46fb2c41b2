"""What monitors show: masses of bars, bins and atoms, and quantiles, in one pass."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import Schema
from marginals.densities import Density, Univariates
from marginals.explorer.evidence_json import (
    Conditioned,
    Given,
    ImpossibleError,
    conditioned,
)
from marginals.explorer.monitor_axis import MonitorAxis, decoded
from marginals.runtime.threads import answering

Floats = npt.NDArray[np.float64]
Cdf = Callable[[Floats], Floats]

LEVELS = (0.05, 0.5, 0.95)
# Points inside of the bracket of a quantile.
_POINTS = 24
# A CDF that rises by more between neighbours among these has an atom there.
_JUMP = 0.01


class Monitor(NamedTuple):
    """The distribution of one column.

    Args:
        masses: of the bars, or of the bins without atoms.
        atoms: masses of atoms among a curve.
        quantiles: at `LEVELS`, as the page's numbers; empty for categories without an order.
        beyond: masses below and above everything that is drawn.
    """

    masses: Floats
    atoms: Floats
    quantiles: Floats
    beyond: tuple[float, float]

    def to_json(self, decimals: int = 7) -> dict[str, Any]:
        """Return the monitor as the page reads it, with masses of some decimals."""
        return {
            "m": np.round(self.masses, decimals).tolist(),
            "a": np.round(self.atoms, decimals).tolist(),
            "q": [float(f"{q:.10g}") for q in self.quantiles],
            "b": [round(side, decimals) for side in self.beyond],
        }


class Shown(NamedTuple):
    """Monitors of columns by position, the hard evidence, and its log value."""

    monitors: dict[int, Monitor]
    hard: Evidence
    log_evidence: float


@torch.no_grad()
def monitors(
    density: Density,
    schema: Schema,
    axes: Sequence[MonitorAxis],
    given: Given,
    positions: Sequence[int],
    fine: bool = True,
) -> Shown:
    """Return the monitors of some columns without evidence, from one pass over the density.

    Args:
        density, schema, axes: the model.
        given: the evidence.
        positions: the columns.
        fine: quantiles to all digits; else to about a thousandth of the axis, in half the time.
    """
    state = conditioned(density, schema, given)
    with answering():
        if not positions:
            return Shown({}, state.encoded.evidence, _log_rows(state)[1])
        found = state.density.univariates(state.rows, positions)
        log_rows = found.log_evidence[:, 0].double().cpu()
        refuse_impossible(log_rows)
        weights = state.weights(log_rows)
        own = [axes[i] for i in positions]
        shown = evaluated(schema, own, mixed_cdf(found, weights), fine)
    if len(state.encoded.evidence) > 1 or (fine and state.encoded.evidence.has_intervals):
        log_value = log_union(density, state)
    else:
        log_value = float(log_rows.logsumexp(0) + state.encoded.log_jacobian[0])
    found_by = dict(zip(positions, shown, strict=True))
    return Shown(found_by, state.encoded.evidence, log_value)


def mixed_cdf(found: Univariates, weights: Tensor) -> Cdf:
    """Return the CDF of each column, mixed over the rows of evidence: points (Q, n) to (Q, n)."""
    used = weights > 0

    def cdf(points: Floats) -> Floats:
        each = torch.from_numpy(cdf_of_rows(found, points))
        return (each[:, used] * weights[used, None]).sum(1).numpy()

    return cdf


def cdf_of_rows(found: Univariates, points: Floats) -> Floats:
    """Return the CDF of each column at points (Q, n) for each row of evidence, (Q, B, n)."""
    x = torch.from_numpy(np.nan_to_num(points, posinf=0.0, neginf=0.0)).to(found.log_evidence)
    value = found.cdf(x[:, None]).double().cpu().numpy()
    ends = points[:, None]
    value = np.where(ends == -np.inf, 0.0, np.where(ends == np.inf, 1.0, value))
    return np.clip(value, 0.0, 1.0)


def refuse_impossible(log_rows: Tensor) -> None:
    """Refuse evidence of which every row has log value -inf."""
    if not bool((log_rows > -torch.inf).any()):
        raise ImpossibleError(
            "Expected evidence with a positive probability; got none. It was not applied."
        )


def log_union(density: Density, state: Conditioned) -> float:
    """Return the log value of evidence of several boxes."""
    boxes = state.encoded
    return float(
        (density.log_value(boxes.evidence).double().cpu() + boxes.log_jacobian).logsumexp(0)
    )


def _log_rows(state: Conditioned) -> tuple[Tensor, float]:
    """Return the log values of evidence about all columns, by row and together."""
    log_rows = state.density.log_value(state.rows).double().cpu()
    refuse_impossible(log_rows)
    return log_rows, float(log_rows.logsumexp(0) + state.encoded.log_jacobian[0])


def evaluated(
    schema: Schema, axes: Sequence[MonitorAxis], cdf: Cdf, fine: bool = True
) -> list[Monitor]:
    """Return the monitors of columns from their CDFs; fine quantiles take a second evaluation."""
    points = table_of(axes)
    below = cdf(points)  # (Q, n)
    quantiles = _quantiles(schema, axes, points, below, cdf if fine else None)
    return [
        _monitor(axis, below[: len(axis.points), place], quantiles[place])
        for place, axis in enumerate(axes)
    ]


def table_of(axes: Sequence[MonitorAxis]) -> Floats:
    """Return the points of all axes side by side, (Q, n), filled up with infinity."""
    points = np.full((max(len(axis.points) for axis in axes), len(axes)), np.inf)
    for place, axis in enumerate(axes):
        points[: len(axis.points), place] = axis.points
    return points


def masses_of(axis: MonitorAxis, below: Floats) -> tuple[Floats, Floats, Floats]:
    """Return masses of bars or bins, of atoms, and of both sides beyond, from a CDF (Q, ...)."""
    at = below[axis.ends]
    masses = np.maximum(np.diff(at, axis=0), 0.0)
    atoms = np.maximum(below[axis.atom_ends[:, 1]] - below[axis.atom_ends[:, 0]], 0.0)
    for mass, (_, place) in zip(atoms, axis.atom_ends, strict=True):
        inside = int(np.searchsorted(axis.ends, place)) - 1  # of the bin that ends at or after it
        if 0 <= inside < len(masses):
            masses[inside] = np.maximum(masses[inside] - mass, 0.0)
    return masses, atoms, np.stack([at[0], 1 - at[-1]])


def _monitor(axis: MonitorAxis, below: Floats, quantiles: Floats) -> Monitor:
    masses, atoms, (low, high) = masses_of(axis, below)
    return Monitor(masses, atoms, quantiles, (float(low), float(high)))


# Quantiles --------------------------------------------------------------------------------------


def _quantiles(
    schema: Schema, axes: Sequence[MonitorAxis], points: Floats, below: Floats, cdf: Cdf | None
) -> list[Floats]:
    """Return the quantiles of each column: read from the table, or inside of narrowed brackets."""
    found: list[Floats] = []
    smooth = [i for i, axis in enumerate(axes) if axis.kind == "curve"]
    low = high = np.empty((len(LEVELS), 0))
    if smooth:
        low, high = _narrowed(points, below, smooth, cdf)
    for place, axis in enumerate(axes):
        if not axis.ordered:
            found.append(np.empty(0))
        elif axis.kind == "bars":
            inside = [int(np.searchsorted(below[: len(axis.points), place], u)) for u in LEVELS]
            bars = np.clip(np.array(inside) - 1, 0, len(axis.places) - 1)
            found.append(axis.places[bars])
        else:
            at = smooth.index(place)
            found.append(decoded(schema, axis, _snapped(axis, low[:, at], high[:, at])))
    return found


def _narrowed(
    points: Floats, below: Floats, smooth: Sequence[int], cdf: Cdf | None
) -> tuple[Floats, Floats]:
    """Return brackets (L, n) of the quantiles of smooth columns, closed except around jumps.

    The CDF is evaluated once more, at even points inside of the brackets of all quantiles together.
    Among these, points are interpolated as a cubic function of the CDF. Without a CDF, the points
    of the table itself are, and no jump is looked for.
    """
    levels = np.array(LEVELS)[:, None]  # (L, 1)
    shape = (len(points), len(LEVELS), len(smooth))
    grid, values = (
        np.broadcast_to(part[:, None, smooth], shape) for part in (points, below)
    )  # (Q, L, n)
    if cdf is not None:
        grid, values = _refined(grid, values, levels, smooth, points.shape[1], cdf)
    at = _upper_end(grid, values, levels)
    low, high, f_low, f_high = _ends(grid, values, at)
    middle = np.clip(_interpolated(grid, values, levels, at), low, high)
    # Levels beyond the points take the outer ones.
    middle = np.where(levels <= f_low, low, np.where(levels >= f_high, high, middle))
    jump = (f_high - f_low > _JUMP) & (cdf is not None)
    return np.where(jump, low, middle), np.where(jump, high, middle)


def _refined(
    grid: Floats, values: Floats, levels: Floats, smooth: Sequence[int], count: int, cdf: Cdf
) -> tuple[Floats, Floats]:
    """Return even points inside of the brackets of quantiles, and the CDF there, (P, L, n)."""
    low, high, f_low, f_high = _ends(grid, values, _upper_end(grid, values, levels))
    share = (np.arange(1, _POINTS + 1) / (_POINTS + 1))[:, None, None]
    inner = low + (high - low) * share  # (P, L, n)
    every = np.zeros((_POINTS * len(LEVELS), count))
    every[:, smooth] = inner.reshape(-1, len(smooth))
    value = cdf(every)[:, smooth].reshape(inner.shape)
    value = np.maximum.accumulate(np.clip(value, f_low, f_high), axis=0)
    return (
        np.concatenate([low[None], inner, high[None]]),
        np.concatenate([f_low[None], value, f_high[None]]),
    )


def _ends(grid: Floats, values: Floats, at: npt.NDArray[np.int64]) -> tuple[Floats, ...]:
    """Return the points before and at places, then the CDF there, (L, n) each."""
    return tuple(
        np.take_along_axis(part, at - 1 + step, 0)[0] for part in (grid, values) for step in (0, 1)
    )


def _upper_end(grid: Floats, values: Floats, levels: Floats) -> npt.NDArray[np.int64]:
    """Return the places (1, L, n) of the first finite points at which the CDF reaches levels."""
    above = (values < levels).sum(0)
    finite = np.isfinite(grid)
    first = np.argmax(finite, 0)
    last = len(grid) - 1 - np.argmax(finite[::-1], 0)
    return np.clip(above, first + 1, last)[None]


def _interpolated(
    grid: Floats, values: Floats, levels: Floats, at: npt.NDArray[np.int64]
) -> Floats:
    """Return the points at levels by Newton's cubic through four neighbours, x as a function of F.

    Where neighbours have equal values, by the line between the two ends.
    """
    start = np.clip(at - 2, 0, len(grid) - 4)
    f, x = (
        np.concatenate([np.take_along_axis(part, start + k, 0) for k in range(4)])
        for part in (values, grid)
    )  # (4, L, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes, total, factor = x, x[0], np.ones_like(x[0])
        for order in range(1, 4):
            slopes = np.diff(slopes, axis=0) / (f[order:] - f[:-order])
            factor = factor * (levels - f[order - 1])
            total = total + slopes[0] * factor
        low, high, f_low, f_high = _ends(grid, values, at)
        line = low + (high - low) * (levels - f_low) / (f_high - f_low)
    inside = np.isfinite(total) & (total >= low) & (total <= high)
    return np.where(inside, total, np.where(np.isfinite(line), line, (low + high) / 2))


def _snapped(axis: MonitorAxis, low: Floats, high: Floats) -> Floats:
    """Return the points of narrow brackets; where one holds an atom, that atom."""
    out = (low + high) / 2
    for _, place in axis.atom_ends:
        atom = axis.points[place]
        out = np.where((low <= atom) & (atom <= high) & (low < high), atom, out)
    return out
