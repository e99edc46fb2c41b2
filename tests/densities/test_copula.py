"""Copula components against dense normal distributions, and where they carry an error."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor
from torch.testing import assert_close

from marginals import Evidence, build, fit
from marginals.densities.coupled import CoupledDensity
from marginals.densities.tensor_density import TensorDensity
from marginals.leaves import Leaves
from marginals.numerics import logsumexp
from marginals.runtime.backend import Backend
from marginals.tensors import CPTensor
from marginals.tensors.couplings import Couplings
from tests.laws.registry import generic_copula, generic_shared, rows_of
from tests.laws.statistics import assert_uniform


def dense(model: CoupledDensity, component: int) -> np.ndarray:
    loadings, unique = (t.detach() for t in model.couplings.loadings())
    own = loadings[component]
    return (own @ own.T + torch.diag(unique[component])).numpy()


def scores(model: CoupledDensity, x: torch.Tensor) -> torch.Tensor:
    """Return the scores of rows (B, D) under each component, (K, B, D)."""
    at = model._family.evaluate(x.T, range(x.shape[1]))
    return torch.special.ndtri(at.log_cdf.exp()).permute(2, 1, 0)


def test_the_density_is_a_mixture_of_gaussian_copulas() -> None:
    model = generic_copula([None] * 4, 3, 2, 1)
    x = rows_of(model, 20)
    z = scores(model, x)
    leaves = model._family.evaluate(x.T, range(4)).log_density.sum(0)  # (B, K)
    parts = []
    for k in range(3):
        normal = multivariate_normal(np.zeros(4), dense(model, k))
        free = multivariate_normal(np.zeros(4), np.eye(4))
        copula = normal.logpdf(z[k].detach().numpy()) - free.logpdf(z[k].detach().numpy())
        parts.append(leaves[:, k] + torch.from_numpy(copula))
    expected = logsumexp(torch.stack(parts, -1) + model.couplings.log_weights())
    assert_close(model.logpdf(x), expected, rtol=1e-8, atol=1e-8)


def test_the_diagonal_is_one_and_margins_are_leaves() -> None:
    model = generic_copula([None] * 4, 3, 2, 2)
    for k in range(3):
        assert np.allclose(np.diag(dense(model, k)), 1)
    x = rows_of(model, 5)
    leaf = model._family.evaluate(x[:, [2]].T, [2]).log_density[0]
    expected = logsumexp(leaf + model.couplings.log_weights())
    assert_close(model.logpdf(x[:, [2]], [2]), expected)


def test_rank_zero_is_cp() -> None:
    family = generic_shared(3, 4, "normal")
    leaves = Leaves([family], [(0, 1, 2)])
    couplings = Couplings(3, 4, own=0)
    tensor = CPTensor(3, 4)
    with torch.no_grad():
        couplings.raw.normal_()
        tensor.raw.copy_(couplings.raw)
    copula, cp = CoupledDensity(leaves, couplings), TensorDensity(leaves, tensor)
    x = rows_of(cp, 10)
    assert_close(copula.logpdf(x), cp.logpdf(x))
    assert_close(copula.logpdf(x[:, [0, 2]], [0, 2]), cp.logpdf(x[:, [0, 2]], [0, 2]))
    assert_close(copula.logcdf(x[:, :2], [0, 1]), cp.logcdf(x[:, :2], [0, 1]))
    assert_close(copula.cdf(x), cp.cdf(x), rtol=0, atol=1e-4)


def test_boxes_of_three_columns_to_their_error() -> None:
    model = generic_copula([None] * 3, 2, 2, 0)
    x = rows_of(model, 15)
    z = scores(model, x).detach().numpy()
    weights = model.couplings.log_weights().exp().detach().numpy()
    rule = {"maxpts": 2_000_000, "abseps": 1e-7, "releps": 0.0}  # of scipy's own integration
    exact = sum(
        w * multivariate_normal.cdf(z[k], np.zeros(3), dense(model, k), **rule)
        for k, w in enumerate(weights)
    )
    assert np.abs(model.cdf(x).detach().numpy() - exact).max() < 1e-4


@torch.no_grad()
def test_conditionals_given_intervals() -> None:
    model = generic_copula([None, None, None, 2], 2, 1, 0)
    given = Evidence.of({0: (-1.0, 2.0), 3: 1})
    ends = model.ppf(torch.tensor([1e-9, 1 - 1e-9]), 1, given)
    grid = torch.linspace(*ends.tolist(), 4001)[:, None]
    mass = torch.trapezoid(model.pdf(grid, [1], given), grid[:, 0])
    assert float(mass) == pytest.approx(1, abs=1e-6)
    level = model.cdf(model.ppf(torch.tensor([0.1, 0.7]), 1, given)[:, None], [1], given)
    assert_close(level, torch.tensor([0.1, 0.7]), rtol=0, atol=1e-8)
    mean = model.univariates(given, [1]).expect(lambda x, _: x)
    expected = torch.trapezoid(grid[:, 0] * model.pdf(grid, [1], given), grid[:, 0])
    assert float(mean) == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("given", [{0: (0.0, 2.0)}, {0: (-1.0, None), 1: (None, 1.0), 3: 1}])
def test_samples_given_intervals(given: dict) -> None:
    model = generic_copula([None, None, None, 2], 2, 1, 1)
    drawn = model.sample(1000, given)
    for column, known in given.items():
        if isinstance(known, tuple):
            low, high = (-np.inf if known[0] is None else known[0]), known[1]
            assert bool((drawn[:, column] > low).all())
            assert bool((drawn[:, column] <= (np.inf if high is None else high)).all())
    assert_uniform(model.cdf(drawn[:, [2]], [2], given).detach())


@torch.no_grad()
def test_moments_by_quadrature() -> None:
    model = generic_copula([None] * 3, 3, 1, 0)
    parts = model.univariates({1: 0.3})
    grid = torch.linspace(-40, 40, 20001)
    for column in (0, 2):
        density = model.pdf(grid[:, None], [column], {1: 0.3})
        for power in (1, 2):
            expected = float(torch.trapezoid(grid**power * density, grid))
            found = parts.expect(lambda x, _, p=power: x**p)[0, column]
            assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_far_rows_have_a_density_and_a_gradient() -> None:
    model = generic_copula([None] * 3, 3, 1, 1)
    x = rows_of(model, 3) + 50 * torch.tensor([[1.0, -1.0, 1.0], [1, 1, 1], [-1, 1, 0]])
    value = model.logpdf(x)
    value.sum().backward()
    assert bool(value.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())


def test_training_on_censored_cells() -> None:
    rows = torch.randn(120, 3) @ torch.tensor([[1.0, 0.8, 0.0], [0, 0.6, 0], [0, 0, 1]])
    upper = torch.where(rows > 0.8, torch.inf, rows)
    data = Evidence.interval(rows.clamp_max(0.8), upper)
    model = build(data, tensor="copula", width=2, dtype=torch.float64, coupled=[0, 1, 2])
    result = fit(model, data, max_steps=6, batch_size=40)
    assert np.isfinite(result.best_loss)


def test_the_mass_of_a_trained_model_in_float32() -> None:
    rows = torch.randn(500, 2, dtype=torch.float32)
    rows[:, 1] = rows[:, 0] + 0.02 * rows[:, 1]  # nearly dependent: where a bad form would cheat
    model = build(rows, tensor="copula", width=4, rank=1)
    fit(model, rows, max_steps=300, learning_rate=0.03)
    a = torch.linspace(-6, 6, 401)
    b = torch.linspace(-1, 1, 801)
    grid = torch.stack(torch.meshgrid(a, b, indexing="ij"), -1)
    grid[..., 1] += grid[..., 0]
    with torch.no_grad():
        density = model.pdf(grid.reshape(-1, 2).float()).double().reshape(401, 801)
    mass = torch.trapezoid(torch.trapezoid(density, b), a)
    assert float(mass) == pytest.approx(1, abs=5e-3)
    with torch.no_grad():
        single = model.logpdf(rows).double()
        double = model.double().logpdf(rows.double())
    assert_close(single, double, rtol=0, atol=0.02)


def test_what_is_coupled() -> None:
    x = torch.randn(50, 4).round(decimals=1)
    x[:, 2] = (x[:, 2] > 0).double()
    lower = x.clone()
    lower[:, 3] = x[:, 3] - 0.05
    data = Evidence.interval(lower, x)
    model = build(data, tensor="copula", width=3, categories={2: 2}, atoms={0: (0.0,)})
    assert isinstance(model, CoupledDensity)
    assert model.coupled == (0, 1)
    assert model.atoms == {0: (0.0,)}
    none = build(data, tensor="copula", width=3, categories={2: 2}, coupled=[])
    assert isinstance(none, TensorDensity)
    with pytest.raises(ValueError, match="column 2"):
        build(data, tensor="copula", categories={2: 2}, coupled=[2])
    with pytest.raises(ValueError, match="'normal'"):
        build(x, tensor="copula", leaves="neural")


def test_wrong_parts() -> None:
    with pytest.raises(ValueError, match="`own`"):
        Couplings(2, 2, own=-1)
    with pytest.raises(ValueError, match="`least`"):
        Couplings(2, 2, least=0.0)
    leaves = Leaves([generic_shared(2, 3, "logistic")], [(0, 1)])
    with pytest.raises(ValueError, match="normal base"):
        CoupledDensity(leaves, Couplings(2, 3))
    leaves = Leaves([generic_shared(2, 3, "normal")], [(0, 1)])
    with pytest.raises(ValueError, match="`couplings`"):
        CoupledDensity(leaves, Couplings(2, 4))


def test_promised_patterns_change_nothing() -> None:
    model = generic_copula([None] * 4, 3, 1, 1)
    x = rows_of(model, 30)
    x[:10, 1] = torch.nan
    x[10:15] = torch.nan
    plain = model.contract(Evidence.exact(x))
    promised = Evidence.exact(x).with_facts(4)
    assert len(promised.patterns) == 3
    assert_close(model.contract(promised), plain)
    assert_close(model.contract(promised.rows(slice(5, 20))), plain[5:20])
    assert Evidence.exact(x).with_facts(2).patterns == ()
    complete = Evidence.exact(x[15:]).with_facts()
    assert complete.complete
    assert_close(model.contract(complete), plain[15:])


@torch.no_grad()
@pytest.mark.parametrize("columns", [3, 70])
def test_steps_without_the_host_give_the_same(columns: int) -> None:
    model = generic_copula([None] * columns, 2, 1, 1)
    x = rows_of(model, 6)
    complete = Evidence.exact(x).with_facts()
    expected = model.contract(Evidence.exact(x))
    gaps = x.clone()
    gaps[::2, 1] = torch.nan
    partial = model.contract(Evidence.exact(gaps))
    host_free = Backend(host_free=True)
    assert_close(model.contract(complete, host_free), expected)
    assert_close(model.contract(Evidence.exact(gaps), host_free), partial)


@pytest.mark.parametrize("columns", [4, 10])
def test_patterns_known_beforehand_are_factored_once_in_a_recorded_step(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the columns' own matrices or by the factors': as many as patterns, not as rows."""
    model = generic_copula([None] * columns, 3, 1, 1)
    x = rows_of(model, 40)
    holes = torch.arange(40)
    for column in range(3):
        x[(holes >> column) % 2 == 1, column] = torch.nan
    promised = Evidence.exact(x).with_facts(256)
    assert len(promised.patterns) == 8
    factored = []
    plain = torch.linalg.cholesky_ex

    def watched(matrix: Tensor, *words: Any, **options: Any) -> Any:
        factored.append(len(matrix))
        return plain(matrix, *words, **options)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", watched)
    found = []
    for evidence, patterns in ((Evidence.exact(x), 40), (promised, 8)):
        model.zero_grad()
        factored.clear()
        value = model.contract(evidence, Backend(host_free=True))
        assert factored == [patterns]
        value.sum().backward()
        found.append([value.detach(), *(p.grad for p in model.parameters())])
    assert_close(found[0], found[1])
    assert_close(found[1][0], model.contract(Evidence.exact(x)).detach())


def test_an_end_beyond_every_float_is_no_open_end() -> None:
    model = generic_copula([None] * 2, 2, 1, 0).float()
    far = torch.tensor([[1e39, -torch.inf]], dtype=torch.float64)
    with torch.no_grad():
        value = model.prob(far, torch.tensor([[torch.inf, 0.0]], dtype=torch.float64))
    assert float(value) == 0
