"""Random conjunctions and boxes of the study of selectivity."""

import numpy as np
import pandas as pd

from marginals import MDMA
from studies.selectivity import divided_boxes, drawn_queries, violations


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    minute = np.arange(300) // 3
    return pd.DataFrame({"minute": minute, "power": np.sin(minute / 40) + rng.normal(size=300)})


def test_whole_columns_have_whole_ends() -> None:
    """A fraction makes a database cast the column, for which it has no statistics."""
    queries = drawn_queries(_table(), 50, np.random.default_rng(0))
    ends = [part.low for query in queries for part in query if part.column == "minute"]
    assert ends
    assert all(isinstance(end, int) for end in ends)


def test_boxes_are_divided_in_two() -> None:
    table = _table()
    for whole, left, right in divided_boxes(table, 40, np.random.default_rng(0)):
        assert len(whole) == len(left) == len(right) > 0
        for row in range(len(whole)):
            cells = [[box.iloc[row][name] for box in (whole, left, right)] for name in table]
            split = [cell for cell in cells if not pd.isna(cell[0]) and cell[1] != cell[0]]
            assert len(split) <= 1
            for every, low, high in split:
                assert (every.left, every.right) == (low.left, high.right)
                assert low.right == high.left


def test_counts_of_a_tree_are_consistent() -> None:
    table = _table().assign(kind=np.where(np.arange(300) % 3 == 0, "a", "b"))
    model = MDMA(tensor="ht", width=4, max_steps=20, random_state=0).fit(table)
    found = violations(model, table, 3000, 0)
    assert found["pairs"] >= 3000
    assert (found["not_monotone"], found["not_additive"]) == (0, 0)
