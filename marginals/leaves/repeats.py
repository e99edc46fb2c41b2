"""Repeated cells: a lattice has few distinct intervals, each of which is evaluated once."""

import dataclasses
from typing import final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence

# Searching for distinct cells pays if they are at most this share of the rows.
_MOST = 0.5


@final
@dataclasses.dataclass(frozen=True)
class Repeats:
    """The distinct cells of each column, and where they occur.

    Args:
        cells: U rows, missing where a column has fewer than U distinct cells.
        index: which of them each row has, (n, B).
    """

    cells: Evidence
    index: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Return values (n, U, M) of the distinct cells for each row, (n, B, M)."""
        columns, count, width = values.shape
        start = torch.arange(columns, device=values.device)[:, None] * count
        # Picking rows of a matrix makes the gradient add up rows, not single numbers.
        picked = values.reshape(-1, width).index_select(0, (self.index + start).flatten())
        return picked.view(columns, -1, width)


def find_repeats(cells: Evidence) -> Repeats | None:
    """Return the distinct cells of columns with intervals; None if most differ.

    >>> low = torch.tensor([[0.0], [1.0], [0.0], [0.0]])
    >>> found = find_repeats(Evidence.interval(low, low + 1))
    >>> found.cells.lower.T, found.index
    (tensor([[0., 1.]]), tensor([[0, 1, 0, 0]]))
    """
    if cells.lower.is_cuda or cells.sets:
        return None  # counting distinct cells needs the host
    lower, upper = cells.by_column()
    missing = upper.isnan()
    # No cell has two bounds of inf: they are free to stand for a missing one.
    low, high = (torch.where(missing, torch.inf, end) for end in (lower, upper))
    order = high.argsort(1)
    order = order.gather(1, low.gather(1, order).argsort(dim=1, stable=True))
    low, high = low.gather(1, order), high.gather(1, order)
    new = (low[:, 1:] != low[:, :-1]) | (high[:, 1:] != high[:, :-1])
    rank = torch.nn.functional.pad(new.cumsum(1), (1, 0))  # (n, B)
    count = int(rank.max()) + 1
    if count > _MOST * rank.shape[1]:
        return None
    low, high = (
        end.new_full((len(end), count), torch.nan).scatter(1, rank, end) for end in (low, high)
    )
    absent = (low == torch.inf) & (high == torch.inf)
    lower, upper = (torch.where(absent, torch.nan, end).T for end in (low, high))
    index = torch.empty_like(order).scatter(1, order, rank)
    return Repeats(dataclasses.replace(cells, lower=lower, upper=upper), index)
