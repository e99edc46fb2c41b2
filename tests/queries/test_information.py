"""Information against closed forms: a normal distribution, and sums over all cells."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marginals import MDMA
from marginals.cells import Evidence
from marginals.densities import TensorDensity, build
from marginals.queries import (
    Estimate,
    draws_of,
    entropy,
    mutual_information,
    mutual_information_matrix,
    pointwise_mutual_information,
    total_correlation,
)
from marginals.runtime.backend import QUERY, Backend
from tests.examples import examples
from tests.laws.registry import shake
from tests.queries.oracle import Gaussian, exact_entropy, exact_information, gaussian


def assert_near(found: Estimate, exact: float) -> None:
    """Four standard errors: chance goes beyond once in 16,000, and seeds are fixed."""
    assert 0 < found.stderr < 0.05
    assert abs(found.value - exact) < 4 * found.stderr, (found, exact)


# Estimates --------------------------------------------------------------------------------------


def test_estimate_of_known_numbers() -> None:
    found = Estimate.mean_of(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float32))
    assert found.value == 2.5
    assert math.isclose(found.stderr, math.sqrt(5 / 3) / 2)
    low, high = found.interval(0.6826894921370859)
    assert math.isclose(high - low, 2 * found.stderr)
    assert math.isclose((low + high) / 2, float(found))
    one = entropy([(gaussian(2), torch.zeros(1, 2))], 0)
    assert (one.stderr, one.interval()) == (math.inf, (-math.inf, math.inf))
    for level in (0.0, 1.0, 95.0, math.nan):
        with pytest.raises(ValueError, match="`level`"):
            found.interval(level)


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (0.51083, 0.00214, "0.5108 ± 0.0021 nats"),
        (-3.0, 12.0, "-3 ± 12 nats"),
        (1.5, math.inf, "1.5 ± inf nats"),
        (0.0, 0.0, "0 ± 0 nats"),
        (math.inf, math.nan, "inf ± nan nats"),
    ],
)
def test_estimate_reads_well(value: float, stderr: float, text: str) -> None:
    assert str(Estimate(value, stderr)) == text
    assert repr(Estimate(value, stderr)) == f"Estimate(value={value}, stderr={stderr})"


# A normal distribution --------------------------------------------------------------------------


@examples(30)
@given(st.permutations(range(4)), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_information_of_a_normal(order: list[int], first: int, second: int, drawn: bool) -> None:
    """Entropy, I(A; B | C) and total correlation of any groups A, B and C of four columns."""
    density = gaussian()
    s = density.covariance
    parts = draws_of(density, seed=1) if drawn else [(density, density.sample(10_000))]
    end = min(4, first + second)
    a, b, c = order[:first], order[first:end], order[end:]
    assert_near(entropy(parts, a), exact_entropy(s, a))
    found = mutual_information(parts, a, b, c)
    assert_near(found, exact_information(s, a, b, c))
    assert math.isclose(mutual_information(parts, b, a, c).value, found.value)
    both = a + b
    exact = sum(exact_entropy(s, [i, *c]) - exact_entropy(s, c) for i in both)
    total = total_correlation(parts, both, c)
    assert_near(total, exact - exact_entropy(s, both + c) + exact_entropy(s, c))
    if len(both) == 2:
        assert math.isclose(total.value, found.value)


def test_independent_sides_have_no_information() -> None:
    parts = draws_of(Gaussian(torch.diag(torch.tensor([1.0, 4.0, 9.0]))))
    assert abs(mutual_information(parts, [0], [1, 2]).value) < 1e-12
    assert abs(total_correlation(parts, [0, 1, 2]).value) < 1e-12


def test_entropy_on_another_scale_and_of_incomplete_rows() -> None:
    # y = exp(x) for a standard normal x: entropy 1/2 + log(2 pi) / 2 + E log y; dx / dy = 1 / y.
    density = Gaussian(torch.eye(2))
    ((_, rows),) = parts = draws_of(density)
    assert_near(entropy(parts, 1, -rows.lower[:, 1]), exact_entropy(torch.eye(1), [0]))
    scaled = entropy(parts, 1, torch.full((len(rows),), -math.log(5)))  # y = 5 x + 1
    assert math.isclose(scaled.value, entropy(parts, 1).value + math.log(5))
    density, x = gaussian(3), torch.randn(50, 3)
    x[::2, 1] = x[:, 2] = torch.nan
    assert entropy([(density, x)], [0, 1]) == entropy([(density, x[1::2])], [0, 1])
    with pytest.raises(ValueError, match="`columns`; got none among 50"):
        entropy([(density, x)], [0, 2])


@pytest.mark.parametrize("known", [None, [2]])
def test_matrix_is_all_pairs_of_all_parts(known: list[int] | None) -> None:
    density, rows = gaussian(), gaussian().sample(400)
    rows[torch.rand(rows.shape) < 0.3] = torch.nan
    parts = [(density, rows[:150]), (density, rows[150:])]
    found = mutual_information_matrix(parts, [3, 0, 1], known)
    assert found.columns == (3, 0, 1)
    assert torch.equal(found.values.nan_to_num(), found.values.T.nan_to_num())
    assert found.values.diagonal().isnan().all()
    assert found.stderrs.diagonal().isnan().all()
    for a, b in itertools.combinations([3, 0, 1], 2):
        alone = mutual_information([(density, rows)], a, b, known)
        assert math.isclose(found.pair(b, a).value, alone.value, abs_tol=1e-12)
        assert math.isclose(found.pair(a, b).stderr, alone.stderr)
    with pytest.raises(ValueError, match=r"\[3, 0, 1\]; got 2"):
        found.pair(0, 2)


def test_matrix_from_draws_and_without_rows_in_common() -> None:
    density = gaussian()
    found = mutual_information_matrix(draws_of(density, 4000, seed=4), given=1)
    assert found.columns == (0, 2, 3)
    assert_near(found.pair(0, 3), exact_information(density.covariance, [0], [3], [1]))
    rows = density.sample(20)
    rows[:10, 0] = rows[10:, 2] = torch.nan
    apart = mutual_information_matrix([(density, rows)], [0, 2, 3])
    assert apart.values[0, 1].isnan()
    assert apart.stderrs[0, 1].isnan()
    assert apart.values[0, 2].isfinite()


def test_pointwise_information_marginalises_missing_cells() -> None:
    density, rows = gaussian(), torch.randn(9, 4)

    def pointwise(rows: Tensor, a: Any, b: Any, given: Any = None) -> Tensor:
        return pointwise_mutual_information([(density, rows)], a, b, given)

    whole = pointwise(rows, [0, 1], 2, 3)
    fixed = Evidence.exact(rows[:, 3:], [3])
    sides = ([0, 1, 2], [0, 1], [2])
    joint, first, second = (density.logpdf(rows[:, side], side, fixed) for side in sides)
    torch.testing.assert_close(whole, joint - first - second)
    rows[0, 2] = rows[1, 0] = rows[2, 3] = torch.nan
    found = pointwise(rows, [0, 1], 2, 3)
    torch.testing.assert_close(found[0], torch.tensor(0.0), atol=1e-12, rtol=0)
    torch.testing.assert_close(found[1:2], pointwise(rows[1:2], 1, 2, 3))
    torch.testing.assert_close(found[2:3], pointwise(rows[2:3], [0, 1], 2))
    torch.testing.assert_close(found[3:], whole[3:])
    # Rows count if part of each side is observed.
    rows[:3, :2] = torch.nan
    rows[3:6, 0] = torch.nan
    expected = Estimate.mean_of(pointwise(rows, [0, 1], 2)[3:])
    assert mutual_information([(density, rows)], [0, 1], 2) == expected
    total, fewer = (total_correlation([(density, x)], [0, 1, 2]) for x in (rows, rows[3:]))
    assert math.isclose(total.stderr, fewer.stderr)


def test_batches_and_seeds() -> None:
    small, large = gaussian(batch=7), gaussian()
    rows = small.sample(50)
    values = [mutual_information([(d, rows)], 0, 1, 2).value for d in (small, large)]
    assert math.isclose(*values)
    mutual_information_matrix([(small, rows)])
    assert small.largest == 7
    one, same, other = (mutual_information(draws_of(large, seed=s), 0, 1) for s in (5, 5, 6))
    assert one == same != other


# Cells with mass --------------------------------------------------------------------------------

EDGES = torch.tensor([-math.inf, -1.0, -0.2, 0.4, 1.5, math.inf])


@pytest.fixture
def mixed() -> TensorDensity:
    """A generic model of a category of 3, a number and a category of 2."""
    data = torch.stack([torch.randint(3, (40,)), torch.randn(40), torch.randint(2, (40,))], 1)
    model = build(data, width=3, categories={0: 3, 2: 2}, dtype=torch.float64)
    shake(model)
    return model


def all_cells() -> Evidence:
    """Every combination of the categories and of five intervals that tile the line."""
    place = torch.cartesian_prod(torch.arange(3), torch.arange(5), torch.arange(2))
    lower, upper = place.double(), place.double()
    lower[:, 1], upper[:, 1] = EDGES[place[:, 1]], EDGES[place[:, 1] + 1]
    return Evidence.interval(lower, upper)


def table_of(model: TensorDensity) -> Tensor:
    return model.log_value(all_cells()).exp().reshape(3, 5, 2)


def information_of(table: Tensor) -> float:
    """The mutual information of a table of probabilities."""
    independent = table.sum(1, keepdim=True) * table.sum(0, keepdim=True)
    return float((table * (table / independent).log()).sum())


@torch.no_grad()
def test_information_of_masses_is_a_sum_over_cells(mixed: TensorDensity) -> None:
    table, each = table_of(mixed), [(mixed, all_cells())]
    assert math.isclose(float(table.sum()), 1)
    weights = table.flatten()
    pointwise = pointwise_mutual_information(each, 0, [1, 2])
    assert math.isclose(float(weights @ pointwise), information_of(table.flatten(1)))
    conditional = pointwise_mutual_information(each, 0, 1, given=2)
    share = table.sum((0, 1))
    exact = sum(float(share[k]) * information_of(table[..., k] / share[k]) for k in range(2))
    assert math.isclose(float(weights @ conditional), exact)


@torch.no_grad()
def test_information_of_categories_from_draws_and_of_views(mixed: TensorDensity) -> None:
    ((_, drawn),) = parts = draws_of(mixed)
    table = table_of(mixed).sum(1)
    assert_near(mutual_information(parts, 0, 2), information_of(table))
    assert_near(entropy(parts, [0, 2]), -float((table * table.log()).sum()))
    # Coarsened draws: the information of cells, not of the numbers within them.
    place = torch.bucketize(drawn.lower[:, 1].contiguous(), EDGES)  # the first edge at or above
    lower, upper = drawn.lower.clone(), drawn.lower.clone()
    lower[:, 1], upper[:, 1] = EDGES[place - 1], EDGES[place]
    cells = Evidence.interval(lower, upper)
    exact = information_of(table_of(mixed).sum(2))
    assert_near(mutual_information([(mixed, cells)], 0, 1), exact)
    codes = torch.cartesian_prod(torch.arange(3.0), torch.tensor([0.3]), torch.arange(2.0))
    table = mixed.pdf(codes).reshape(3, 2)
    view = mixed.condition({1: 0.3})  # its columns 0 and 1 are the two categories
    assert_near(mutual_information(draws_of(view), 0, 1), information_of(table / table.sum()))
    with pytest.raises(ValueError, match="at most one row of evidence; got one given 2"):
        draws_of(mixed.condition(Evidence.exact(torch.tensor([[0.0], [1.0]]), [2])))


def test_impossible_rows_are_reported() -> None:
    class Bounded(Gaussian):
        def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
            x = evidence.select(range(self.columns)).lower.nan_to_num()
            beyond = (x[:, 0] > 1) | ((x[:, 1] > 1) & (x[:, 2] > 1))
            return torch.where(beyond, -math.inf, super().contract(evidence, backend))

    density = Bounded(torch.eye(3))
    rows = torch.tensor([[0.0, 0, 0], [2.0, 0, 0], [0.0, 2.0, 2.0]])
    assert entropy([(density, rows[:2])], [0]).value == math.inf
    assert pointwise_mutual_information([(density, rows[2:])], 1, 2) == -math.inf
    with pytest.raises(ValueError, match="positive probability; got none in row 1"):
        mutual_information([(density, rows[:2])], 0, 1)


@pytest.mark.parametrize(
    ("query", "arguments", "message"),
    [
        (mutual_information, ([0, 1], [1, 2]), "`a` and `b` to be disjoint; got column 1 in both"),
        (mutual_information, (0, 2, [3, 2]), "`b` and `given` to be disjoint; got column 2"),
        (mutual_information, ([0, 0], 2), "each column of `a` once; got 0 twice"),
        (mutual_information, (0, []), "`b` to name at least one column"),
        (mutual_information, (0, 1), "part of `a` and part of `b`; got none among 3"),
        (mutual_information, (0, 1, 2, 9), "`independence_test` for a p-value"),
        (mutual_information, (0, 1, None, -1), "`permutations` to be at least 0"),
        (entropy, (4,), "between 0 and 3; got 4"),
        (entropy, ("income",), "`columns` to be a column's position"),
        (total_correlation, ([1],), "at least two"),
        (mutual_information_matrix, (None, [0, 1, 2]), "at least two"),
    ],
)
def test_errors_name_the_argument(query: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        query([(gaussian(), torch.full((3, 4), math.nan))], *arguments)


# By name ----------------------------------------------------------------------------------------


def test_entropy_is_in_the_columns_units(model: MDMA) -> None:
    grid = pd.DataFrame({"x": np.linspace(-400, 600, 20_001)})
    density = model.pdf(grid)
    exact = -np.trapezoid(np.where(density > 0, density * model.logpdf(grid), 0), grid["x"])
    found = model.entropy("x")
    assert abs(found.value - exact) < 5 * found.stderr
    city = [model.prob({"city": name}) for name in ("Bergen", "Oslo", "Vardø")]
    found = model.entropy(["city"])
    assert abs(found.value + sum(p * np.log(p) for p in city)) < 5 * found.stderr
    with pytest.raises(ValueError, match="`samples`"):
        model.entropy("x", samples=0)


def test_information_by_name(model: MDMA, frame: pd.DataFrame) -> None:
    both = model.mutual_information("x", "count")
    assert both.value > 5 * both.stderr
    split = model.mutual_information("x", ["count", "city"])
    assert split.value > both.value - 3 * (both.stderr + split.stderr)
    held = model.mutual_information("x", "count", given="city", data=frame)
    assert np.isfinite(held.value)
    pointwise = model.pointwise_mutual_information("x", "count", frame, given="city")
    assert held.value == pytest.approx(pointwise.mean())
    matrix, errors = model.mutual_information_matrix(["x", "count", "city"], stderr=True)
    assert list(matrix.columns) == list(errors.index) == ["x", "count", "city"]
    assert matrix.loc["x", "count"] == pytest.approx(both.value, abs=1e-6)
    with pytest.raises((ValueError, KeyError), match="'y'"):
        model.mutual_information("x", "y")


def test_columns_by_number_and_in_any_list() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    rows = np.stack([z, z + 0.3 * rng.normal(size=300), z + 0.3 * rng.normal(size=300)], 1)
    model = MDMA(width=8, max_steps=100, random_state=0).fit(rows)
    expected = model.mutual_information(1, 2, given=[0]).value
    for known in (0, np.int64(0), pd.Index([0]), (0,)):
        assert model.mutual_information(1, 2, given=known).value == expected
    assert model.mutual_information(1, 2).value > expected + 0.1
    assert model.mutual_information_matrix(given=0).shape == (2, 2)
