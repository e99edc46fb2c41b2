import pytest
import torch
from scipy.stats import chisquare
from torch.testing import assert_close

from marginals.cells import Evidence
from marginals.leaves import CategoricalLeaves
from tests.laws.statistics import P_VALUE
from tests.leaves.cells import cells, exact, free

COUNTS = [3, 1, 5, 2]


@pytest.fixture
def leaves() -> CategoricalLeaves:
    out = CategoricalLeaves(COUNTS, width=4)
    with torch.no_grad():
        out.logits.copy_(2 * torch.randn_like(out.logits))
    return out


def mass(leaves: CategoricalLeaves, column: int) -> torch.Tensor:
    """The masses (M, C_j) of one column, from the raw logits alone."""
    return leaves.logits[column, :, : COUNTS[column]].detach().softmax(-1)


@pytest.mark.parametrize("column", range(4))
def test_masses_cdf_and_survival(leaves: CategoricalLeaves, column: int) -> None:
    theta = mass(leaves, column)
    codes = torch.arange(float(COUNTS[column]))[None]
    out = leaves.evaluate(codes, [column])
    assert_close(out.log_density[0].exp(), theta.T)
    assert_close(out.log_cdf[0].exp(), theta.T.cumsum(0))
    assert_close(out.log_sf[0].exp(), 1 - theta.T.cumsum(0), rtol=0, atol=1e-14)
    assert torch.equal(out.log_sf[0, -1], torch.full((4,), -torch.inf))
    values = leaves.log_values(exact(codes, [column]))
    assert_close(values, out.log_density)


def test_cdf_is_a_step_function(leaves: CategoricalLeaves) -> None:
    x = torch.tensor([[-0.5, 0.0, 0.5, 0.999, 1.0, 7.0]])
    cdf = leaves.evaluate(x, [0]).log_cdf[0].exp()
    steps = mass(leaves, 0).T.cumsum(0)
    expected = torch.stack([torch.zeros(4), steps[0], steps[0], steps[0], steps[1], torch.ones(4)])
    assert_close(cdf, expected)


def test_intervals_sets_and_gaps(leaves: CategoricalLeaves) -> None:
    nan, inf = torch.nan, torch.inf
    lower = torch.tensor([[0.0, -inf, 2.0, nan, 1.0, nan, inf]])
    upper = torch.tensor([[2.0, 1.0, inf, nan, 1.0, nan, -inf]])
    mask = torch.ones(7, 5, dtype=torch.bool)
    mask[5] = torch.tensor([True, False, True, False, True])
    evidence = cells(lower, upper, [2]).with_sets({2: mask})
    theta = mass(leaves, 2).T  # (5, M)
    expected = torch.stack(
        [
            theta[1] + theta[2],
            theta[0] + theta[1],
            theta[3] + theta[4],
            torch.ones(4),
            theta[1],
            theta[0] + theta[2] + theta[4],
            torch.zeros(4),  # the impossible cell
        ]
    )
    assert_close(leaves.log_values(evidence)[0].exp(), expected)


def test_a_short_mask_says_no_to_the_codes_behind_it(leaves: CategoricalLeaves) -> None:
    value = leaves.log_values(Evidence.of({2: {0, 1}}))
    assert_close(value[0, 0].exp(), mass(leaves, 2)[:, :2].sum(-1))


def test_columns_in_any_order(leaves: CategoricalLeaves) -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 0.0], [4.0, 3.0], [0.0, 1.0]])
    every = leaves.log_values(exact(x))
    order = [2, 0, 3]
    assert torch.equal(leaves.log_values(exact(x).select(order)), every[order])


def test_tiny_masses_keep_their_logarithm(leaves: CategoricalLeaves) -> None:
    with torch.no_grad():
        leaves.logits[0, :, 2] = -2000.0
    at = leaves.evaluate(torch.tensor([[1.0, 2.0]]), [0])
    assert (at.log_sf[0, 0] < -1900).all()
    assert at.log_sf[0, 0].isfinite().all()
    assert at.log_density[0, 1].isfinite().all()


