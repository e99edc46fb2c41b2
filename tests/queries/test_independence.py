"""Tests of independence: their functions, level and power by an exact oracle, and their cache."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import chi2
from torch import Tensor

import marginals
from marginals import MDMA, cross_fit
from marginals.cells import Evidence
from marginals.densities import Density, TensorDensity, build
from marginals.queries import Uniforms, independence_test
from marginals.queries.shape_functions import shape_functions, trimmed_functions
from marginals.queries.uniforms import cell_ends
from tests.laws.registry import shake
from tests.laws.statistics import assert_uniform
from tests.queries.oracle import Gaussian, gaussian


def chain(partial: float = 0.0) -> Gaussian:
    """X <- Z -> Y, columns x, y, z, with a partial correlation of x and y given z."""
    covariance = torch.tensor([[1.0, 0.48, 0.8], [0.48, 1.0, 0.6], [0.8, 0.6, 1.0]])
    covariance[0, 1] = covariance[1, 0] = 0.48 + partial * 0.6 * 0.8
    return Gaussian(covariance)


def outcome(
    density: Density, rows: Any, x: Any = 0, y: Any = 1, given: Any = 2, **options: Any
) -> Any:
    return independence_test(Uniforms([(density, rows)]), x, y, given, **options)


def repeated(density: Gaussian, x: Any = 0, y: Any = 1, given: Any = 2, **options: Any) -> Tensor:
    """The p-values of 300 tests of 300 rows each."""
    rows = density.sample(300 * 300).reshape(300, 300, -1)
    results = [
        outcome(density, part, x, y, given, seed=s, **options) for s, part in enumerate(rows)
    ]
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

    def published(u: float, power: int) -> float:
        weight = min(1.0, max(0.0, (u - 0.01) / 0.01), max(0.0, (0.99 - u) / 0.01)) / 0.97
        return ((u - 0.5) * weight) ** power

    scale = math.sqrt(quad(published, 0, 1, points=[0.01, 0.02, 0.98, 0.99], args=(2,))[0])
    for u in (0.005, 0.013, 0.02, 0.3, 0.5, 0.981, 0.995):
        found = float(trimmed_functions(torch.tensor(u), 1, 0.01, 0.01)[0])
        assert math.isclose(found, published(u, 1) / scale, abs_tol=1e-9)


def test_shapes_are_orthonormal() -> None:
    nodes, shares = np.polynomial.legendre.leggauss(10)
    values = shape_functions(torch.from_numpy((nodes + 1) / 2), 4).numpy()
    weighted = values * (shares / 2)[:, None]
    np.testing.assert_allclose(values.T @ weighted, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(weighted.sum(0), 0, atol=1e-12)


def test_statistic_over_all_shapes_from_its_definition() -> None:
    rows = chain(0.2).sample(200)
    found = outcome(chain(0.2), rows)
    x, y, z = rows.T
    u = [torch.special.ndtr((x - 0.8 * z) / 0.6), torch.special.ndtr((y - 0.6 * z) / 0.8)]
    first, second = (shape_functions(each, 4) for each in u)
    rho = first.T @ second / 200
    torch.testing.assert_close(found.correlations, rho)
    pvalues = chi2.sf(200 * rho.numpy() ** 2, 1)
    degree = np.arange(1, 5.0)
    weights = np.outer(degree, degree) ** -3
    weights /= weights.sum()
    least = (pvalues / weights).min()
    assert math.isclose(found.pvalue, 1 - np.prod(1 - weights * least), rel_tol=1e-6)
    j, k = np.unravel_index((pvalues / weights).argmin(), (4, 4))
    assert found.shape == (j + 1, k + 1)
    assert math.isclose(found.statistic, 200 * float(rho[j, k]) ** 2, rel_tol=1e-6)
    assert str(found).endswith(f"shape ({j + 1}, {k + 1})")


def test_statistic_from_its_definition() -> None:
    rows = chain().sample(200)
    found = outcome(chain(), rows, q=2)
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


@pytest.mark.parametrize("q", [None, 1, 2, 3])
def test_level_of_a_conditional_test(q: int | None) -> None:
    assert_uniform(repeated(chain(), q=q))


def test_level_without_conditions() -> None:
    assert_uniform(repeated(Gaussian(torch.diag(torch.tensor([1.0, 4.0]))), given=None))


def test_level_and_power_of_sides_of_several_columns() -> None:
    covariance = torch.eye(5)
    covariance[0, 2] = covariance[2, 0] = 0.5  # within x
    covariance[1, 3] = covariance[3, 1] = 0.7  # within y
    assert_uniform(repeated(Gaussian(covariance), [0, 2], [1, 3], 4))
    covariance[2, 3] = covariance[3, 2] = 0.4  # the second columns of the sides
    density = Gaussian(covariance)
    assert (repeated(density, [0, 2], [1, 3], 4) < 0.01).double().mean() > 0.95
    found = outcome(density, density.sample(300), [0, 2], [1, 3], 4)
    assert (found.degrees, found.correlations.shape, found.shape) == (4, (8, 8), (1, 1))


def test_power_and_forgetting_the_condition() -> None:
    assert (repeated(chain(0.4)) < 0.01).double().mean() > 0.99
    rows = chain().sample(300)
    assert outcome(chain(), rows, given=None).pvalue < 1e-6
    assert outcome(chain(), rows).pvalue > 1e-3


@pytest.mark.parametrize("q", [1, 2, 3])
def test_correlations_of_a_normal_copula(q: int) -> None:
    density = chain(0.4)
    found = outcome(density, density.sample(100_000), q=q).correlations
    # By the trapezoidal rule; the functions vanish beyond 2.33 standard deviations.
    z = torch.linspace(-3, 3, 1501)
    joint = Gaussian(torch.tensor([[1.0, 0.4], [0.4, 1.0]]))
    pdf = joint.pdf(torch.cartesian_prod(z, z)).reshape(1501, 1501)
    values = trimmed_functions(torch.special.ndtr(z), q, 0.01, 0.01)
    exact = values.T @ pdf @ values * (6 / 1500) ** 2
    moments = values.square().T @ pdf @ values.square() * (6 / 1500) ** 2
    stderr = ((moments - exact.square()) / 100_000).sqrt()
    assert ((found - exact).abs() < 4 * stderr).all()


def bent(u: Tensor) -> Tensor:
    """Fold uniforms in the middle: as often rising as falling."""
    return (2 * u - 1).abs()


@pytest.mark.parametrize(
    ("shape", "of"),
    [
        ((2, 1), lambda u, v: 0.4 * bent(u) + v),
        ((1, 2), lambda u, v: 0.5 + (v - 0.5) * (1 + u)),
        ((2, 2), lambda u, v: 0.5 + (v - 0.5) * (1 + bent(u))),
        ((3, 1), lambda u, v: 0.1 * shape_functions(u, 3)[:, 2] + v),
    ],
)
def test_shapes_that_one_function_cannot_see(shape: tuple[int, int], of: Any) -> None:
    u, v = torch.rand(2, 2000)
    y = of(u, v)
    ranks = (y.argsort().argsort() + 0.5) / len(y)
    uniforms = Uniforms([(Gaussian(torch.eye(2)), torch.special.ndtri(torch.stack([u, ranks], 1)))])
    found = independence_test(uniforms, 0, 1)
    assert found.pvalue < 1e-6
    assert found.shape == shape


def test_curves_are_seen_by_default() -> None:
    w, noise = torch.randn(2, 2000)
    rows = torch.stack([w, w.square() / 2 + noise], 1).numpy()
    folded = cross_fit(pd.DataFrame(rows, columns=["w", "v"]), folds=2)
    assert folded.independence_test("w", "v", q=1).pvalue > 1e-3
    assert folded.independence_test("w", "v").pvalue < 1e-9


def test_shapes_cost_no_power_against_trends() -> None:
    density = chain(0.15)
    every, first = (float((repeated(density, q=q) < 0.05).double().mean()) for q in (None, 1))
    assert every >= first


# Cells of every kind ----------------------------------------------------------------------------


def rounded(rows: Tensor, columns: list[int], step: float) -> Evidence:
    """Cells of width `step` for some columns."""
    lower, upper = rows.clone(), rows.clone()
    lower[:, columns] = (rows[:, columns] / step).ceil() * step - step
    upper[:, columns] = lower[:, columns] + step
    return Evidence.interval(lower, upper)


def coded() -> TensorDensity:
    """A category of 3, a number with an atom at 0, and a number."""
    data = torch.stack([torch.randint(3, (60,)), torch.randn(60), torch.randn(60)], 1)
    data[::3, 1] = 0.0
    model = build(data, width=3, categories={0: 3}, atoms={1: [0.0]}, dtype=torch.float64)
    shake(model)
    return model


def test_level_of_rounded_cells() -> None:
    density = chain()
    draws = density.sample(300 * 300).reshape(300, 300, 3)
    random, middle = (
        torch.tensor(
            [
                outcome(density, rounded(part, [0, 1], 1.5), ties=ties, seed=seed).pvalue
                for seed, part in enumerate(draws)
            ]
        )
        for ties in ("random", "middle")
    )
    assert_uniform(random)
    # The middle errs on the side of independence.
    assert (middle < 0.05).double().mean() < 0.05
    assert middle.mean() > random.mean()
    cells = rounded(draws[0], [0], 2.0)
    one, same, other = (outcome(density, cells, seed=s).statistic for s in (0, 0, 1))
    assert one == same != other


def test_ends_of_cells_may_be_infinite() -> None:
    density = chain()
    rows = density.sample(400)
    lower, upper = rows.clone(), rows.clone()
    censored = rows[:, 0] > 0.5
    lower[censored, 0], upper[censored, 0] = 0.5, math.inf
    found = outcome(density, Evidence.interval(lower, upper))
    assert found.n == 400
    assert 1e-6 < found.pvalue <= 1


@torch.no_grad()
def test_level_of_categories_and_atoms() -> None:
    model = coded()
    rows = model.sample(20_000)
    rows[:, 1] = rows[torch.randperm(20_000), 1]
    parts = rows.reshape(100, 200, 3)
    found = [outcome(model, part, given=None, seed=s).pvalue for s, part in enumerate(parts)]
    assert_uniform(torch.tensor(found))


def test_the_middle_of_a_code_is_exact_and_a_constant_has_no_say() -> None:
    model = build(torch.randint(3, (60, 2)), width=3, categories={0: 3, 1: 3}, dtype=torch.float64)
    shake(model)
    rows = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0))
    found = outcome(model, rows, given=None, q=1, ties="middle")
    masses = [model.pdf(torch.arange(3.0)[:, None], [column]) for column in (0, 1)]
    middles = [mass.cumsum(0) - mass / 2 for mass in masses]
    first, second = (trimmed_functions(u, 1, 0.01, 0.01)[:, 0] for u in middles)
    expected = first[rows[:, 0].long()] @ second[rows[:, 1].long()] / 9
    torch.testing.assert_close(found.correlations[0, 0], expected.detach())
    model = build(torch.zeros(9, 2), width=2, categories={0: 1}, dtype=torch.float64)
    rows = torch.stack([torch.zeros(50), torch.randn(50)], 1)
    found = outcome(model, rows, given=None, ties="middle")
    assert (found.statistic, found.pvalue) == (0.0, 1.0)


def test_missing_cells() -> None:
    density = gaussian(4)
    rows = density.sample(100)
    rows[:10, 0] = rows[10:20, 1] = torch.nan
    found, fewer = (outcome(density, part, given=[2, 3]) for part in (rows, rows[20:]))
    torch.testing.assert_close(found.correlations, fewer.correlations)
    assert (found.n, found.statistic, found.pvalue) == (80, fewer.statistic, fewer.pvalue)
    # A column of Z that is missing everywhere is one not conditioned on.
    rows[:, 3] = torch.nan
    marginal = outcome(density, rows, given=[2, 3])
    assert math.isclose(marginal.statistic, outcome(density, rows).statistic)
    rows[:60, 2] = torch.nan
    assert outcome(density, rows).n == 80
    assert outcome(density, rows, incomplete="omit").n == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": 0}, "`q`"),
        ({"q": (1, 2)}, "`q`"),
        ({"trim": 0.5}, "`trim`"),
        ({"trim": -0.1}, "`trim`"),
        ({"ramp": 0.0}, "`ramp`"),
        ({"ramp": 0.2, "q": 3}, "`ramp` to be positive and at most 0.163"),
        ({"ties": "midpoint"}, "`ties` to be one of"),
        ({"incomplete": "drop"}, "`incomplete` to be one of"),
        ({"given": [0]}, "`x` and `given` to be disjoint; got column 0 in both"),
        ({}, "at least 2 rows with both sides; got 1 among 5"),
        ({"incomplete": "omit"}, "both sides and all of `given`; got 0 among 5"),
    ],
)
def test_errors_name_the_cause(options: dict[str, Any], message: str) -> None:
    rows = torch.full((5, 3), math.nan)
    rows[0, :2] = 0
    with pytest.raises(ValueError, match=message):
        outcome(chain(), rows, **options)


def test_sets_and_impossible_rows_are_refused() -> None:
    model = build(torch.randint(2, (9, 3)), width=2, categories={0: 2, 2: 2}, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"sets of categories in \[0\]"):
        outcome(model, Evidence.of({0: {0, 1}, 1: 1}).expand(4), given=None)
    categories = next(f for f in model.leaves.families if f.kind == "categorical")
    with torch.no_grad():
        categories.logits[..., 1] = -math.inf
    rows = torch.zeros(5, 3)
    assert outcome(model, rows).n == 5
    rows[3, 2] = 1
    with pytest.raises(ValueError, match=r"columns \[2\] have none"):
        outcome(model, rows)


# Transforms -------------------------------------------------------------------------------------


class Counting(Gaussian):
    """Records which univariates were requested."""

    def __init__(self, covariance: Tensor) -> None:
        super().__init__(covariance)
        self.calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def univariates(self, given=None, columns=None):  # type: ignore[no-untyped-def]
        self.calls.append((tuple(columns), tuple(given.columns)))
        return super().univariates(given, columns)


def test_a_transform_is_made_once_and_memory_is_bounded() -> None:
    density = Counting(gaussian(5).covariance)
    rows = density.sample(50)
    uniforms = Uniforms([(density, rows)])
    for x, y, given in [(0, 1, [2, 3]), (0, 4, [3, 2]), (1, 4, [2, 3]), (0, 1, [2, 3])]:
        found = independence_test(uniforms, x, y, given)
        alone = outcome(Gaussian(density.covariance), rows, x, y, given)
        assert math.isclose(found.pvalue, alone.pvalue)
    assert density.calls == [((0, 1), (2, 3)), ((4,), (2, 3))]
    density.calls.clear()
    one = 50 * 8  # bytes of one column, whose cells have no mass
    uniforms = Uniforms([(density, rows)], kept_bytes=2 * one)
    for column in (0, 1, 0, 2, 0, 1):  # 1 goes when 2 comes: 0 was used since
        uniforms.ends([column], [4])
    assert [columns[0] for columns, _ in density.calls] == [0, 1, 2, 1]
    nothing = Uniforms([(density, rows)], kept_bytes=0)
    assert torch.equal(nothing.ends([0], [1]), nothing.ends([0], [1]))


def test_ends_of_exact_cells_in_batches() -> None:
    density = gaussian(3)
    rows = density.sample(20)
    ends = cell_ends(density, density.checked(rows), [1], [0, 2])
    assert torch.equal(ends[..., 0], ends[..., 1])
    expected = density.univariates(Evidence.exact(rows[:, [0, 2]], [0, 2]), [1])
    torch.testing.assert_close(ends[:, 0, 0], expected.logcdf(rows[:, 1:2]).exp()[:, 0])
    density = chain()
    rows = density.sample(50)
    whole = outcome(density, rows)
    density.batch, density.largest = 7, 0
    assert math.isclose(outcome(density, rows).statistic, whole.statistic)
    assert density.largest == 28  # a CDF takes a quarter of the memory of a contraction


def test_missing_cells_have_no_ends() -> None:
    model = coded()
    data = model.sample(40).detach()
    data[::3, 1] = 0.0
    holes = data.clone()
    holes[::4, 0] = holes[1::4, 1] = math.nan
    ends = cell_ends(model, model.checked(holes), [0, 1], [2])
    assert torch.equal(ends.isnan().any(-1), holes[:, :2].isnan())
    whole = cell_ends(model, model.checked(data), [0, 1], [2])
    torch.testing.assert_close(ends, torch.where(ends.isnan(), torch.nan, whole), equal_nan=True)
    masses = whole[..., 1] - whole[..., 0]
    assert (masses[:, 0] > 0).all()
    assert torch.equal(masses[:, 1] > 1e-9, data[:, 1] == 0)
    holes[:, 0] = math.nan
    assert bool(cell_ends(model, model.checked(holes), [0], [2]).isnan().all())


@pytest.mark.parametrize("most", [0, 32])
def test_rows_with_different_gaps(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marginals.queries.uniforms._MOST_PATTERNS", most)
    density = gaussian(4)
    rows = density.sample(60)
    rows[torch.rand(60, 4) < 0.3] = math.nan
    found = cell_ends(density, density.checked(rows), [0, 3], [1, 2])
    for row, ends in zip(rows, found, strict=True):
        expected = cell_ends(density, density.checked(row[None]), [0, 3], [1, 2])[0]
        torch.testing.assert_close(ends, expected, equal_nan=True)
    assert torch.equal(found[..., 0].isnan(), rows[:, [0, 3]].isnan())


def test_rows_of_several_parts_follow_each_other() -> None:
    parts = [(density := gaussian(3, seed=s), density.sample(10 * s)) for s in (3, 2)]
    both = Uniforms(parts)
    expected = torch.cat([Uniforms([part]).ends([0, 1], [2]) for part in parts])
    assert torch.equal(both.ends([0, 1], [2]), expected)
    assert independence_test(both, 0, 1, 2).n == 50
    assert both.observed([0]).shape == (50, 1)
    with pytest.raises(ValueError, match="`parts` to hold a density"):
        Uniforms([])
    with pytest.raises(ValueError, match=r"same columns; got \[2, 3\] columns"):
        Uniforms([(gaussian(n), torch.zeros(5, n)) for n in (2, 3)])


# By name ----------------------------------------------------------------------------------------


def test_a_tester_is_the_model_and_keeps_transforms(
    model: MDMA, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    tester = model.independence_tester(seed=3)
    assert tester.names == list(frame)
    for x, y, given in [
        ("x", "count", None),
        ("count", "x", ["city"]),
        ("x", ["count", "wait"], ["city", "price"]),
        ("share", "grade", ["city"]),
    ]:
        found = tester.independence_test(x, y, given)
        alone = model.independence_test(x, y, given, seed=3)
        assert found.pvalue == pytest.approx(alone.pvalue, rel=1e-6)
        assert (found.degrees, found.n) == (alone.degrees, alone.n)
    assert model.independence_test("x", "count").pvalue < 0.01
    tester = model.independence_tester()
    tester.prepare(["x", "count", "share"], "city")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(type(model.module_), "univariates", refuse)
    for x, y in [("x", "count"), ("count", "share"), ("share", "x")]:
        assert tester.independence_test(x, y, ["city"]).n == 200
    with pytest.raises(AssertionError, match="asked again"):
        tester.independence_test("x", "wait", ["city"])


def test_rows_options_and_errors_by_name(model: MDMA, frame: pd.DataFrame, tmp_path: Any) -> None:
    tester = model.independence_tester(data=frame[:50], q=(1, 2), ties="middle")
    one, two = tester.independence_test("x", "count")  # type: ignore[misc]
    assert (one.n, one.degrees, two.degrees, one.ties) == (50, 1, 4, "middle")
    for q, found in ((1, one), (2, two)):
        alone = model.independence_test("x", "count", data=frame[:50], q=q, ties="middle")
        assert alone.statistic == found.statistic
    assert model.independence_test("x", "city", given=["count"], data=frame).n == len(frame)
    model.save(tmp_path / "m")
    for other in (marginals.load(tmp_path / "m"), model.marginal(["x", "count"])):
        with pytest.raises(ValueError, match="Expected `data`, rows to test on"):
            other.independence_test("x", "count")
    with pytest.raises(ValueError, match="wealth"):
        model.independence_tester().independence_test("x", "wealth")
