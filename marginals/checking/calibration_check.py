"""Whether each column's distribution given the other columns is right: a row's level in it."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import kstwo

from marginals.cells import Evidence
from marginals.checking.significance import KOLMOGOROV_MEAN, judged
from marginals.columns import Schema
from marginals.densities import Density
from marginals.queries.uniforms import cell_ends
from marginals.synthesis.comparable_cells import Floats

_CENTRAL = 0.9  # level of the central interval whose coverage is counted


def levels_of(density: Density, cells: Evidence, random: np.random.Generator) -> Floats:
    """Return the probability integral transforms of cells, (B, n).

    The transform of a cell is its level F(cell | the row's other cells), at random within the mass
    of a category, an atom or a lattice value. It is NaN where a cell is missing or its row
    impossible.
    """
    ends = cell_ends(density, cells, cells.columns, cells.columns).cpu().numpy()  # (B, n, 2)
    below, at = ends[..., 0], ends[..., 1]
    return below + (at - below) * random.random(below.shape)


def calibration(schema: Schema, columns: Sequence[int], levels: Floats) -> pd.DataFrame:
    """Compare levels (B, n) of some columns with a uniform distribution, as those of a right model.

    Returns:
        One line per column, with the Kolmogorov `distance` of the levels from uniform, its `noise`
        and `pvalue`, and the `coverage` of the central 90 % interval.
    """
    names = [schema.names[c] for c in columns]
    lines = [_line(name, levels[:, i][~np.isnan(levels[:, i])]) for i, name in enumerate(names)]
    return judged(pd.DataFrame(lines).set_index("column"))


def _line(name: object, levels: Floats) -> dict[str, object]:
    count = len(levels)
    if not count:
        empty = {"distance": 0.0, "noise": 0.0, "pvalue": 1.0, "coverage": np.nan}
        return {"column": name, "rows": 0, **empty}
    levels = np.sort(levels)
    steps = np.arange(count + 1) / count
    distance = float(np.abs([levels - steps[:-1], levels - steps[1:]]).max())
    return {
        "column": name,
        "rows": count,
        "distance": distance,
        "noise": KOLMOGOROV_MEAN / np.sqrt(count),
        "pvalue": float(kstwo.sf(distance, count)),
        "coverage": float((np.abs(levels - 0.5) <= _CENTRAL / 2).mean()),
    }