def test_gradients_reach_every_logit_that_counts(leaves: CategoricalLeaves) -> None:
    lower = torch.tensor([[0.0, -1.0, 0.0], [0.0] * 3, [1.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    upper = torch.tensor([[0.0, 1.0, 2.0], [0.0] * 3, [1.0, 2.0, 4.0], [0.0, 1.0, 0.0]])
    leaves.log_values(cells(lower, upper)).sum().backward()
    gradient = leaves.logits.grad
    assert gradient.isfinite().all()
    assert (gradient[2] != 0).all()
    # Padding behind a column's own categories, and a category that is alone, do not move.
    assert (gradient[0, :, 3:] == 0).all()
    assert (gradient[1] == 0).all()


def test_quantiles_are_the_smallest_codes(leaves: CategoricalLeaves) -> None:
    weights = torch.randn(4, 3, 4).log_softmax(-1)
    u = torch.rand(4, 3, 50)
    codes = leaves.invert(u.log(), torch.log1p(-u), weights, [0, 1, 2, 3])
    for column in range(4):
        cdf = (weights[column].exp() @ mass(leaves, column)).cumsum(-1)  # (3, C)
        expected = (cdf[:, None] < u[column, ..., None]).sum(-1)
        assert torch.equal(codes[column], expected.double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantiles_at_the_ends(leaves: CategoricalLeaves, dtype: torch.dtype) -> None:
    leaves = leaves.to(dtype)
    u = torch.tensor([1e-300, 1e-12, 1 - 1e-12], dtype=torch.float64)
    log_u, log_1mu = (t.expand(4, 1, 3).to(dtype) for t in (u.log(), torch.log1p(-u)))
    weights = torch.zeros(4, 1, 4, dtype=dtype).log_softmax(-1)
    codes = leaves.invert(log_u, log_1mu, weights, [0, 1, 2, 3])[:, 0]
    last = torch.tensor(COUNTS).to(dtype) - 1
    expected = torch.stack([torch.zeros(4, dtype=dtype), torch.zeros(4, dtype=dtype), last], 1)
    assert torch.equal(codes, expected)


def test_draws_follow_the_masses(leaves: CategoricalLeaves) -> None:
    count = 20_000
    components = torch.randint(4, (4, count))
    codes = leaves.sample(components, free(count, [0, 1, 2, 3]))
    for column in [0, 2, 3]:
        for component in range(4):
            drawn = codes[column, components[column] == component]
            observed = torch.bincount(drawn.long(), minlength=COUNTS[column])
            expected = len(drawn) * mass(leaves, column)[component]
            kept = expected > 5
            if kept.sum() > 1:
                share = expected[kept] / expected[kept].sum() * observed[kept].sum()
                p = chisquare(observed[kept].numpy(), share.numpy()).pvalue
                assert p > P_VALUE


def test_draws_stay_inside_what_is_known(leaves: CategoricalLeaves) -> None:
    lower = torch.tensor([[1.0] * 100, [1.0] * 100])
    upper = torch.tensor([[1.0] * 100, [3.0] * 100])
    mask = torch.tensor([[False, False, False, True, True]])
    evidence = cells(lower, upper, [0, 2]).with_sets({2: mask})
    codes = leaves.sample(torch.randint(4, (2, 100)), evidence)
    assert (codes[0] == 1).all()
    assert (codes[1] == 3).all()


def test_start_mixes_the_row_with_the_margin(leaves: CategoricalLeaves) -> None:
    data = torch.tensor([[0.0, 0.0, 1.0, torch.nan]] * 4)
    data[1] = 0.0
    rows = torch.tensor([[0.0, 1.0, 2.0, 2.0]] * 4)
    rows[1], rows[3] = 0.0, torch.tensor([0.0, 1.0, 1.0, 0.0])
    leaves.scale_to(data)
    leaves.start(rows)
    # Counts plus one: (3, 2, 1) / 6 for column 0, half of it and half of the row's category.
    margin = torch.tensor([3.0, 2.0, 1.0]) / 6
    kernel = torch.nn.functional.one_hot(rows[0].long(), 3)
    assert_close(mass(leaves, 0), 0.5 * margin + 0.5 * kernel)


def test_expectations_are_sums() -> None:
    leaves = CategoricalLeaves([3, 2], width=4)
    codes = torch.arange(3.0)
    masses = leaves.evaluate(codes.expand(2, 3), [0, 1]).log_density.exp()  # (2, 3, 4)
    expected = (masses * codes[None, :, None] ** 2).sum(1)
    assert_close(leaves.expect(lambda x: x**2, [0, 1]), expected)


@pytest.mark.parametrize("categories", [[0], [2, -1]])
def test_categories_must_be_positive(categories: list[int]) -> None:
    with pytest.raises(ValueError, match="categories"):
        CategoricalLeaves(categories, 2)


def test_weights_in_float64_invert_leaves_in_float32(leaves: CategoricalLeaves) -> None:
    """Far-out evidence has such weights, as in the quantiles of a loaded mixture."""
    weights = torch.randn(1, 6, 4, dtype=torch.float64).log_softmax(-1)
    level = torch.rand(1, 6, 2, dtype=torch.float64)
    found = leaves.float().invert(level.log(), torch.log1p(-level), weights, [2])
    assert_close(found, leaves.double().invert(level.log(), torch.log1p(-level), weights, [2]))
