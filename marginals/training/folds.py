"""Models of folds: each judges the rows that it has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from marginals.model.density import Density
from marginals.model.evidence import Evidence
from marginals.model.mixture import Mixture
from marginals.training.batches import make_rows
from marginals.training.ensemble import Job, fit_member, mixture_weights
from marginals.training.recipes import first_recipes
from marginals.training.result import FitError

# Members of less weight are left out.
_LEAST = 0.01


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
    models, scores = [], []
    for i, fold in enumerate(folds):
        rest = torch.cat([other for j, other in enumerate(folds) if j != i])
        train, judges = rows.take(rest), rows.take(fold)
        members = [fit_member(Job(recipe, train, judges), device) for recipe in recipes]
        if any(member is None for member in members):
            raise FitError(
                "Expected finite losses in every fold; got one that is not. Look for columns of "
                "extreme size."
            )
        models.append([member.model for member in members if member is not None])
        scores.append(torch.stack([m.scores for m in members if m is not None], -1))
    weights = mixture_weights(torch.cat(scores))
    kept = [i for i, w in enumerate(weights.tolist()) if w >= min(_LEAST, float(weights.max()))]
    shares = [float(weights[i]) for i in kept]
    return [_mixed([fitted[i] for i in kept], shares) for fitted in models]


def _mixed(models: Sequence[Density], shares: Sequence[float]) -> Density:
    return models[0] if len(models) == 1 else Mixture(models, shares)
