"""Ends of intervals of rounded columns: the values with the nearest tails."""

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.columns.rounding import Rounding


@pytest.mark.parametrize("rounding", [Rounding((1.0, 2.0, 4.0)), Rounding(step=1.0, lower=1.0)])
def test_cells_and_neighbours_of_rounded_values(rounding: Rounding) -> None:
    values = np.array([1.0, 2.0, 4.0])
    low, high = rounding.cells(values)
    for end, other in ((low, low + 1e-6), (high, high - 1e-6)):
        near = np.where(np.isinf(end), values, other)
        np.testing.assert_array_equal(rounding(near), values)
    assert low[0] == -np.inf
    np.testing.assert_array_equal(rounding.neighbours(values[:2], 1), [2, 4 if high[2] > 9 else 3])
    np.testing.assert_array_equal(rounding.neighbours(values[:2], -1), [1, 1])
    assert rounding.is_coarse
    assert not Rounding(lower=0.0).is_coarse


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_ends_have_the_nearest_tails(level: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    frame = pd.DataFrame({"x": x, "n": np.rint(3 * x + rng.normal(size=300)).astype(int)})
    model = MDMA(width=4, max_steps=20, guess="smooth", random_state=0).fit(frame)
    rows = frame.head(20)[["x"]].assign(n=np.nan)
    ends = model.impute_interval(rows, level)
    values = np.array(model.schema_["n"].rounding.values)
    between = (values[1:] + values[:-1]) / 2
    for row, low, high in ends[["row", "lower", "upper"]].itertuples(index=False):
        given = {"x": float(frame["x"][row])}
        below = np.array([0, *(model.prob({"n": (None, end)}, given=given) for end in between)])
        tail = (1 - level) / 2
        assert np.abs(below[values == low] - tail) <= np.abs(below - tail).min() + 1e-4
        above = 1 - np.append(below[1:], 1)
        assert np.abs(above[values == high] - tail) <= np.abs(above - tail).min() + 1e-4
        assert low <= high
