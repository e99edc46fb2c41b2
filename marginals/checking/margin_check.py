"""The distance between each column of a table and the model's exact marginal."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2, kstwo

from marginals.checking.known_cells import known_cells
from marginals.checking.significance import KOLMOGOROV_MEAN, judged
from marginals.columns import Categorical, Schema
from marginals.densities import Density
from marginals.queries.uniforms import cell_ends
from marginals.synthesis.column_distances import total_variation
from marginals.synthesis.comparable_cells import Floats

# The CDF is evaluated at so many values of a column: a distance is then short by 1/2000 at most.
_MOST_VALUES = 2000
_FEWEST_EXPECTED = 5.0  # rows that a category needs in the chi-squared test; rarer ones are pooled


def margin_distances(density: Density, schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    """Compare each column of a table with the model's marginal, one line per column.

    `distance` is the Kolmogorov distance of an ordered column and the total variation distance of
    categories. `noise` is its mean for a table drawn from the model, `pvalue` the chance of a
    distance as large. `missing` and `impossible` are the shares of missing cells and of cells that
    the model says cannot occur.
    """
    lines = [_line(density, schema, frame[[name]]) for name in frame.columns]
    return judged(pd.DataFrame(lines).set_index("column"))


def _line(density: Density, schema: Schema, frame: pd.DataFrame) -> dict[str, Any]:
    name = frame.columns[0]
    observed = frame[frame[name].notna()]
    codes, distinct = pd.factorize(observed[name])
    categorical = isinstance(schema[name].kind, Categorical)
    line = {"column": name, "kind": type(schema[name].kind).__name__.lower(), "rows": len(observed)}
    line |= {"distance": 0.0, "noise": 0.0, "pvalue": 1.0, "impossible": 0.0}
    line["missing"] = 1.0 - len(observed) / len(frame)
    if not len(observed):
        return line
    counts = np.bincount(codes)
    first = np.unique(codes, return_index=True)[1]
    order = np.arange(len(distinct)) if categorical else np.argsort(distinct, kind="stable")
    counts, values = counts[order], observed.iloc[first[order]]
    below = np.cumsum(counts) - counts
    if not categorical and len(values) > _MOST_VALUES:
        some = np.linspace(0, len(values) - 1, _MOST_VALUES).round().astype(int)
        counts, values, below = counts[some], values.iloc[some], below[some]
    ends = _ends(density, schema, values)
    line["impossible"] = float(counts[np.isnan(ends[:, 0])].sum() / len(observed))
    compare = _categories if categorical else _ordered
    distances = compare(below, counts, len(observed), ends)
    return line | dict(zip(("distance", "noise", "pvalue"), distances, strict=True))


def _ends(density: Density, schema: Schema, values: pd.DataFrame) -> Floats:
    """Return the marginal CDF below and at values, (N, 2); NaN where they cannot occur."""
    cells = known_cells(density, schema, values)
    return cell_ends(density, cells, cells.columns, [])[:, 0].cpu().numpy()


def _ordered(below: Any, counts: Any, rows: int, ends: Floats) -> tuple[float, float, float]:
    """Return the Kolmogorov distance of rising values from their CDF, its noise and p-value.

    The p-value is that of continuous columns, and conservative for others.
    """
    at = pd.Series(ends[:, 1]).ffill().fillna(0.0).to_numpy()
    before = np.where(np.isnan(ends[:, 0]), at, ends[:, 0])
    gaps = np.abs([below / rows - before, (below + counts) / rows - at])
    distance = float(gaps.max())
    return distance, KOLMOGOROV_MEAN / np.sqrt(rows), float(kstwo.sf(distance, rows))


def _categories(_: Any, counts: Any, rows: int, ends: Floats) -> tuple[float, float, float]:
    """Return the total variation distance of categories, its noise and chi-squared p-value."""
    mass = np.nan_to_num(np.diff(ends, axis=1)[:, 0])
    mass = np.append(mass, max(0.0, 1.0 - mass.sum()))  # of the categories that the table lacks
    counts = np.append(counts, 0)
    noise = float(np.sqrt(mass * (1 - mass) / (2 * np.pi * rows)).sum())
    return total_variation(counts / rows, mass), noise, _chi_squared(counts, rows * mass)


def _chi_squared(counts: Any, expected: Floats) -> float:
    """Return the p-value of counts; categories with few expected rows count as one."""
    rare = expected < _FEWEST_EXPECTED
    seen = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    if wanted[-1] < _FEWEST_EXPECTED and len(wanted) > 1:  # too few even together
        place = int(np.argmin(wanted[:-1]))
        wanted[place] += wanted[-1]
        seen[place] += seen[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    return float(chi2.sf(((seen - wanted) ** 2 / wanted).sum(), max(1, len(wanted) - 1)))
