import math

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from marginals.numerics import factors
from marginals.numerics.factors import conditional, log_density, posterior_of_factors, sample
from marginals.numerics.gaussians import log_density_of_patterns
from tests.laws.statistics import P_VALUE

MASKS = {
    "complete": lambda b, j: torch.ones(b, j, dtype=torch.bool),
    "random": lambda b, j: torch.rand(b, j) < 0.6,
    "two patterns": lambda b, j: (torch.arange(j) + torch.arange(b)[:, None]) % 2 == 0,
    "empty": lambda b, j: torch.zeros(b, j, dtype=torch.bool),
}
# Rows, components, columns, factors; those of the second line use the systems of the factors.
SIZES = [
    *((5, 2, 4, 2), (20, 2, 5, 3), (4, 1, 1, 1), (3, 2, 4, 0), (6, 2, 3, 5)),
    *((5, 2, 11, 2), (7, 3, 12, 1), (3, 2, 10, 0), (4, 2, 10, 12)),
]


def parts(components: int, width: int, rank: int, least: float = 0.05) -> tuple[Tensor, Tensor]:
    """Return loadings (K, J, r) and unique variances (K, J) of columns with unit variance."""
    direction = torch.randn(components, width, rank)
    unique = least + (1 - least) * torch.rand(components, width)
    if rank == 0:
        return direction, torch.ones(components, width)
    length = direction.norm(dim=-1, keepdim=True)
    return direction / length * (1 - unique)[..., None].sqrt(), unique


def dense(loadings: Tensor, unique: Tensor) -> Tensor:
    return loadings @ loadings.transpose(1, 2) + torch.diag_embed(unique)


