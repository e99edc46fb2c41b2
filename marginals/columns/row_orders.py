"""Which columns never exceed others: a <= b in every row, as the start and the end of a trip."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["find_orders", "out_of_order"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_FIRST = 500  # rows that most pairs of columns fail on
_IMPLIED = 0.01  # share of rows that break an order if columns are independent; else it says little


def find_orders(
    values: Sequence[Floats], kinds: Sequence[Any], least: int = 1
) -> list[tuple[int, int]]:
    """Return the pairs (i, j) of columns with i <= j in every row that observes both.

    Pairs whose columns are ordered by their ranges alone, or equal, are left out: rows of
    independent columns must break an order often enough.

    Args:
        values: the numbers of each column, NaN where missing.
        kinds: only columns of one kind are compared, such as times.
        least: how many rows of independent columns must break an order at least.

    >>> start = np.arange(100.0) % 10
    >>> find_orders([start + 1, start], ["time", "time"])
    [(1, 0)]
    """
    if not values:
        return []
    head = np.stack([column[:_FIRST] for column in values], 1)
    random = np.random.default_rng(0)
    shuffled, mixed = random.permutation(len(values[0])), random.permutation(head)
    found = []
    for i, a in enumerate(values):
        # NaN exceeds nothing. Columns that are ordered by their ranges are many, and left out here.
        likely = ~(head[:, [i]] > head).any(0) & (head[:, [i]] > mixed).any(0)
        for j in np.flatnonzero(likely).tolist():
            b = values[j]
            if i == j or kinds[i] != kinds[j] or (a > b).any() or not (a < b).any():
                continue
            by_chance = a > b[shuffled]
            if by_chance.mean() >= _IMPLIED and by_chance.sum() >= least:
                found.append((i, j))
    return found


def out_of_order(frame: Any, orders: Sequence[tuple[Any, Any]]) -> Flags:
    """Say which rows of a table break an order; missing cells break none.

    Args:
        frame: the table.
        orders: pairs of names, of columns that never exceed others and these.
    """
    broken = np.zeros(len(frame), dtype=bool)
    for low, high in orders:
        above = frame[low] > frame[high]
        broken |= pd.array(above).fillna(False).to_numpy(dtype=bool) if _nullable(above) else above
    return np.array(broken, dtype=bool)


def _nullable(flags: pd.Series) -> bool:
    return not isinstance(flags.dtype, np.dtype)
