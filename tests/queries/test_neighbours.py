"""Distances to near rows: those of scikit-learn, over the observed cells alone."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from marginals.queries.neighbours import Neighbours

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(200, 4)) * np.array([1.0, 100.0, 0.01, 1.0]) + np.array([0, 1e3, 0, 5])


def in_units(x: np.ndarray) -> np.ndarray:
    low, high = np.quantile(ROWS, [0.1, 0.9], axis=0)
    return x / (high - low)


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], [1], [0, 2]])
def test_the_fifth_neighbour_over_the_observed_cells(columns: list[int]) -> None:
    near = Neighbours(ROWS, [None] * 4)
    rest = [c for c in range(4) if c not in columns]
    search = NearestNeighbors(n_neighbors=6).fit(in_units(ROWS)[:, columns])
    points = RANDOM.normal(size=(30, 4)) * ROWS.std(0) + ROWS.mean(0)
    expected = search.kneighbors(in_units(points)[:, columns])[0][:, 4]
    points[:, rest] = np.nan
    np.testing.assert_allclose(near(points), expected, atol=1e-6)
    hidden = ROWS.copy()
    hidden[:, rest] = np.nan
    without_itself = search.kneighbors()[0][:, 4]
    np.testing.assert_allclose(near(hidden), without_itself, atol=1e-6)


def test_outliers_do_not_set_the_units() -> None:
    moved = ROWS.copy()
    moved[:10, 0] = 1e6
    points = ROWS[20:40]
    before, after = (Neighbours(rows, [None] * 4)(points) for rows in (ROWS, moved))
    np.testing.assert_allclose(after, before, rtol=0.3)


def test_categories_gaps_ties_and_few_rows() -> None:
    rows = np.column_stack([np.repeat([0.0, 1.0, 2.0], [7, 2, 1]), np.zeros(10)])
    near = Neighbours(rows, [3, None])
    points = np.array([[0.0, 0.0], [2.0, 0.0], [np.nan, 0.0], [np.nan, np.nan], [0.0, 3.0]])
    np.testing.assert_allclose(near(points), [0, np.sqrt(2), 0, 0, 3], atol=1e-6)
    assert np.isfinite(near(np.array([[0.0, 1e300]]))).all()
    assert Neighbours(rows[:1], [3, None])(rows[:1]).tolist() == [0.0]
    assert Neighbours(rows[:2], [3, None])(points[1:2]) == pytest.approx(np.sqrt(2))
    assert near(np.zeros((0, 2))).shape == (0,)
