"""The joint distribution of two columns given evidence, on a grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from marginals.cells import Evidence
from marginals.columns import Schema
from marginals.densities import Density
from marginals.explorer.axis_cells import cells_of
from marginals.explorer.evidence_json import Given, conditioned
from marginals.explorer.monitor_axis import MonitorAxis
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
    """Return the probability of each cell of a grid of two columns."""
    state = conditioned(density, schema, given)
    across, up = cells_of(axes[x], SIDE), cells_of(axes[y], SIDE)
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
