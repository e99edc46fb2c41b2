"""Draws of indices from categorical distributions held as logarithms."""

import torch
from torch import Tensor


def draw(log_weights: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw one index from each distribution on the last dim; weights need not be normalised.

    >>> draw(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]))
    tensor([0, 1])
    """
    cumulative = _cumulative(log_weights)
    u = _uniform(log_weights.shape[:-1], log_weights.device, generator)
    level = _below(u * cumulative[..., -1], cumulative[..., -1])
    return torch.searchsorted(cumulative, level[..., None], right=True).squeeze(-1)


def draw_rows(
    log_weights: Tensor, rows: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Draw an index from `log_weights[r]` for each r in `rows`, in memory of the order of `rows`.

    One sorted table serves all: row r of the cumulative weights is shifted by 2 r, so that a
    single binary search finds both. In float64 the shift costs about 2e-16 times the number
    of rows, far below what any number of draws can show.

    >>> draw_rows(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]), torch.tensor([1, 0, 1]))
    tensor([1, 0, 1])
    """
    count, size = log_weights.shape
    table = _cumulative(log_weights)
    # Sums differ from one by rounding: rows that are two apart do not overlap.
    start = torch.arange(0, 2 * count, 2, device=log_weights.device, dtype=torch.float64)
    total = table[:, -1].clone()
    end = table.add_(start[:, None])[:, -1]
    u = _uniform(rows.shape, rows.device, generator)
    level = _below(u * total[rows] + start[rows], end[rows])
    return torch.searchsorted(table.view(-1), level, right=True) - rows * size


def draw_many(log_weights: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """Draw `draws` indices from each row of (B, K), (B, S).

    >>> draw_many(torch.tensor([[-torch.inf, 0.0]]), 3)
    tensor([[1, 1, 1]])
    """
    cumulative = _cumulative(log_weights)
    u = _uniform(torch.Size((len(log_weights), draws)), log_weights.device, generator)
    level = _below(u * cumulative[:, -1:], cumulative[:, -1:])
    return torch.searchsorted(cumulative, level, right=True)


def _cumulative(log_weights: Tensor) -> Tensor:
    """Sum weights up in float64; each has the relative precision of its logarithm as it came."""
    weights = log_weights.softmax(-1)
    # A distribution without any weight is never drawn from, but must not spoil a table.
    return weights.nan_to_num_(0.0).cumsum(-1, dtype=torch.float64)


def _below(level: Tensor, total: Tensor) -> Tensor:
    """Keep levels below the total: the first index to exceed such a level has weight."""
    return level.minimum(total.nextafter(torch.full_like(total, -torch.inf)))


def _uniform(shape: torch.Size, device: torch.device, generator: torch.Generator | None) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, device=device, generator=generator)
