"""The test of independence: its functions, its level and its power, by an exact oracle."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import chi2
from torch import Tensor

from marginals.cells import Evidence
from marginals.densities import build
from marginals.queries import IndependenceResult, independence_test
from marginals.queries.independence import trimmed_functions
from tests.laws.registry import shake
from tests.laws.statistics import assert_uniform
from tests.queries.oracle import Gaussian, gaussian


def chain() -> Gaussian:
    """X <- Z -> Y: dependent, and independent given Z. Columns x, y, z."""
    return Gaussian(torch.tensor([[1.0, 0.48, 0.8], [0.48, 1.0, 0.6], [0.8, 0.6, 1.0]]))


def repeated(
    density: Gaussian, x: list[int], y: list[int], given: list[int], **options: object
) -> list[IndependenceResult]:
    """Test 300 times 300 rows."""
    rows = density.sample(300 * 300).reshape(300, 300, -1)
    return [
        independence_test(density, x, y, given, part, seed=seed, **options)  # type: ignore[call-overload]
        for seed, part in enumerate(rows)
    ]


def pvalues(results: list[IndependenceResult]) -> Tensor:
    return torch.tensor([result.pvalue for result in results])


# The functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize(("trim", "ramp"), [(0.01, 0.01), (0.0, 0.1), (0.05, 0.15)])
def test_functions_are_orthonormal_and_trimmed(q: int, trim: float, ramp: float) -> None:
    half = (0.5 - trim) / q
    kinks = [trim + 2 * half * i + s * ramp for i in range(q + 1) for s in (-1, 0, 1)]
    kinks = sorted({k for k in kinks if 0 < k < 1})

    def integral(*which: int) -> float:
        def product(u: float) -> float:
            at = trimmed_functions(torch.tensor(u), q, trim, ramp)
            return math.prod(float(at[i]) for i in which)

        return float(quad(product, 0, 1, points=kinks, limit=200)[0])

    for i in range(q):
        assert abs(integral(i)) < 1e-9
        for j in range(i, q):
            assert abs(integral(i, j) - (i == j)) < 1e-9
    ends = torch.tensor([0.0, trim, 1 - trim, 1.0])
    assert trimmed_functions(ends, q, trim, ramp).abs().max() < 1e-12


def test_first_function_is_the_published_one() -> None:
    """A weight K on [0.02, 0.98], ramps down to 0 at 0.01 and 0.99, times u - 1/2, scaled."""
    scale = math.sqrt(quad(_published, 0, 1, points=[0.01, 0.02, 0.98, 0.99], args=(2,))[0])
    for u in (0.005, 0.013, 0.02, 0.3, 0.5, 0.981, 0.995):
        found = float(trimmed_functions(torch.tensor(u), 1, 0.01, 0.01)[0])
        assert math.isclose(found, _published(u, 1) / scale, abs_tol=1e-9)


def _published(u: float, power: int) -> float:
    weight = min(1.0, max(0.0, (u - 0.01) / 0.01), max(0.0, (0.99 - u) / 0.01)) / 0.97
    return ((u - 0.5) * weight) ** power


def test_statistic_from_its_definition() -> None:
    density = chain()
    rows = density.sample(200)
    (found,) = independence_test(density, 0, 1, 2, rows, q=(2,))
    # X | Z is N(0.8 z, 0.6^2), and Y | Z is N(0.6 z, 0.8^2).
    x, y, z = rows.T
    u = [torch.special.ndtr((x - 0.8 * z) / 0.6), torch.special.ndtr((y - 0.6 * z) / 0.8)]
    first, second = (trimmed_functions(each, 2, 0.01, 0.01) for each in u)
    rho = torch.stack([first[:, k] * second[:, m] for k in range(2) for m in range(2)]).mean(1)
    torch.testing.assert_close(found.correlations, rho.reshape(2, 2))
    assert math.isclose(found.statistic, 200 * float(rho.square().sum()), rel_tol=1e-6)
    assert math.isclose(found.pvalue, chi2.sf(found.statistic, 4), rel_tol=1e-9)
    assert (found.degrees, found.n, found.ties) == (4, 200, "random")
    assert str(found).startswith("chi2(4) = ")


# Level and power --------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1, 2, 3])
def test_level(q: int) -> None:
    assert_uniform(pvalues(repeated(chain(), [0], [1], [2], q=q)))


def test_level_without_conditions() -> None:
    density = Gaussian(torch.diag(torch.tensor([1.0, 4.0])))
    assert_uniform(pvalues(repeated(density, [0], [1], [])))


def test_level_and_power_of_sides_of_several_columns() -> None:
    covariance = torch.eye(5)
    covariance[0, 2] = covariance[2, 0] = 0.5  # within x
    covariance[1, 3] = covariance[3, 1] = 0.7  # within y
    results = repeated(Gaussian(covariance), [0, 2], [1, 3], [4])
    assert results[0].degrees == 4
    assert results[0].correlations.shape == (2, 2)
    assert_uniform(pvalues(results))
    covariance[2, 3] = covariance[3, 2] = 0.4  # the second columns of the sides
    results = repeated(Gaussian(covariance), [0, 2], [1, 3], [4])
    assert (pvalues(results) < 0.01).double().mean() > 0.95


def dependent() -> Gaussian:
    """The chain with a partial correlation of 0.4 between x and y given z."""
    density = chain()
    density.covariance[0, 1] = density.covariance[1, 0] = 0.48 + 0.4 * 0.6 * 0.8
    return density


def test_power() -> None:
    assert (pvalues(repeated(dependent(), [0], [1], [2])) < 0.01).double().mean() > 0.99


@pytest.mark.parametrize("q", [1, 2, 3])
def test_correlations_of_a_normal_copula(q: int) -> None:
    density = dependent()
    found = independence_test(density, 0, 1, 2, density.sample(100_000), q=q).correlations
    # By the trapezoidal rule; the functions vanish beyond 2.33 standard deviations.
    z = torch.linspace(-3, 3, 1501)
    joint = Gaussian(torch.tensor([[1.0, 0.4], [0.4, 1.0]]))
    pdf = joint.pdf(torch.cartesian_prod(z, z)).reshape(1501, 1501)
    values = trimmed_functions(torch.special.ndtr(z), q, 0.01, 0.01)
    exact = values.T @ pdf @ values * (6 / 1500) ** 2
    moments = values.square().T @ pdf @ values.square() * (6 / 1500) ** 2
    stderr = ((moments - exact.square()) / 100_000).sqrt()
    assert ((found - exact).abs() < 4 * stderr).all()


def test_more_functions_see_what_one_cannot() -> None:
    # Two uniforms on a V: as often rising as falling.
    u = torch.rand(2000, 1)
    rows = torch.special.ndtri(torch.cat([u, (2 * u - 1).abs()], 1))
    one, two = independence_test(Gaussian(torch.eye(2)), 0, 1, None, rows, q=(1, 2))
    assert one.pvalue > 1e-3
    assert two.pvalue < 1e-9


def test_forgetting_the_condition_finds_the_dependence() -> None:
    density = chain()
    rows = density.sample(300)
    assert independence_test(density, 0, 1, None, rows).pvalue < 1e-6
    assert independence_test(density, 0, 1, 2, rows).pvalue > 1e-3


def test_several_q_share_the_transform() -> None:
    density = chain()
    rows = density.sample(100)
    several = independence_test(density, 0, 1, 2, rows, q=(1, 2, 3))
    alone = [independence_test(density, 0, 1, 2, rows, q=q) for q in (1, 2, 3)]
    assert [r.statistic for r in several] == [r.statistic for r in alone]
    assert [r.degrees for r in several] == [1, 4, 9]


# Cells of every kind ----------------------------------------------------------------------------


def rounded(rows: Tensor, columns: list[int], step: float) -> Evidence:
    """Cells of width `step` for some columns."""
    lower, upper = rows.clone(), rows.clone()
    for column in columns:
        lower[:, column] = (rows[:, column] / step).ceil() * step - step
        upper[:, column] = lower[:, column] + step
    return Evidence.interval(lower, upper)


def test_level_of_rounded_cells() -> None:
    density = chain()
    draws = density.sample(300 * 300).reshape(300, 300, 3)
    found = {
        ties: torch.tensor(
            [
                independence_test(
                    density, 0, 1, 2, rounded(part, [0, 1], 1.5), ties=ties, seed=seed
                ).pvalue
                for seed, part in enumerate(draws)
            ]
        )
        for ties in ("random", "middle")
    }
    assert_uniform(found["random"])
    # The middle errs on the side of independence.
    assert (found["middle"] < 0.05).double().mean() < 0.05
    assert found["middle"].mean() > found["random"].mean()


def test_ends_of_cells_may_be_infinite() -> None:
    density = chain()
    rows = density.sample(400)
    lower, upper = rows.clone(), rows.clone()
    censored = rows[:, 0] > 0.5
    lower[censored, 0], upper[censored, 0] = 0.5, math.inf
    found = independence_test(density, 0, 1, 2, Evidence.interval(lower, upper))
    assert found.n == 400
    assert 1e-6 < found.pvalue <= 1


def test_categories_and_atoms() -> None:
    data = torch.stack([torch.randint(3, (60,)), torch.randn(60), torch.randn(60)], 1)
    data[::3, 1] = 0.0
    model = build(data, width=3, categories={0: 3}, atoms={1: [0.0]}, dtype=torch.float64)
    shake(model)
    with torch.no_grad():
        rows = model.sample(20_000)
        shuffled = torch.stack([rows[:, 0], rows[torch.randperm(20_000), 1]], 1)
        parts = shuffled.reshape(100, 200, 2)
        found = [independence_test(model, 0, 1, None, part, seed=s) for s, part in enumerate(parts)]
    assert_uniform(pvalues(found))


def test_the_middle_of_a_code_is_exact() -> None:
    model = build(torch.randint(3, (60, 2)), width=3, categories={0: 3, 1: 3}, dtype=torch.float64)
    shake(model)
    rows = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0))
    found = independence_test(model, 0, 1, None, rows, ties="middle")
    masses = [model.pdf(torch.arange(3.0)[:, None], [column]) for column in (0, 1)]
    middles = [mass.cumsum(0) - mass / 2 for mass in masses]
    first, second = (trimmed_functions(u, 1, 0.01, 0.01)[:, 0] for u in middles)
    expected = first[rows[:, 0].long()] @ second[rows[:, 1].long()] / 9
    torch.testing.assert_close(found.correlations[0, 0], expected.detach())


def test_a_column_that_never_varies_has_no_say() -> None:
    model = build(torch.zeros(9, 2), width=2, categories={0: 1}, dtype=torch.float64)
    rows = torch.stack([torch.zeros(50), torch.randn(50)], 1)
    found = independence_test(model, 0, 1, None, rows, ties="middle")
    assert (found.statistic, found.pvalue) == (0.0, 1.0)


def test_missing_cells() -> None:
    density = gaussian(4)
    rows = density.sample(100)
    rows[:10, 0] = rows[10:20, 1] = torch.nan
    found = independence_test(density, 0, 1, [2, 3], rows)
    fewer = independence_test(density, 0, 1, [2, 3], rows[20:])
    torch.testing.assert_close(found.correlations, fewer.correlations)
    assert (found.n, found.statistic, found.pvalue) == (80, fewer.statistic, fewer.pvalue)
    # A column of Z that is missing everywhere is one not conditioned on.
    rows[:, 3] = torch.nan
    marginal = independence_test(density, 0, 1, [2, 3], rows)
    assert math.isclose(marginal.statistic, independence_test(density, 0, 1, 2, rows).statistic)
    rows[:60, 2] = torch.nan
    assert independence_test(density, 0, 1, 2, rows).n == 80
    assert independence_test(density, 0, 1, 2, rows, incomplete="omit").n == 40


def test_rows_are_transformed_a_batch_at_a_time() -> None:
    density = chain()
    rows = density.sample(50)
    whole = independence_test(density, 0, 1, 2, rows)
    density.batch, density.largest = 7, 0
    assert math.isclose(independence_test(density, 0, 1, 2, rows).statistic, whole.statistic)
    assert density.largest == 28  # a CDF takes a quarter of the memory of a contraction


def test_seed_of_ties() -> None:
    density = chain()
    cells = rounded(density.sample(100), [0], 2.0)
    one, same, other = (independence_test(density, 0, 1, 2, cells, seed=s) for s in (0, 0, 1))
    assert one.statistic == same.statistic != other.statistic


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": 0}, "`q`"),
        ({"q": ()}, "`q`"),
        ({"q": (1, 0)}, "`q`"),
        ({"trim": 0.5}, "`trim`"),
        ({"trim": -0.1}, "`trim`"),
        ({"ramp": 0.0}, "`ramp`"),
        ({"ramp": 0.2, "q": 3}, "`ramp` to be positive and at most 0.163"),
        ({"ties": "midpoint"}, "`ties` to be one of"),
        ({"incomplete": "drop"}, "`incomplete` to be one of"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        independence_test(chain(), 0, 1, 2, torch.zeros(5, 3), **options)  # type: ignore[call-overload]


def test_errors_name_the_cause() -> None:
    density = chain()
    with pytest.raises(ValueError, match="`x` and `given` to be disjoint; got column 0 in both"):
        independence_test(density, 0, 1, [0], torch.zeros(5, 3))
    rows = torch.full((5, 3), math.nan)
    rows[0] = 0
    with pytest.raises(ValueError, match="at least 2 rows that know both sides; got 1 among 5"):
        independence_test(density, 0, 1, 2, rows)
    model = build(torch.randint(2, (9, 2)), width=2, categories={0: 2, 1: 2})
    cells = Evidence.of({0: {0, 1}, 1: 1}).expand(4)
    with pytest.raises(ValueError, match=r"sets of categories in \[0\]"):
        independence_test(model, 0, 1, None, cells)


def test_impossible_rows_are_told() -> None:
    model = build(torch.randint(2, (9, 3)), width=2, categories={2: 2}, dtype=torch.float64)
    categories = next(f for f in model.leaves.families if f.kind == "categorical")
    with torch.no_grad():
        categories.logits[..., 1] = -math.inf
    rows = torch.zeros(5, 3)
    assert independence_test(model, 0, 1, 2, rows).n == 5
    rows[3, 2] = 1
    with pytest.raises(ValueError, match=r"columns \[2\] have none"):
        independence_test(model, 0, 1, 2, rows)


def test_omitting_may_leave_too_few() -> None:
    rows = torch.zeros(5, 3)
    rows[:, 2] = math.nan
    with pytest.raises(ValueError, match="both sides and all of `given`; got 0 among 5"):
        independence_test(chain(), 0, 1, 2, rows, incomplete="omit")