def case(size: tuple[int, ...], mask: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, components, width, rank = size
    loadings, unique = parts(components, width, rank)
    observed = MASKS[mask](rows, width)
    # A score that is not observed must never be read.
    scores = torch.where(observed[:, None], torch.randn(rows, components, width), torch.nan)
    return scores, loadings, unique, observed


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_density_and_conditional_are_the_dense_ones(size: tuple[int, ...], mask: str) -> None:
    scores, loadings, unique, observed = case(size, mask)
    covariance = dense(loadings, unique)
    found = log_density(scores, loadings, unique, observed)
    # Without the host: every row is its own pattern, or the patterns are promised.
    for known in (None, observed.unique(dim=0)):
        free = log_density(scores, loadings, unique, observed, known, host_free=True)
        assert_close(free, found, rtol=1e-10, atol=1e-10)
    columns = torch.arange(size[2]).flip(0)
    mean, variance = conditional(scores, loadings, unique, observed, columns)
    assert mean.shape == variance.shape == (size[2], *scores.shape[:2])
    for b, k in torch.cartesian_prod(torch.arange(size[0]), torch.arange(size[1])).tolist():
        e = observed[b].nonzero().squeeze(-1)
        expected = torch.zeros(())
        if len(e):
            part = covariance[k][e][:, e]
            normal = torch.distributions.MultivariateNormal(torch.zeros(len(e)), part)
            expected = normal.log_prob(scores[b, k, e])
        assert_close(found[b, k], expected, rtol=1e-10, atol=1e-10)
        for i, j in enumerate(columns.tolist()):
            others = e[e != j]
            across = covariance[k][others, j]
            weights = torch.linalg.solve(covariance[k][others][:, others], across)
            left = covariance[k, j, j] - weights @ across
            assert_close(mean[i, b, k], weights @ scores[b, k, others], rtol=1e-9, atol=1e-9)
            assert_close(variance[i, b, k], left, rtol=1e-9, atol=1e-9)


def test_posterior_of_factors() -> None:
    scores, loadings, unique, observed = case((6, 2, 5, 3), "random")
    found = posterior_of_factors(scores, loadings, unique, observed)
    assert (found.patterns[found.index] == observed).all()
    assert len(found.cholesky) == len(found.patterns) == len(observed.unique(dim=0))
    for b in range(6):
        e = observed[b].nonzero().squeeze(-1)
        part = dense(loadings, unique)[:, e][:, :, e]
        gain = torch.linalg.solve(part, loadings[:, e])  # (K, e, r)
        assert_close(found.mean[b], torch.einsum("ker,ke->kr", gain, scores[b][:, e]))
        factor = found.cholesky[found.index[b]]
        covariance = torch.eye(3) - loadings[:, e].transpose(1, 2) @ gain
        assert_close(torch.linalg.inv(factor @ factor.transpose(1, 2)), covariance)
    complete = case((50, 2, 4, 2), "complete")
    assert posterior_of_factors(*complete).cholesky.shape[0] == 1


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("width", [3, 9])
def test_gradients(mask: str, width: int) -> None:
    scores, loadings, unique, observed = case((4, 2, width, 2), mask)
    inputs = (scores.requires_grad_(), loadings.requires_grad_(), unique.requires_grad_())
    fast = width > 3
    assert gradcheck(lambda s, a, d: log_density(s, a, d, observed), inputs, fast_mode=fast)
    columns = torch.tensor([0, 2])
    assert gradcheck(
        lambda s, a, d: conditional(s, a, d, observed, columns), inputs, fast_mode=fast
    )
    grads = torch.autograd.grad(log_density(*inputs, observed).sum(), inputs)
    assert all(g.isfinite().all() for g in grads)


def test_patterns_have_second_derivatives() -> None:
    scores, loadings, unique, observed = case((3, 2, 4, 5), "random")
    known = torch.where(observed[:, None], scores, 0.0).requires_grad_()
    covariance = dense(loadings, unique).requires_grad_()
    patterns, index = torch.unique(observed, dim=0, return_inverse=True)
    assert gradgradcheck(
        lambda s, c: log_density_of_patterns(s, (c + c.mT) / 2, patterns, index),
        (known, covariance),
        fast_mode=True,
    )


@pytest.mark.parametrize("least", [0.05, 1e-3])
@pytest.mark.parametrize("mask", ["complete", "random"])
def test_float32_is_within_a_thousandth_per_row(mask: str, least: float) -> None:
    loadings, unique = parts(3, 43, 24, least)
    unique[:, :5] = least
    factor = loadings[:, :5] / loadings[:, :5].norm(dim=-1, keepdim=True)
    loadings[:, :5] = factor * math.sqrt(1 - least)
    loadings, unique = loadings.float(), unique.float()
    observed = MASKS[mask](64, 43)
    components = torch.arange(3).expand(64, 3)
    empty = torch.full((64, 3, 43), torch.nan)
    none = torch.zeros_like(observed)
    scores = sample(empty, loadings.double(), unique.double(), none, components).float()
    got = log_density(scores, loadings, unique, observed)
    assert got.dtype == torch.float32
    double = (scores.double(), loadings.double(), unique.double(), observed)
    assert_close(got.double(), log_density(*double), rtol=0.0, atol=1e-3)
    columns = torch.arange(43)
    single = conditional(scores, loadings, unique, observed, columns)
    for a, b in zip(single, conditional(*double, columns), strict=True):
        assert_close(a.double(), b, rtol=1e-6, atol=1e-6)


def test_a_small_unique_variance_stays_accurate() -> None:
    loadings, unique = torch.full((1, 3, 1), math.sqrt(1 - 1e-8)), torch.full((1, 3), 1e-8)
    scores = torch.full((1, 1, 3), 1.5)
    got = log_density(scores, loadings, unique, torch.ones(1, 3, dtype=torch.bool))
    # Three equal columns: det R = d^2 (3 - 2 d), and the form is 3 s^2 / (3 - 2 d).
    total = 3 - 2e-8
    expected = -0.5 * (3 * 1.5**2 / total + 2 * math.log(1e-8) + math.log(total))
    assert_close(got.item(), expected - 1.5 * math.log(2 * math.pi), rtol=1e-8, atol=0.0)


def test_draws_have_the_conditional_distribution() -> None:
    scores, loadings, unique, observed = case((2, 3, 5, 2), "two patterns")
    components = torch.randint(3, (2, 20_000))
    drawn = sample(scores, loadings, unique, observed, components)
    assert drawn.shape == (2, 20_000, 5)
    for b in range(2):
        e, u = observed[b].nonzero().squeeze(-1), (~observed[b]).nonzero().squeeze(-1)
        for k in range(3):
            rows = drawn[b][components[b] == k]
            assert (rows[:, e] == scores[b, k, e]).all()
            covariance = dense(loadings, unique)[k]
            weights = torch.linalg.solve(covariance[e][:, e], covariance[e][:, u])
            left = covariance[u][:, u] - covariance[u][:, e] @ weights
            centred = rows[:, u] - scores[b, k, e] @ weights
            white = torch.linalg.solve_triangular(
                torch.linalg.cholesky(left), centred.T, upper=False
            )
            for z in (*white, white.sum(0) / math.sqrt(len(u))):
                assert kstest(z.numpy(), "norm").pvalue > P_VALUE


def test_draws_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, loadings, unique, observed = case((3, 2, 4, 2), "random")
    components = torch.randint(2, (3, 7))

    def draw() -> Tensor:
        generator = torch.Generator().manual_seed(3)
        return sample(scores, loadings, unique, observed, components, generator)

    whole = draw()
    monkeypatch.setattr(factors, "_GATHERED_ELEMENTS", 30)
    assert_close(draw(), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.gpu
def test_tf32_is_kept_out_and_the_setting_restored() -> None:
    if not torch.cuda.is_available():
        pytest.skip("Needs a CUDA device.")
    scores, loadings, unique, observed = case((64, 3, 43, 24), "complete")
    exact = log_density(scores, loadings, unique, observed)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        single = [x.float().cuda() for x in (scores, loadings, unique)]
        got = log_density(*single, observed.cuda())
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert_close(got.double().cpu(), exact, rtol=1e-5, atol=1e-3)
