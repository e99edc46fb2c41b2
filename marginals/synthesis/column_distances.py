"""The distance between single columns of two tables."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp, wasserstein_distance

from marginals.synthesis.comparable_cells import Cells, Floats, spread


def column_distances(columns: Sequence[Cells]) -> pd.DataFrame:
    """Return one line per column of a real and a synthetic table.

    `distance` is the Kolmogorov-Smirnov distance of numbers or the total variation distance of
    categories, both between 0 and 1; `shift` is the Wasserstein distance of numbers, in standard
    deviations of the real column.
    """
    return pd.DataFrame([_line(column) for column in columns]).set_index("column")


def _line(column: Cells) -> dict[str, object]:
    missing = [float(np.isnan(part).mean()) if len(part) else 0.0 for part in column.parts[:2]]
    real, drawn = (part[~np.isnan(part)] for part in column.parts[:2])
    return {
        "column": column.name,
        "kind": "number" if column.number else "category",
        "distance": _distance(real, drawn, column.number),
        "shift": _shift(real, drawn) if column.number else np.nan,
        "missing_real": missing[0],
        "missing_synthetic": missing[1],
    }


def _distance(real: Floats, drawn: Floats, number: bool) -> float:
    if not len(real) or not len(drawn):
        return float(len(real) != len(drawn))
    if number:
        return float(ks_2samp(real, drawn, method="asymp").statistic)
    shares = pd.DataFrame(
        {i: pd.Series(v).value_counts() / len(v) for i, v in enumerate((real, drawn))}
    )
    shares = shares.fillna(0.0)
    return total_variation(shares[0].to_numpy(), shares[1].to_numpy())


def total_variation(first: Floats, second: Floats) -> float:
    """Return the total variation distance of two lists of probabilities.

    >>> total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25]))
    0.25
    """
    return float(np.abs(first - second).sum() / 2)


def _shift(real: Floats, drawn: Floats) -> float:
    if not len(real) or not len(drawn):
        return 0.0 if len(real) == len(drawn) else np.inf
    distance, scale = float(wasserstein_distance(real, drawn)), spread(real)
    if distance == 0:
        return 0.0
    return distance / scale if scale > 0 else np.inf
