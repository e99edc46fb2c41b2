"""Columns with few distinct cells: each cell is evaluated once, and rows look their value up."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from marginals.numerics import select

if TYPE_CHECKING:
    from marginals.cells.evidence import Evidence

# Columns with at most so many distinct cells share one table, and the others another.
_SMALL = 64
# Rows that tell whether a column may have few distinct cells.
_LOOKED_AT = 4096


@final
@dataclass(frozen=True)
class DistinctCells:
    """The distinct cells of some columns, and which of them each row has.

    Args:
        table: U rows, missing where a column has fewer than U distinct cells.
        index: the row of the table that holds the cell, (n, B); -1 for exact cells left out of it.
        partial: whether exact cells are left out.
    """

    table: "Evidence"
    index: Tensor
    partial: bool = False

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns."""
        return self.table.columns

    def rows(self, index: Tensor | slice) -> "DistinctCells":
        """Return some rows."""
        return replace(self, index=self.index[:, index])

    def select(self, columns: Sequence[int]) -> "DistinctCells":
        """Return those of the columns that are here."""
        if tuple(columns) == self.columns:
            return self
        at = [self.columns.index(c) for c in columns if c in self.columns]
        table = self.table.select([self.columns[i] for i in at])
        return DistinctCells(table, select(self.index, at), self.partial)

    def renamed(self, names: Sequence[int] | Mapping[int, int]) -> "DistinctCells":
        """Call column c `names[c]`."""
        return replace(self, table=self.table.renamed(names))

    def to(self, device: torch.device | str, dtype: torch.dtype | None) -> "DistinctCells":
        """Move to a device."""
        return replace(self, table=self.table.to(device, dtype), index=self.index.to(device))

    def spread(self, values: Tensor) -> Tensor:
        """Return values (n, U, M) of the distinct cells for each row, (n, B, M)."""
        columns, count, width = values.shape
        start = torch.arange(columns, device=values.device)[:, None] * count
        # Picking rows of a matrix makes the gradient add up rows, not single numbers.
        place = (self.index.clamp_min(0) if self.partial else self.index) + start
        return values.reshape(-1, width).index_select(0, place.flatten()).view(columns, -1, width)


def find_distinct(
    cells: "Evidence", most: int, still: Container[int] | None = None
) -> tuple[DistinctCells, ...]:
    """Return the distinct cells of the columns that have at most `most` of them.

    Of a column with more, or with exact cells that may move, those that are not exact are taken.

    Args:
        cells: rows of evidence.
        most: the largest number of distinct cells.
        still: columns whose exact cells will not be changed; None means all.

    >>> from marginals.cells.evidence import Evidence
    >>> low = torch.tensor([[0.0], [1.0], [0.0], [0.0]])
    >>> (found,) = find_distinct(Evidence.interval(low, low + 1), most=2)
    >>> found.table.lower.T, found.index
    (tensor([[0., 1.]]), tensor([[0, 1, 0, 0]]))
    """
    cells = cells.select([c for c in cells.columns if c not in cells.sets])
    whole = [c for c in cells.columns if still is None or c in still]
    if len(cells) > _LOOKED_AT and whole:
        found = _Sorted.of(cells.rows(slice(_LOOKED_AT)).select(whole))
        whole = [c for c, count in zip(whole, found.counts(), strict=True) if count <= most]
    groups = _tables(cells.select(whole), most)
    done = {c for group in groups for c in group.columns}
    held = cells.select([c for c in cells.columns if c in cells.intervals and c not in done])
    if not held.columns:
        return groups
    exact = held.lower == held.upper
    rest = replace(
        held,
        lower=torch.where(exact, torch.nan, held.lower),
        upper=torch.where(exact, torch.nan, held.upper),
    )
    masks = dict(zip(held.columns, exact.T, strict=True))
    partial = []
    for group in _tables(rest, most):
        out = torch.stack([masks[c] for c in group.columns])
        partial.append(replace(group, index=group.index.masked_fill(out, -1), partial=True))
    return (*groups, *partial)


@final
@dataclass(frozen=True)
class _Sorted:
    """The cells of each column in order: where each was, its rank and its bounds, all (n, B)."""

    order: Tensor
    rank: Tensor
    lower: Tensor
    upper: Tensor

    @staticmethod
    def of(cells: "Evidence") -> "_Sorted":
        lower, upper = cells.by_column()
        missing = upper.isnan()
        # No cell has two bounds of inf: they are free to stand for a missing one.
        low, high = (torch.where(missing, torch.inf, end) for end in (lower, upper))
        order = high.argsort(1)
        order = order.gather(1, low.gather(1, order).argsort(dim=1, stable=True))
        low, high = low.gather(1, order), high.gather(1, order)
        new = (low[:, 1:] != low[:, :-1]) | (high[:, 1:] != high[:, :-1])
        return _Sorted(order, torch.nn.functional.pad(new.cumsum(1), (1, 0)), low, high)

    def counts(self) -> list[int]:
        """Return the number of distinct cells of each column."""
        return (self.rank[:, -1] + 1).tolist() if self.rank.shape[1] else [0] * len(self.rank)


def _tables(cells: "Evidence", most: int) -> tuple[DistinctCells, ...]:
    """Return columns with at most `most` distinct cells; those with few and with many apart."""
    if not cells.columns or not len(cells):
        return ()
    found = _Sorted.of(cells)
    counts = found.counts()
    sizes = [[i for i, count in enumerate(counts) if count <= min(most, _SMALL)]]
    sizes.append([i for i, count in enumerate(counts) if _SMALL < count <= most])
    return tuple(_table(cells, found, at, max(counts[i] for i in at)) for at in sizes if at)


def _table(cells: "Evidence", found: _Sorted, at: list[int], count: int) -> DistinctCells:
    """Return some columns with at most `count` distinct cells."""
    rank = found.rank[at]
    low, high = (
        end.new_full((len(at), count), torch.nan).scatter(1, rank, end[at])
        for end in (found.lower, found.upper)
    )
    absent = (low == torch.inf) & (high == torch.inf)
    lower, upper = (torch.where(absent, torch.nan, end).T for end in (low, high))
    chosen = cells.select([cells.columns[i] for i in at])
    table = replace(
        chosen, lower=lower, upper=upper, exact_columns=frozenset(), patterns=(), distinct_cells=()
    )
    return DistinctCells(table, torch.empty_like(rank).scatter(1, found.order[at], rank))
