"""The joint distribution of two columns given evidence, on a grid."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from marginals.cells import Evidence
from marginals.columns import Schema
from marginals.densities import Density
from marginals.explorer.evidence_json import Given, conditioned
from marginals.explorer.monitor_axis import Floats, MonitorAxis
from marginals.explorer.monitors import refuse_impossible
from marginals.runtime.threads import answering

# Cells along a side of the picture for a column with a curve.
SIDE = 44


@torch.no_grad()
def joint_masses(
    density: Density,
    schema: Schema,
    axes: Sequence[MonitorAxis],
    given: Given,
    x: int,
    y: int,
) -> dict[str, Any]:
    """Return the probability of each cell of a grid of two columns.

    The mass of a bin is its width, on the model's scale, times the density in its middle.
    """
    state = conditioned(density, schema, given)
    across, up = _grid(axes[x]), _grid(axes[y])
    place = np.indices((len(up.lower), len(across.lower))).reshape(2, -1)
    sides = [
        torch.from_numpy(np.stack([getattr(across, end)[place[1]], getattr(up, end)[place[0]]], 1))
        for end in ("lower", "upper")
    ]
    asked = state.density.checked(Evidence.interval(sides[0], sides[1], (x, y)))
    widths = across.log_widths[place[1]] + up.log_widths[place[0]]
    with answering():
        log_rows = torch.zeros(1, dtype=torch.float64)
        if state.rows.columns:
            log_rows = state.density.log_value(state.rows).double().cpu()
            refuse_impossible(log_rows)
        weights = state.weights(log_rows)
        total = np.zeros(len(widths))
        for row in torch.nonzero(weights > 0)[:, 0].tolist():
            known = state.rows.rows(torch.tensor([row])) if state.rows.columns else None
            value = state.density.log_conditional(asked, known).double().cpu().numpy()
            total += float(weights[row]) * np.exp(value + widths)
    masses = total.reshape(len(up.lower), len(across.lower))
    return {
        "x": across.page.tolist(),
        "y": up.page.tolist(),
        "m": [[float(f"{v:.4g}") for v in row] for row in masses],
    }


class _Grid(NamedTuple):
    """Cells of one column: their ends on the page, and what they are on the model's scale."""

    page: Floats
    lower: Floats
    upper: Floats
    log_widths: Floats


def _grid(axis: MonitorAxis) -> _Grid:
    """Return values of a column as cells with masses, or bins as middles with widths."""
    count = len(axis.places)
    if axis.column.listed is not None:
        codes = np.arange(count, dtype=np.float64)
        return _Grid(np.arange(count + 1, dtype=np.float64) - 0.5, codes, codes, np.zeros(count))
    ends = axis.points[axis.ends]
    if axis.kind == "bars":
        half = 0.5 * (axis.step or 1.0)
        page = np.append(axis.places - half, axis.places[-1] + half)
        return _Grid(page, ends[:-1], ends[1:], np.zeros(count))
    places = np.unique(np.linspace(0, count - 1, SIDE + 1).round().astype(int))
    ends = ends[places]
    if not np.isfinite(ends[0]):  # the column's bound, which is infinitely far
        ends[0] = ends[1] - 2 * (ends[2] - ends[1])
    if not np.isfinite(ends[-1]):
        ends[-1] = ends[-2] + 2 * (ends[-2] - ends[-3])
    middle = (ends[1:] + ends[:-1]) / 2
    return _Grid(axis.places[places], middle, middle, np.log(np.diff(ends)))
