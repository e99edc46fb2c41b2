"""Cells that repeat: a lattice has few different intervals, each of which is evaluated once."""

import dataclasses
from typing import final

import torch
from torch import Tensor

from marginals.cells import Cells

# Distinct cells are worth their search if there are at most so many among the rows.
_MOST = 0.5


@final
@dataclasses.dataclass(frozen=True)
class Repeats:
    """The distinct cells of each column, and where they stand.

    Args:
        cells: (n, U), missing where a column has fewer than U.
        index: which of them each row has, (n, B).
    """

    cells: Cells
    index: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Return values (n, U, M) of the distinct cells for each row, (n, B, M)."""
        columns, count, width = values.shape
        start = torch.arange(columns, device=values.device)[:, None] * count
        # Rows of a matrix are picked, so that the gradient adds up rows and not single numbers.
        picked = values.reshape(-1, width).index_select(0, (self.index + start).flatten())
        return picked.view(columns, -1, width)


def find_repeats(cells: Cells) -> Repeats | None:
    """Return the distinct cells of columns of intervals (n, B); None if most differ.

    >>> low = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    >>> found = find_repeats(Cells(low, low + 1, (0,)))
    >>> found.cells.lower, found.index
    (tensor([[0., 1.]]), tensor([[0, 1, 0, 0]]))
    """
    if cells.lower.is_cuda or cells.sets:
        return None  # the number of distinct cells is a question to the host
    missing = cells.upper.isnan()
    # No cell ends at -inf or starts at inf: such bounds are free to stand for a missing one.
    low, high = (torch.where(missing, torch.inf, end) for end in (cells.lower, cells.upper))
    order = high.argsort(1)
    order = order.gather(1, low.gather(1, order).argsort(dim=1, stable=True))
    low, high = low.gather(1, order), high.gather(1, order)
    new = (low[:, 1:] != low[:, :-1]) | (high[:, 1:] != high[:, :-1])
    rank = torch.nn.functional.pad(new.cumsum(1), (1, 0))  # (n, B)
    count = int(rank.max()) + 1
    if count > _MOST * rank.shape[1]:
        return None
    ends = []
    for end in (low, high):
        distinct = end.new_full((len(end), count), torch.nan).scatter(1, rank, end)
        ends.append(distinct)
    absent = ends[0] == torch.inf
    lower, upper = (torch.where(absent, torch.nan, end) for end in ends)
    index = torch.empty_like(order).scatter(1, order, rank)
    return Repeats(dataclasses.replace(cells, lower=lower, upper=upper), index)
