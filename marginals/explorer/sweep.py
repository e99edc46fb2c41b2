"""All monitors for every value of one column, so that the page follows a drag by itself."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from marginals.columns import Schema
from marginals.columns.axis import quiet
from marginals.columns.lattice_axis import LatticeAxis
from marginals.densities import Density
from marginals.explorer.axis_cells import AxisCells, cells_of
from marginals.explorer.evidence_json import Given, conditioned, is_density
from marginals.explorer.monitor_axis import Floats, MonitorAxis
from marginals.explorer.monitors import (
    cdf_of_rows,
    log_union,
    masses_of,
    refuse_impossible,
    table_of,
)
from marginals.runtime.threads import answering

# Bins of the column that is dragged; between their middles, the page interpolates.
BINS = 50


@torch.no_grad()
def sweep(
    density: Density,
    schema: Schema,
    axes: Sequence[MonitorAxis],
    given: Given,
    moved: int,
    positions: Sequence[int],
) -> dict[str, Any]:
    """Return the monitors of columns given each cell of one column, and the cells' masses.

    Evidence on that column is then a weighted mean over cells: a range takes those inside by their
    masses, soft evidence takes its own weights.

    Args:
        density, schema, axes: the model.
        given: hard evidence on other columns.
        moved: the column whose evidence changes.
        positions: the columns to show.
    """
    state = conditioned(density, schema, given)
    axis = axes[moved]
    cells = cells_of(axis, BINS)
    own = _with_atoms(axis, cells).evidence(moved)
    rows = state.density.checked(own)
    if state.rows.columns:
        rows = rows.join(state.rows.rows(torch.zeros(len(rows), dtype=torch.long)))
    shown = [axes[i] for i in positions]
    with answering():
        found = state.density.univariates(rows, positions)
        log_rows = found.log_evidence[:, 0].double().cpu()
        refuse_impossible(log_rows)
        below = cdf_of_rows(found, table_of(shown))  # (Q, B, n)
        alone = state.density.univariates(state.rows, [moved])
        several = len(state.encoded.evidence) > 1
        base = log_union(density, state) if several else float(state.encoded.log_jacobian[0])
    log = log_rows.numpy() + base
    masses = _log_masses(axis, cells, cdf_of_rows(alone, axis.points[:, None])[:, 0, 0])
    masses = masses + float(alone.log_evidence[0, 0]) + base
    return {
        "ends": cells.page.tolist(),
        "log": _listed(masses),
        "at": _listed(_values_of(axis, cells, log, masses)),
        "density": [is_density(schema, given), axis.kind == "curve" and axis.step is None],
        "columns": {
            own.id: _packed(masses_of(own, below[:, :, place])) for place, own in enumerate(shown)
        },
    }


def _with_atoms(axis: MonitorAxis, cells: AxisCells) -> AxisCells:
    """Return cells followed by the atoms, which are exact values."""
    atoms = axis.points[axis.atom_ends[:, 1]]
    lower, upper = (np.append(side, atoms) for side in (cells.lower, cells.upper))
    return cells._replace(lower=lower, upper=upper)


def _log_masses(axis: MonitorAxis, cells: AxisCells, below: Floats) -> Floats:
    """Return the log masses of cells and atoms from the CDF at the points of the axis."""
    masses, atoms, _ = masses_of(axis, below)
    if axis.kind == "curve":
        masses = np.add.reduceat(masses, np.searchsorted(axis.places, cells.page[:-1]))
    with np.errstate(divide="ignore"):
        return np.log(np.append(masses, atoms))


def _values_of(axis: MonitorAxis, cells: AxisCells, log: Floats, masses: Floats) -> Floats:
    """Return the log density in the column's unit, or log mass, of a value in each cell."""
    out, count, line = masses.copy(), len(cells.log_widths), axis.column.axis
    if axis.kind == "bars":
        return out
    if isinstance(line, LatticeAxis):
        out[:count] -= np.log(np.maximum(np.diff(cells.page) / (axis.step or 1.0), 1.0))
        return out
    with quiet():
        slope = line.exact(line.numbers(cells.lower)).log_slope
    out[:count] = log[:count] + slope
    return out


def _listed(values: Floats) -> list[float | None]:
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in values]


def _packed(parts: tuple[Floats, Floats, Floats]) -> str:
    """Return masses of bins, atoms and both sides beyond as float32, a row for each cell.

    A cell that cannot happen has no conditional, and no weight on the page.
    """
    table = np.nan_to_num(np.concatenate(parts).T).astype("<f4")  # (B, bins + atoms + 2)
    return base64.b64encode(table.tobytes()).decode()
