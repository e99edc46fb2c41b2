"""Models of folds: each judges the rows that it has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.selection.ensemble import Job, Member, fit_member, strong_weights
from marginals.selection.recipes import first_recipes
from marginals.training.batches import make_rows
from marginals.training.result import FitError


def fit_folds(
    data: Evidence,
    folds: Sequence[Tensor],
    *,
    coupled: int,
    options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> list[Density]:
    """Fit Gaussian mixtures by EM to all rows but those of each fold, and mix them.

    The weights of the sizes are the same in all folds: those that give all rows, each under models
    that have not seen it, the highest likelihood.

    Args:
        data: the rows.
        folds: the indices of the rows of each fold.
        coupled: the number of columns that can be coupled.
        options: of `marginals.build`, for all models.
        device: where to fit.
        seed: of the starts.
    """
    rows = make_rows(data, None, "data")
    least = len(rows) - max(map(len, folds))
    recipes = [
        replace(r, build={**r.build, **(options or {}), "seed": seed}, fit={**r.fit, "seed": seed})
        for r in first_recipes(least, coupled, "quick", gpu=False)
    ]
    fitted = []  # for each fold, a member of each recipe or None
    for i, fold in enumerate(folds):
        rest = torch.cat([other for j, other in enumerate(folds) if j != i])
        train, judges = rows.take(rest), rows.take(fold)
        fitted.append([fit_member(Job(recipe, train, judges), device) for recipe in recipes])
    # What is not finite in one fold has no weight in any.
    groups = [found for group in zip(*fitted, strict=True) if (found := _whole(group))]
    if not groups:
        raise FitError(
            "Expected at least one size of model with a finite loss in every fold; got none. Look "
            "for columns of extreme size."
        )
    scores = torch.stack([torch.cat([member.scores for member in group]) for group in groups], -1)
    kept, weights = strong_weights(scores)
    return [_mixed([groups[g][i].model for g in kept], weights.tolist()) for i in range(len(folds))]


def _whole(group: Sequence[Member | None]) -> list[Member]:
    """Return the members of all folds, or none of them if one is missing."""
    found = [member for member in group if member is not None]
    return found if len(found) == len(group) else []


def _mixed(models: Sequence[Density], shares: Sequence[float]) -> Density:
    return models[0] if len(models) == 1 else Mixture(models, shares)
