"""How far the columns of two tables are apart, one at a time."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from marginals.synthesis.comparable_cells import Cells, Floats, spread


def column_distances(columns: Sequence[Cells]) -> pd.DataFrame:
    """Return a line for each column of a real and a synthetic table.

    `distance` is Kolmogorov and Smirnov's for numbers and total variation for categories, both
    between 0 and 1; `shift` is Wasserstein's distance of numbers, in standard deviations.
    """
    return pd.DataFrame([_line(column) for column in columns]).set_index("column")


def _line(column: Cells) -> dict[str, object]:
    missing = [float(np.isnan(part).mean()) if len(part) else 0.0 for part in column.parts[:2]]
    real, drawn = (part[~np.isnan(part)] for part in column.parts[:2])
    far, shift = _far(real, drawn) if column.number else (_variation(real, drawn), np.nan)
    return {
        "column": column.name,
        "kind": "number" if column.number else "category",
        "distance": far,
        "shift": shift,
        "missing_real": missing[0],
        "missing_synthetic": missing[1],
    }


def _far(real: Floats, drawn: Floats) -> tuple[float, float]:
    """Return the largest and the mean distance of two empirical CDFs, the latter in deviations."""
    if not len(real) or not len(drawn):
        return (0.0, 0.0) if len(real) == len(drawn) else (1.0, np.inf)
    points = np.sort(np.concatenate([real, drawn]))
    first, second = (
        np.searchsorted(np.sort(part), points, side="right") / len(part) for part in (real, drawn)
    )
    gap = np.abs(first - second)
    area = float((gap[:-1] * np.diff(points)).sum())
    scale = spread(real)
    if area == 0:
        return float(gap.max()), 0.0
    return float(gap.max()), area / scale if scale > 0 else np.inf


def _variation(real: Floats, drawn: Floats) -> float:
    """Return half the sum of differences of shares."""
    if not len(real) or not len(drawn):
        return float(len(real) != len(drawn))
    count = 1 + int(max(real.max(), drawn.max()))
    shares = [np.bincount(part.astype(int), minlength=count) / len(part) for part in (real, drawn)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
