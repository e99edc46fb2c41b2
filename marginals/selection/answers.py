"""How well members answer: what they say about one hidden cell of a row, given its other cells.

Likelihood alone does not find the members that answer well: a member gains it with sharp components
at repeated values, or in columns nobody asks about. The score here is proper, and no spike can buy
it: the CRPS on the scale of the column's ranks or, for categories, half the Brier score.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.numerics.scoring_rules import brier_score
from marginals.runtime.threads import answering
from marginals.training.batches import Rows

# The most held-out rows to hide a cell of, the least where rows cost many floats, and these.
_MOST_ROWS, _LEAST_ROWS, _MOST_FLOATS = 200, 50, 1 << 24
# Points of a column at which its CDF is compared.
_POINTS = 16


class HiddenCells(NamedTuple):
    """Rows of numbers, of which each has one hidden cell."""

    points: Tensor  # (V, D), NaN where missing
    column: Tensor  # (V,), the position of the hidden cell


@torch.no_grad()
@answering()
def answer_scores(model: Density, train: Rows, judges: Rows) -> Tensor:
    """Return the score (V,) of one hidden cell of each of at most 200 rows, the less the better.

    The same judges give the same cells for every model, but models with many components score fewer
    of them. Cells of intervals count by their middles, so that no answer needs an integral.

    Args:
        model: A fitted model.
        train: The rows it was fitted to, whose values say where to compare.
        judges: Held-out rows.
    """
    most = min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_FLOATS // model.row_cost()))
    cells = _hidden(judges.evidence.midpoints(model.atoms), most)
    seen, columns = train.evidence.midpoints(model.atoms), judges.evidence.columns
    out = cells.points.new_ones(len(cells.column), dtype=torch.float64)
    for place in cells.column.unique().tolist():
        rows = cells.column == place
        given = cells.points[rows].clone()
        truth = given[:, place].clone()
        given[:, place] = torch.nan
        found = _scores(
            model, Evidence.exact(given, columns), columns[place], truth, seen[:, place]
        )
        out[rows] = found.to(out)
    return out.nan_to_num(1.0).cpu()


def _hidden(points: Tensor, most: int) -> HiddenCells:
    """Choose at most so many rows (N, D) that have an observed cell, and one such cell of each."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(points), generator=generator).to(points.device)
    known = ~points[order].isnan()
    some = known.any(1)
    order, known = order[some][:_MOST_ROWS], known[some][:_MOST_ROWS]
    if not len(order):
        return HiddenCells(points[order], order)
    column = torch.multinomial(known.double().cpu(), 1, generator=generator)[:, 0]
    return HiddenCells(points[order[:most]], column[:most].to(points.device))


def _scores(model: Density, given: Evidence, column: int, truth: Tensor, seen: Tensor) -> Tensor:
    """Return the scores (B,) of one column, given the rest of each row.

    Args:
        model: The model.
        given: The rows without the column.
        column: The column.
        truth: Its cells, (B,).
        seen: Its cells in the training rows, (N,).
    """
    parts = model.univariates(given, [column])
    count = model.categories[column]
    if count is not None:
        codes = torch.arange(count).to(parts.log_evidence)[:, None, None]
        masses = parts.logpdf(codes)[..., 0].double().softmax(0)  # (C, B)
        return 0.5 * brier_score(masses, truth.long())
    points = _between(seen)
    if not len(points):
        return torch.zeros_like(truth)
    below = parts.cdf(points[:, None, None].to(parts.log_evidence))[..., 0]  # (P, B)
    return (below - (truth <= points[:, None]).to(below)).square().mean(0)


def _between(seen: Tensor) -> Tensor:
    """Return points between the values of a column (N,), NaN where missing, evenly by rank."""
    values = seen[~seen.isnan()].sort().values
    if not len(values):
        return values
    levels = (torch.arange(_POINTS, device=values.device) + 0.5) / _POINTS
    low = values[(levels * len(values)).long()]
    after = torch.searchsorted(values, low, right=True)
    inside = after < len(values)
    return (low[inside] + values[after[inside]]) / 2


def comparable(groups: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return scores of the same cells for all groups of members, part by part, (V, groups)."""
    counts = [min(map(len, part)) for part in zip(*groups, strict=True)]
    return torch.stack(
        [torch.cat([s[:n] for s, n in zip(own, counts, strict=True)]) for own in groups], -1
    )


def answer_penalties(answers: Tensor, columns: int) -> Tensor:
    """Return by how many nats a row members (M,) are worse than the one that answers best.

    A score that is larger by a factor says as little as a density wider by that factor in every
    column. What may be chance, up to one standard error of the difference, does not count.

    Args:
        answers: Scores of hidden cells, (V, M).
        columns: Number of columns.

    >>> answer_penalties(torch.tensor([[0.1, 0.2], [0.1, 0.2]]), 3)
    tensor([0.0000, 2.0794])
    """
    mean = answers.mean(0)
    best = mean.argmin()
    away = answers - answers[:, best, None]
    error = away.std(0, correction=0) / max(1, len(answers)) ** 0.5
    worse = (away.mean(0) - error).clamp_min(0.0)
    return columns * torch.log1p(worse / mean[best].clamp_min(1e-9))
