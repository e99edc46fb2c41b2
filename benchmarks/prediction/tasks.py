"""What is predicted: a column of a real table, from the others, complete or with gaps."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd

from benchmarks.imputation.tables import load

TARGETS = {"concrete": "strength", "airfoil": "level", "diamonds": "price"}
CLASSES = {"breast-cancer": "target", "yeast": "site"}
MOST_ROWS = 2000
TEST = 0.3


@final
@dataclass(frozen=True)
class Task:
    """Rows to learn from, and rows to predict.

    Args:
        name: of the table.
        x, y: features and target to learn from.
        x_test, y_test: those to predict.
        is_class: whether the target is a category.
    """

    name: str
    x: pd.DataFrame
    y: pd.Series
    x_test: pd.DataFrame
    y_test: pd.Series
    is_class: bool


def make_task(
    name: str, folder: Path | None, missing: float, seed: int, rows: int = MOST_ROWS
) -> Task:
    """Split a table, and hide a share of the features' cells in both parts, each by itself."""
    table = load(name, folder, rows)
    rng = np.random.default_rng([seed, round(1000 * missing)])
    target = {**TARGETS, **CLASSES}[name]
    x, y = table.drop(columns=target), table[target]
    # The same rows are tested with and without gaps.
    order = np.random.default_rng(seed).permutation(len(table))
    x = x.mask(rng.random(x.shape) < missing) if missing else x
    cut = round(TEST * len(table))
    if name in CLASSES:
        # A class that is not seen in training has no probability to be compared.
        seen = set(y.iloc[order[cut:]])
        order = order[[i >= cut or y.iloc[r] in seen for i, r in enumerate(order)]]
        cut = int(len(order) - (len(table) - cut))
    parts = [part.iloc[rows] for rows in (order[cut:], order[:cut]) for part in (x, y)]
    x, y, x_test, y_test = (part.reset_index(drop=True) for part in parts)
    return Task(name, x, y, x_test, y_test, name in CLASSES)
