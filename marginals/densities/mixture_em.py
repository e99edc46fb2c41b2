"""Start components without couplings by EM, for any kinds of leaves.

Each column is reduced to its distinct cells: a round costs one look-up and one count per row,
column and component, a small part of a gradient step's work, and tables of categories and masses of
atoms take closed-form steps. Categories that determine each other are found in a few rounds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.leaves import Leaves

# Rounds on a sample of rows, then on all of them.
_ROUNDS = (12, 8)
# Rows per component in the sample, and the most rows in all.
_ROWS_EACH, _MOST_ROWS = 50, 20_000
# Rows at a time: the shares of a block stay in the cache.
_BLOCK = 2048
# A round that gains less likelihood per row than this is the last.
_LEAST_GAIN = 1e-3


class _Column(NamedTuple):
    """The distinct cells of a column, and which of them each row has."""

    cells: Evidence  # (V, 1), one of them missing if some rows are
    middle: Tensor  # (V,)
    places: Tensor  # (N,)


@torch.no_grad()
def fit_components(leaves: Leaves, data: Evidence, generator: torch.Generator) -> Tensor:
    """Fit a mixture of independent columns by EM, from where the leaves are.

    Args:
        leaves: the leaves, which have seen the scale of the data and start on some of its rows.
        data: the rows.
        generator: source of the sample of rows.

    Returns:
        The weights of the components, (M,).
    """
    order = torch.randperm(len(data), generator=generator)[:_MOST_ROWS]
    few = order[: _ROWS_EACH * leaves.width]
    weights = torch.full((leaves.width,), 1 / leaves.width)
    for rows, rounds in zip((few, order), _ROUNDS, strict=True):
        some = data.rows(rows)
        columns = [_distinct(some, column, leaves.atoms) for column in data.columns]
        before = -torch.inf
        for _ in range(rounds):
            weights, score = _round(leaves, columns, weights)
            if score - before < _LEAST_GAIN:
                break
            before = score
    return weights


def _distinct(data: Evidence, column: int, atoms: Mapping[int, Sequence[float]]) -> _Column:
    cells = data.select([column])
    ends = torch.cat([cells.lower, cells.upper], 1)
    ends = torch.where(ends.isnan(), torch.inf, ends)
    found, places = torch.unique(ends, dim=0, return_inverse=True)
    # No cell has two ends of inf: they stand for a missing one.
    found = torch.where((found == torch.inf).all(1, keepdim=True), torch.nan, found)
    lower, upper = found[:, :1], found[:, 1:]
    exact = not bool((lower < upper).any())
    kept = Evidence.exact(lower, [column]) if exact else Evidence.interval(lower, upper, [column])
    return _Column(kept, kept.midpoints(atoms)[:, 0].double(), places)


def _round(leaves: Leaves, columns: Sequence[_Column], weights: Tensor) -> tuple[Tensor, float]:
    """Take one step of EM; return the new weights and the mean log likelihood before it."""
    tables = [leaves.log_values(column.cells)[0].float() for column in columns]  # (V, M)
    counts = [torch.zeros_like(table) for table in tables]
    rows = len(columns[0].places)
    total, score = torch.zeros_like(weights), 0.0
    for block in torch.arange(rows).split(_BLOCK):
        joint = weights.log().float().repeat(len(block), 1)
        at = [column.places[block] for column in columns]
        for table, place in zip(tables, at, strict=True):
            joint += table.index_select(0, place)
        top = joint.logsumexp(1, keepdim=True)
        score += float(top.double().sum())
        shares = (joint - top).exp()
        total += shares.sum(0)
        for count, place in zip(counts, at, strict=True):
            count.index_add_(0, place, shares)
    for column, count in zip(columns, counts, strict=True):
        family, own = leaves.family_of(column.cells.columns[0])
        family.start_weighted(column.middle[None], count.double(), [own])
    # One more row, shared by all components, keeps each of them alive.
    total = total.double() + 1 / len(total)
    return (total / total.sum()).to(weights), score / rows
