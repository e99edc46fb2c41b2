"""Gaussians with a pattern of observed columns for each row, against torch's own."""

import torch
from torch import Tensor

from marginals.numerics import factors
from marginals.numerics.gaussians import log_density_of_patterns

ROWS, WIDTH, COLUMNS = 7, 2, 4


def problem(rank: int = 5) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, loadings, unique variances and a mask; the last rows see all and nothing."""
    generator = torch.Generator().manual_seed(0)
    loadings = torch.randn(WIDTH, COLUMNS, rank, generator=generator, dtype=torch.float64)
    loadings = 0.95 * loadings / loadings.norm(dim=-1, keepdim=True)
    unique = 1 - loadings.square().sum(-1)
    scores = torch.randn(ROWS, WIDTH, COLUMNS, generator=generator, dtype=torch.float64)
    mask = torch.rand(ROWS, COLUMNS, generator=generator) < 0.6
    mask[-2], mask[-1] = True, False
    return scores, loadings, unique, mask


def reference(scores: Tensor, covariance: Tensor, mask: Tensor) -> Tensor:
    found = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
    for b in range(ROWS):
        for k in range(WIDTH):
            seen = mask[b]
            if seen.any():
                part = covariance[k][seen][:, seen]
                normal = torch.distributions.MultivariateNormal(torch.zeros(len(part)), part)
                found[b, k] = normal.log_prob(scores[b, k, seen])
    return found


def test_every_pattern() -> None:
    scores, loadings, unique, mask = problem()
    covariance = loadings @ loadings.mT + unique.diag_embed()
    expected = reference(scores, covariance, mask)
    gaps = torch.where(mask[:, None], scores, torch.nan)
    torch.testing.assert_close(factors.log_density(gaps, loadings, unique, mask), expected)
    patterns, index = torch.unique(mask, dim=0, return_inverse=True)
    known = torch.where(mask[:, None], scores, 0.0)
    found = log_density_of_patterns(known, covariance, patterns, index)
    torch.testing.assert_close(found, expected)
    assert found[-1].tolist() == [0.0, 0.0]


def test_many_factors_and_few_agree() -> None:
    scores, loadings, unique, mask = problem(rank=3)  # fewer than columns: another way
    more = torch.cat([loadings, torch.zeros(WIDTH, COLUMNS, 2)], -1)
    torch.testing.assert_close(
        factors.log_density(scores, loadings, unique, mask),
        factors.log_density(scores, more, unique, mask),
    )


def test_gradients() -> None:
    scores, loadings, unique, mask = problem()
    parts = [part.requires_grad_() for part in (scores, loadings, unique)]
    assert torch.autograd.gradcheck(lambda s, a, d: factors.log_density(s, a, d, mask), parts)


def test_second_derivatives() -> None:
    scores, loadings, unique, mask = problem()
    parts = [part[:2] if part is scores else part for part in (scores, loadings, unique)]
    parts = [part.clone().requires_grad_() for part in parts]
    seen = mask[:2]
    assert torch.autograd.gradgradcheck(lambda s, a, d: factors.log_density(s, a, d, seen), parts)
