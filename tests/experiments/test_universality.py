"""The targets have the CDFs that they are said to have."""

import numpy as np
import pytest

from experiments.universality.run import empirical, grid_of
from experiments.universality.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_rows_follow_the_cdf(name: str) -> None:
    target = TARGETS[name]
    rows = target.draw(40_000, np.random.default_rng(0))
    points = grid_of(target, 31)
    exact = target.cdf(points)
    assert rows.shape == (40_000, target.columns)
    assert exact[0] == pytest.approx(0, abs=1e-4)
    assert exact[-1] == pytest.approx(1, abs=1e-4)
    # Of two columns the distance is larger than that of one by a small factor.
    assert np.abs(empirical(rows, points) - exact).max() < 2.5 / np.sqrt(len(rows))


def test_the_empirical_cdf_of_two_columns() -> None:
    points = grid_of(TARGETS["board"], 5)
    rows = np.array([[-2.5, 0.0], [0.1, 2.5]])
    counted = [(rows <= point).all(1).mean() for point in points]
    np.testing.assert_array_equal(empirical(rows, points), counted)
