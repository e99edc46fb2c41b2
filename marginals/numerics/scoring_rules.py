"""How good predicted distributions are: proper scoring rules."""

import torch
from torch import Tensor


def quantile_crps(quantiles: Tensor, levels: Tensor, truth: Tensor) -> Tensor:
    """Return the CRPS (B,) of quantiles (Q, B) at levels (Q,): twice the mean pinball loss.

    Levels (i + 1/2) / Q give the CRPS of Q equally likely values. For 50 of them it is that of a
    normal distribution within 0.2 %.

    >>> quantile_crps(torch.tensor([[1.0]]), torch.tensor([0.5]), torch.tensor([3.0]))
    tensor([2.])
    """
    away = truth - quantiles
    level = levels[:, None]
    return 2 * torch.maximum(level * away, (level - 1) * away).mean(0)


def mass_crps(values: Tensor, masses: Tensor, truth: Tensor) -> Tensor:
    """Return the CRPS (B,) of rising values (V,) with masses (V, B): the integral of (F - step)^2.

    >>> mass_crps(torch.tensor([0.0, 1.0]), torch.tensor([[0.5], [0.5]]), torch.tensor([1.0]))
    tensor([0.2500])
    """
    # E|X - y| - E|X - X'| / 2; the second is the integral of F (1 - F).
    away = ((values[:, None] - truth).abs() * masses).sum(0)
    cdf = masses.cumsum(0)[:-1]
    return away - (cdf * (1 - cdf) * values.diff()[:, None]).sum(0)


def brier_score(masses: Tensor, truth: Tensor) -> Tensor:
    """Return the Brier score (B,) of masses (C, B) for the codes (B,) that occurred.

    >>> brier_score(torch.tensor([[0.8], [0.2]]), torch.tensor([0]))
    tensor([0.0800])
    """
    hit = masses.gather(0, truth[None])[0]
    return masses.square().sum(0) - 2 * hit + 1
