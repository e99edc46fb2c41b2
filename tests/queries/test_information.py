"""Information against closed forms: a normal distribution, and sums over all cells."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from marginals.cells import Evidence
from marginals.densities import TensorDensity, build
from marginals.queries import (
    Estimate,
    entropy,
    mutual_information,
    mutual_information_matrix,
    pointwise_mutual_information,
    total_correlation,
)
from marginals.runtime.backend import QUERY, Backend
from tests.laws.registry import shake
from tests.queries.oracle import Gaussian, exact_entropy, exact_information, gaussian

# Standard errors from the closed form: chance goes beyond once in 16,000, and seeds are fixed.
Z = 4.0


def assert_near(found: Estimate, exact: float) -> None:
    assert 0 < found.stderr < 0.05
    assert abs(found.value - exact) < Z * found.stderr, (found, exact)


def test_estimate_of_known_numbers() -> None:
    found = Estimate.mean_of(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float32))
    assert found.value == 2.5
    assert math.isclose(found.stderr, math.sqrt(5 / 3) / 2)
    low, high = found.interval(0.6826894921370859)
    assert math.isclose(high - low, 2 * found.stderr)
    assert math.isclose((low + high) / 2, float(found))


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


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
def test_interval_refuses_a_level_that_is_none(level: float) -> None:
    with pytest.raises(ValueError, match="`level`"):
        Estimate(0.0, 1.0).interval(level)


def test_one_row_has_no_error_bar() -> None:
    density = gaussian(2)
    found = entropy(density, 0, rows=torch.zeros(1, 2))
    assert found.stderr == math.inf
    assert found.interval() == (-math.inf, math.inf)


@pytest.mark.parametrize("columns", [[0], [3, 1], [0, 1, 2, 3]])
def test_entropy_of_a_normal(columns: list[int]) -> None:
    density = gaussian()
    assert_near(entropy(density, columns, seed=1), exact_entropy(density.covariance, columns))
    rows = density.sample(10_000)
    assert_near(entropy(density, columns, rows), exact_entropy(density.covariance, columns))


def test_entropy_on_another_scale() -> None:
    # y = exp(x) for a standard normal x: entropy 1/2 + log(2 pi) / 2 + E log y.
    density = Gaussian(torch.eye(2))
    found = entropy(density, 1, log_jacobian=lambda cells: -cells.lower[:, 0])  # dx / dy = 1 / y
    assert_near(found, exact_entropy(torch.eye(1), [0]))
    # y = 5 x + 1
    scaled = entropy(density, 1, log_jacobian=lambda c: torch.full((len(c),), -math.log(5)))
    assert math.isclose(scaled.value, entropy(density, 1).value + math.log(5))


def test_entropy_leaves_incomplete_rows_out() -> None:
    density, rows = gaussian(3), torch.randn(50, 3)
    rows[::2, 1] = torch.nan
    rows[:, 2] = torch.nan
    assert entropy(density, [0, 1], rows) == entropy(density, [0, 1], rows[1::2])
    with pytest.raises(ValueError, match="`columns`; got none among 50"):
        entropy(density, [0, 2], rows)


@pytest.mark.parametrize(
    ("a", "b", "given"),
    [([0], [1], []), ([0, 2], [1], []), ([2], [0], [3]), ([0], [1, 3], [2]), ([3], [1], [2, 0])],
)
def test_mutual_information_of_a_normal(a: list[int], b: list[int], given: list[int]) -> None:
    density = gaussian()
    exact = exact_information(density.covariance, a, b, given)
    found = mutual_information(density, a, b, given, seed=2)
    assert_near(found, exact)
    assert_near(mutual_information(density, a, b, given, density.sample(10_000)), exact)
    assert math.isclose(mutual_information(density, b, a, given, seed=2).value, found.value)


def test_total_correlation_of_a_normal() -> None:
    density = gaussian()
    s = density.covariance
    exact = sum(exact_entropy(s, [c]) for c in (0, 1, 3)) - exact_entropy(s, [0, 1, 3])
    assert_near(total_correlation(density, [0, 1, 3]), exact)
    # Given the others, one of two columns at a time: the information of a pair.
    pair = total_correlation(density, [0, 1], given=[2, 3])
    assert_near(pair, exact_information(s, [0], [1], [2, 3]))
    assert math.isclose(pair.value, mutual_information(density, 0, 1, [2, 3]).value)


def test_independent_sides_have_no_information() -> None:
    density = Gaussian(torch.diag(torch.tensor([1.0, 4.0, 9.0])))
    assert abs(mutual_information(density, [0], [1, 2]).value) < 1e-12
    assert abs(total_correlation(density, [0, 1, 2]).value) < 1e-12


@pytest.mark.parametrize("given", [None, [2]])
def test_matrix_is_all_pairs(given: list[int] | None) -> None:
    density, rows = gaussian(), gaussian().sample(400)
    rows[torch.rand(rows.shape) < 0.3] = torch.nan
    asked = [3, 0, 1]
    found = mutual_information_matrix(density, asked, given, rows)
    assert found.columns == (3, 0, 1)
    assert torch.equal(found.values.nan_to_num(), found.values.T.nan_to_num())
    assert found.values.diagonal().isnan().all()
    assert found.stderrs.diagonal().isnan().all()
    for a, b in itertools.combinations(asked, 2):
        alone = mutual_information(density, a, b, given, rows)
        assert math.isclose(found.pair(b, a).value, alone.value, abs_tol=1e-12)
        assert math.isclose(found.pair(a, b).stderr, alone.stderr)
    with pytest.raises(ValueError, match=r"\[3, 0, 1\]; got 2"):
        found.pair(0, 2)


def test_matrix_from_draws_and_without_rows_in_common() -> None:
    density = gaussian()
    found = mutual_information_matrix(density, given=1, samples=4000, seed=4)
    assert found.columns == (0, 2, 3)
    assert_near(found.pair(0, 3), exact_information(density.covariance, [0], [3], [1]))
    rows = density.sample(20)
    rows[:10, 0] = rows[10:, 2] = torch.nan
    apart = mutual_information_matrix(density, [0, 2, 3], rows=rows)
    assert apart.values[0, 1].isnan()
    assert apart.stderrs[0, 1].isnan()
    assert apart.values[0, 2].isfinite()


def test_pointwise_information_marginalises_missing_cells() -> None:
    density, rows = gaussian(), torch.randn(6, 4)
    whole = pointwise_mutual_information(density, [0, 1], 2, rows, given=3)
    logpdf = density.logpdf
    expected = (
        logpdf(rows[:, :3], [0, 1, 2], Evidence.exact(rows[:, 3:], [3]))
        - logpdf(rows[:, :2], [0, 1], Evidence.exact(rows[:, 3:], [3]))
        - logpdf(rows[:, 2:3], [2], Evidence.exact(rows[:, 3:], [3]))
    )
    torch.testing.assert_close(whole, expected)
    rows[0, 2] = rows[1, 0] = rows[2, 3] = torch.nan
    found = pointwise_mutual_information(density, [0, 1], 2, rows, given=3)
    torch.testing.assert_close(found[0], torch.tensor(0.0), atol=1e-12, rtol=0)
    fewer = pointwise_mutual_information(density, 1, 2, rows[1:2], given=3)
    torch.testing.assert_close(found[1:2], fewer)
    free = pointwise_mutual_information(density, [0, 1], 2, rows[2:3])
    torch.testing.assert_close(found[2:3], free)
    torch.testing.assert_close(found[3:], whole[3:])


def test_rows_count_whose_sides_are_both_partly_known() -> None:
    density, rows = gaussian(), torch.randn(9, 4)
    rows[:3, :2] = torch.nan  # nothing of a
    rows[3:6, 0] = torch.nan  # part of a
    each = pointwise_mutual_information(density, [0, 1], 2, rows)
    assert mutual_information(density, [0, 1], 2, rows=rows) == Estimate.mean_of(each[3:])
    total = total_correlation(density, [0, 1, 2], rows=rows)
    assert math.isclose(total.stderr, total_correlation(density, [0, 1, 2], rows=rows[3:]).stderr)


def test_rows_are_contracted_a_batch_at_a_time() -> None:
    small, large = gaussian(batch=7), gaussian()
    rows = small.sample(50)
    assert math.isclose(
        mutual_information(small, 0, 1, 2, rows).value,
        mutual_information(large, 0, 1, 2, rows).value,
    )
    mutual_information_matrix(small, rows=rows)
    assert small.largest == 7


def test_same_seed_same_draws() -> None:
    density = gaussian()
    assert mutual_information(density, 0, 1, seed=5) == mutual_information(density, 0, 1, seed=5)
    assert mutual_information(density, 0, 1, seed=5) != mutual_information(density, 0, 1, seed=6)


# Cells with mass --------------------------------------------------------------------------------


def mixed_model() -> TensorDensity:
    """A generic model of a category of 3, a number and a category of 2."""
    data = torch.stack([torch.randint(3, (40,)), torch.randn(40), torch.randint(2, (40,))], 1)
    model = build(data, width=3, categories={0: 3, 2: 2}, dtype=torch.float64)
    shake(model)
    return model


def all_cells() -> Evidence:
    """Every combination of the categories and of five intervals that tile the line."""
    edges = [-math.inf, -1.0, -0.2, 0.4, 1.5, math.inf]
    cells = [
        ((float(i), low, float(k)), (float(i), high, float(k)))
        for i in range(3)
        for low, high in itertools.pairwise(edges)
        for k in range(2)
    ]
    lower, upper = (torch.tensor(side) for side in zip(*cells, strict=True))
    return Evidence.interval(lower, upper)


def table_of(model: TensorDensity) -> Tensor:
    return model.log_value(all_cells()).exp().reshape(3, 5, 2)


def information_of(table: Tensor) -> float:
    """The mutual information of a table of probabilities."""
    independent = table.sum(1, keepdim=True) * table.sum(0, keepdim=True)
    return float((table * (table / independent).log()).sum())


@torch.no_grad()
def test_information_of_masses_is_a_sum_over_cells() -> None:
    model = mixed_model()
    table, each = table_of(model), all_cells()
    assert math.isclose(float(table.sum()), 1)
    weights = table.flatten()
    pointwise = pointwise_mutual_information(model, 0, [1, 2], each)
    assert math.isclose(float(weights @ pointwise), information_of(table.flatten(1)))
    given = pointwise_mutual_information(model, 0, 1, each, given=2)
    share = table.sum((0, 1))
    exact = sum(float(share[k]) * information_of(table[..., k] / share[k]) for k in range(2))
    assert math.isclose(float(weights @ given), exact)


@torch.no_grad()
def test_information_of_categories_from_draws() -> None:
    model = mixed_model()
    table = table_of(model).sum(1)
    assert_near(mutual_information(model, 0, 2), information_of(table))
    assert_near(entropy(model, [0, 2]), -float((table * table.log()).sum()))
    # Coarsened draws: the information of cells, not of the numbers within them.
    drawn = model.sample(10_000, generator=torch.Generator().manual_seed(0))
    edges = torch.tensor([-math.inf, -1.0, -0.2, 0.4, 1.5, math.inf])
    place = torch.bucketize(drawn[:, 1].contiguous(), edges)  # the first edge at or above
    lower, upper = drawn.clone(), drawn.clone()
    lower[:, 1], upper[:, 1] = edges[place - 1], edges[place]
    cells = Evidence.interval(lower, upper)
    exact = information_of(table_of(model).sum(2))
    assert_near(mutual_information(model, 0, 1, rows=cells), exact)


@torch.no_grad()
def test_views_are_densities_too() -> None:
    model = mixed_model()
    codes = torch.cartesian_prod(torch.arange(3.0), torch.tensor([0.3]), torch.arange(2.0))
    table = model.pdf(codes).reshape(3, 2)
    view = model.condition({1: 0.3})  # its columns 0 and 1 are the two categories
    assert_near(mutual_information(view, 0, 1), information_of(table / table.sum()))
    many = model.condition(Evidence.exact(torch.tensor([[0.0], [1.0]]), [2]))
    with pytest.raises(ValueError, match="at most one row of evidence; got one given 2"):
        entropy(many, 0)


def test_impossible_rows_are_told() -> None:
    class Bounded(Gaussian):
        def contract(self, evidence: Evidence, backend: Backend = QUERY) -> Tensor:
            x = evidence.select(range(self.columns)).lower.nan_to_num()
            beyond = (x[:, 0] > 1) | ((x[:, 1] > 1) & (x[:, 2] > 1))
            return torch.where(beyond, -math.inf, super().contract(evidence, backend))

    density = Bounded(torch.eye(3))
    assert entropy(density, [0], torch.tensor([[2.0, 0, 0], [0, 0, 0]])).value == math.inf
    never = torch.tensor([[0.0, 2.0, 2.0]])
    assert pointwise_mutual_information(density, 1, 2, never) == -math.inf
    with pytest.raises(ValueError, match="positive probability; got none in row 1"):
        mutual_information(density, 0, 1, rows=torch.tensor([[0.0, 0, 0], [2.0, 0, 0]]))


# Errors -----------------------------------------------------------------------------------------


def test_errors_name_the_argument() -> None:
    density = gaussian()
    with pytest.raises(ValueError, match="`a` and `b` to be disjoint; got column 1 in both"):
        mutual_information(density, [0, 1], [1, 2])
    with pytest.raises(ValueError, match="`b` and `given` to be disjoint; got column 2 in both"):
        mutual_information(density, 0, 2, given=[3, 2])
    with pytest.raises(ValueError, match="each column of `a` once; got 0 twice"):
        mutual_information(density, [0, 0], 2)
    with pytest.raises(ValueError, match="`b` to name at least one column"):
        mutual_information(density, 0, [])
    with pytest.raises(ValueError, match="between 0 and 3; got 4"):
        entropy(density, 4)
    with pytest.raises(TypeError, match="`columns` to be a column's position"):
        entropy(density, "income")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`samples` to be at least 1; got 0"):
        entropy(density, 0, samples=0)
    with pytest.raises(ValueError, match="at least two"):
        total_correlation(density, [1])
    with pytest.raises(ValueError, match="at least two"):
        mutual_information_matrix(density, given=[0, 1, 2])
    with pytest.raises(ValueError, match="part of `a` and part of `b`; got none among 3"):
        mutual_information(density, 0, 1, rows=torch.full((3, 4), math.nan))
