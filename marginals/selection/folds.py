"""Folds: every row is judged by models that were not fitted to it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.build import couplable
from marginals.densities.density import Density
from marginals.selection.ensemble import Job, Member, fit_member, mix, strong_weights
from marginals.selection.recipes import Recipe, first_recipes
from marginals.training.batches import Rows, make_rows
from marginals.training.result import FitError


def split_folds(count: int, folds: int, random: np.random.RandomState) -> list[Tensor]:
    """Split `count` rows at random into folds of nearly equal size; return their indices.

    >>> [fold.tolist() for fold in split_folds(5, 2, np.random.RandomState(0))]
    [[1, 2, 4], [0, 3]]
    """
    order = random.permutation(count)
    return [torch.from_numpy(np.sort(order[i::folds])) for i in range(folds)]


def fold_jobs(recipe: Recipe, rows: Rows, folds: Sequence[Tensor]) -> list[Job]:
    """Return one job per fold: train on the other folds and judge by this one."""
    jobs = []
    for i, fold in enumerate(folds):
        rest = torch.cat([other for j, other in enumerate(folds) if j != i])
        jobs.append(Job(recipe, rows.take(rest), rows.take(fold)))
    return jobs


def whole_groups(members: Sequence[Member | None], folds: int) -> list[list[Member]]:
    """Group members, listed recipe by recipe; drop recipes that failed in any fold."""
    groups = [members[i : i + folds] for i in range(0, len(members), folds)]
    found = [[member for member in group if member is not None] for group in groups]
    return [group for group in found if len(group) == folds]


def group_scores(groups: Sequence[Sequence[Member]]) -> Tensor:
    """Return the scores (V, groups) of all judging rows, fold after fold."""
    return torch.stack([torch.cat([member.scores for member in group]) for group in groups], -1)


def fit_folds(
    data: Evidence,
    folds: Sequence[Tensor],
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> list[Density]:
    """Fit Gaussian mixtures by EM to all rows except those of each fold, and mix them.

    All folds share the weights of the recipes: those with the highest likelihood of all rows,
    each under models that were not fitted to it.

    Args:
        data: The rows.
        folds: Row indices of each fold.
        options: The `categories`, `atoms` and `lattices` of `marginals.build`.
        seed: Seed for the starts.
    """
    options = {"categories": {}, "atoms": {}, **(options or {})}
    rows = make_rows(data, None, "data")
    least = len(rows) - max(map(len, folds))
    recipes = first_recipes(least, len(couplable(data, **options)), "quick", gpu=False)
    members = [
        fit_member(job, "cpu")
        for recipe in recipes
        for job in fold_jobs(recipe.building(**options).seeded(seed), rows, folds)
    ]
    groups = whole_groups(members, len(folds))
    if not groups:
        raise FitError(
            "Expected at least one size of model with a finite loss in every fold; got none. Look "
            "for columns of extreme size."
        )
    weights = strong_weights(group_scores(groups))
    return [
        mix([groups[g][i].model for g in weights], list(weights.values()))
        for i in range(len(folds))
    ]
