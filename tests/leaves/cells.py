"""Evidence for leaves, from bounds with columns first."""

from collections.abc import Sequence

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence


def cells(lower: Tensor, upper: Tensor, columns: Sequence[int] | None = None) -> Evidence:
    """Cells with bounds (n, B), all of which may be intervals."""
    names = tuple(range(len(lower)) if columns is None else columns)
    return Evidence(names, lower.T, upper.T, {}, frozenset(names))


def exact(x: Tensor, columns: Sequence[int] | None = None) -> Evidence:
    """Exact cells (n, B), NaN where missing."""
    names = tuple(range(len(x)) if columns is None else columns)
    return Evidence(names, x.T, x.T)


def free(rows: int, columns: Sequence[int]) -> Evidence:
    """Missing cells of some columns."""
    return exact(torch.full((len(columns), rows), torch.nan), columns)
