"""The absolute correlation, against a slow loop and over awkward tables."""

import numpy as np
import pytest
from numpy.typing import NDArray

from marginals.structure import absolute_correlation

Array = NDArray[np.float64]
COMPLETE_OR_NOT = pytest.mark.parametrize("missing", [0.0, 0.3])


def table(rows: int, columns: int, missing: float = 0.0) -> Array:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    x[rng.random(x.shape) < missing] = np.nan
    return x


def slow_correlation(x: Array) -> Array:
    result = np.eye(x.shape[1])
    for i, j in zip(*np.tril_indices(x.shape[1], -1), strict=True):
        pair = x[:, [i, j]][~np.isnan(x[:, [i, j]]).any(axis=1)]
        constant = len(pair) < 3 or np.any(np.ptp(pair, axis=0) == 0)
        value = np.nan if constant else abs(np.asarray(np.corrcoef(pair.T))[0, 1])
        result[i, j] = result[j, i] = value
    return result


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("columns", [1, 2, 9])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 10, 200])
def test_laws(rows: int, columns: int, missing: float) -> None:
    x = table(rows, columns, missing)
    before = x.copy()
    result = absolute_correlation(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(result, slow_correlation(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(np.diag(result), 1.0)
    np.testing.assert_array_equal(result, result.T)
    assert np.all((result >= 0.0) & (result <= 1.0) | np.isnan(result))


def test_by_hand() -> None:
    # Centred, the columns are (-1, 0, 1) and (1, 1, -2): |-3| / sqrt(2 * 6).
    result = absolute_correlation([[1.0, 5.0], [2.0, 5.0], [3.0, 2.0], [4.0, np.nan]])
    np.testing.assert_allclose(result, [[1, 0.75**0.5], [0.75**0.5, 1]])


@COMPLETE_OR_NOT
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e307, 1e-307])
def test_any_scale(scale: float, missing: float) -> None:
    x = table(100, 4, missing)
    scaled = x / np.nanmax(np.abs(x)) * np.array([scale, 1.0, scale, 1e-30])
    expected = absolute_correlation(x)
    np.testing.assert_allclose(absolute_correlation(scaled), expected, rtol=1e-10)


@COMPLETE_OR_NOT
def test_a_mean_far_from_zero(missing: float) -> None:
    x = table(1_000, 4, missing)
    moved = x + np.array([1e6, -1e6, 0.0, 1e8])
    np.testing.assert_allclose(absolute_correlation(moved), absolute_correlation(x), atol=1e-6)


def test_an_outlier_outside_the_shared_rows_costs_nothing() -> None:
    x = table(100, 2)
    outlier = np.vstack([x, [[1e12, np.nan]]])
    np.testing.assert_allclose(absolute_correlation(outlier), absolute_correlation(x), rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e150, -3.3e-150, np.nan])
@pytest.mark.parametrize("rows", [3, 10, 1_000])
def test_constant_and_unobserved_columns_are_nan(rows: int, value: float) -> None:
    x = table(rows, 3)
    x[:, 1] = value
    result = absolute_correlation(x)
    assert np.isnan(result[[0, 1, 1, 2], [1, 0, 2, 1]]).all()
    assert result[1, 1] == 1.0
    assert not np.isnan(result[0, 2])


@pytest.mark.parametrize("rows", [6, 100, 10_000])
def test_columns_constant_over_the_shared_rows_are_nan(rows: int) -> None:
    x = table(rows, 2)
    x[: rows // 2, 1] = np.nan
    x[rows // 2 :, 0] = np.pi
    assert np.isnan(absolute_correlation(x)[0, 1])


def test_pairs_with_few_shared_rows_are_nan() -> None:
    x = table(10, 3)
    x[:5, 0] = np.nan
    x[7:, 1] = np.nan  # two rows shared with column 0
    x[8:, 2] = np.nan  # three
    result = absolute_correlation(x)
    assert np.isnan(result[0, 1])
    assert not np.isnan(result[[0, 1], [2, 2]]).any()


def test_rows_are_chosen_evenly() -> None:
    x = table(1_000, 3)
    drawn = absolute_correlation(x, max_rows=100, seed=1)
    np.testing.assert_array_equal(drawn, absolute_correlation(x, max_rows=100, seed=1))
    assert not np.array_equal(drawn, absolute_correlation(x, max_rows=100, seed=2))
    np.testing.assert_allclose(drawn, absolute_correlation(x), atol=0.25)
    np.testing.assert_array_equal(
        absolute_correlation(x, max_rows=1_000), absolute_correlation(x, max_rows=None)
    )


@pytest.mark.parametrize(("observed", "enough"), [(30, True), (20, False)])
def test_each_stretch_of_the_table_gives_one_row(observed: int, enough: bool) -> None:
    x = np.full((100, 2), np.nan)  # ten stretches of ten rows
    x[:observed] = table(30, 2)[:observed]
    for seed in range(20):
        found = absolute_correlation(x, max_rows=10, seed=seed)[0, 1]
        assert np.isnan(found) != enough


@pytest.mark.parametrize(
    ("x", "max_rows", "message"),
    [
        (np.array([[1.0, 2.0], [3.0, -np.inf]]), None, "got an infinite cell in column 1"),
        ([1.0, 2.0, 3.0], None, r"two axes, rows and columns; got shape \(3,\)"),
        (np.ones((5, 2)), 0, "Expected `max_rows` to be at least 3 or None; got 0"),
    ],
)
def test_errors(x: Array, max_rows: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        absolute_correlation(x, max_rows=max_rows)
