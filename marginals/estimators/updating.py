"""Go on from a fitted model with new rows."""

import copy
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.columns import Schema, decode, encode
from marginals.densities.density import Density
from marginals.queries.positions import draws_of
from marginals.training import FitResult, fit

# Stand-ins for the old rows: as many as new rows, within these bounds. More would cost more time
# than they say about the old table.
_FEWEST_OLD, _MOST_OLD = 2_000, 50_000
_HELD_OUT = 0.1  # of the new rows and of the stand-ins
_MOST_HELD = 20_000
# The first part of a fit has been done.
_LEARNING_RATE, _MOST_STEPS = 0.003, 3_000


@final
@dataclass(frozen=True)
class UpdateResult:
    """Hold the effect of an update.

    Args:
        before, after: mean log density of held-out new rows before and after, in the table's units.
        old_before, old_after: the same for held-out rows that represent the old ones, on the
            model's scale.
        rows: the number of new rows.
        result: the training history, on the model's scale.
    """

    before: float
    after: float
    old_before: float
    old_after: float
    rows: int
    result: FitResult

    def __str__(self) -> str:
        return (
            f"Log density of held-out new rows: {self.before:.4f} before, {self.after:.4f} after; "
            f"of old ones: {self.old_before:.4f} before, {self.old_after:.4f} after."
        )


def updated(
    density: Density,
    schema: Schema,
    new: Any,
    old: Evidence | None,
    *,
    old_rows: float,
    new_weight: float,
    seed: int,
    **settings: Any,
) -> tuple[Density, UpdateResult]:
    """Return a density that has learned new rows, and what changed; the given one stays as it is.

    Args:
        density: the fitted density.
        schema: the schema of its columns.
        new: a table of new rows.
        old: rows fitted before; None for draws of the density in their place.
        old_rows: how many rows the old ones count as, all together.
        new_weight: the weight of each new row, where an old one has weight 1.
        seed: seed for draws, split and training.
        settings: of training; see `marginals.FitConfig`.
    """
    rows = encode(schema, new)
    if len(rows.evidence) == 0:
        raise ValueError("Expected new rows to learn from; got a table without rows.")
    kept = _old_evidence(density, schema, old, len(rows.evidence), seed)
    random = np.random.default_rng(seed)
    held_new, train_new = _split(len(rows.evidence), random)
    held_old, train_old = _split(len(kept), random)
    columns = range(len(schema))
    parts = rows.evidence.select(columns), kept.select(columns)
    each_old = old_rows / max(1, len(kept))
    model = copy.deepcopy(density)
    judge = _stacked(parts[0].rows(held_new), parts[1].rows(held_old))
    result = fit(
        model,
        _stacked(parts[0].rows(train_new), parts[1].rows(train_old)),
        sample_weight=_weights(len(train_new), new_weight, len(train_old), each_old),
        validation=judge,
        validation_weight=_weights(len(held_new), new_weight, len(held_old), each_old),
        seed=seed,
        **{"learning_rate": _LEARNING_RATE, "max_steps": _MOST_STEPS, **settings},
    )
    shift = float(rows.log_jacobian[held_new].mean())
    with torch.no_grad():
        scores = [
            float(each.log_value(part).double().mean())
            for part in (parts[0].rows(held_new), parts[1].rows(held_old))
            for each in (density, model)
        ]
    return model, UpdateResult(
        before=scores[0] + shift,
        after=scores[1] + shift,
        old_before=scores[2],
        old_after=scores[3],
        rows=len(parts[0]),
        result=result,
    )


def _old_evidence(
    density: Density, schema: Schema, old: Evidence | None, new_rows: int, seed: int
) -> Evidence:
    """Return some of the old rows, or draws in their place."""
    count = min(max(new_rows, _FEWEST_OLD), _MOST_OLD)
    if old is not None:
        order = np.random.default_rng(seed).permutation(len(old))[:count]
        return old.rows(torch.from_numpy(order))
    ((_, drawn),) = draws_of(density, count, seed)
    return encode(schema, decode(schema, drawn.lower)).evidence


def _split(count: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return the places of held-out rows and of the others; a single row is both."""
    order = torch.from_numpy(random.permutation(count))
    held = min(_MOST_HELD, int(np.ceil(_HELD_OUT * count)))
    return order[:held], order[held:] if count > 1 else order


def _weights(new: int, new_weight: float, old: int, old_weight: float) -> Tensor:
    return torch.cat([torch.full((new,), float(new_weight)), torch.full((old,), float(old_weight))])


def _stacked(first: Evidence, second: Evidence) -> Evidence:
    """Return the rows of both, which have the same columns."""
    lower = torch.cat([first.lower, second.lower])
    intervals = first.intervals | second.intervals
    upper = torch.cat([first.upper, second.upper]) if intervals else lower
    sets = {}
    for column in {*first.sets, *second.sets}:
        count = next(e.sets[column].shape[1] for e in (first, second) if column in e.sets)
        sets[column] = torch.cat([_mask(each, column, count) for each in (first, second)])
    return Evidence(first.columns, lower, upper, sets, intervals)


def _mask(evidence: Evidence, column: int, count: int) -> Tensor:
    """Return the allowed codes of each row, (B, C)."""
    allowed = evidence.sets.get(column, torch.ones(1, count, dtype=torch.bool))
    return allowed.expand(len(evidence), -1)
