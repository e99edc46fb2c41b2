"""Several fits of the same rows as one model: a mixture with weights chosen by validation."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from marginals.model.build import build
from marginals.model.density import Density
from marginals.model.evidence import Evidence
from marginals.model.mixture import Mixture
from marginals.numerics import logsumexp
from marginals.training.fit import fit
from marginals.training.result import FitError, FitResult


@final
@dataclass(frozen=True)
class Recipe:
    """How one member is built and trained.

    Args:
        build: options of `marginals.build`.
        fit: settings of `marginals.fit`.
    """

    build: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Member:
    """A fitted member: the model, how its fit went, and its scores of the validation rows (V,)."""

    recipe: Recipe
    model: Density
    result: FitResult
    scores: Tensor


def fit_member(
    recipe: Recipe, data: Evidence, held: Evidence, weight: Tensor | None, device: str
) -> Member | None:
    """Fit one member; None if its loss did not stay finite."""
    model = build(data, **recipe.build).to(device)
    try:
        result = fit(
            model, data, validation=held, sample_weight=weight, **{"progress": False} | recipe.fit
        )
    except FitError:
        return None
    with torch.no_grad():
        scores = model.log_value(held).double().cpu()
    return Member(recipe, model, result, scores)


def fit_members(
    recipes: Sequence[Recipe],
    data: Evidence,
    held: Evidence,
    weight: Tensor | None = None,
    device: str = "cpu",
    at_once: int = 1,
) -> list[Member]:
    """Fit members, on a GPU several at a time, each on a stream of its own."""
    if not device.startswith("cuda") or at_once == 1:
        found = [fit_member(recipe, data, held, weight, device) for recipe in recipes]
        return [member for member in found if member is not None]

    rows, judges = data.to(device), held.to(device)
    warm_up(device)

    def work(recipe: Recipe) -> Member | None:
        stream = _stream_of_thread()
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            member = fit_member(recipe, rows, judges, weight, device)
        stream.synchronize()
        return member

    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(work, recipes))
    return [member for member in found if member is not None]


def warm_up(device: str) -> None:
    """Load what torch loads on first use, which two threads must not do at once."""
    eye = torch.eye(2, device=device)
    torch.linalg.solve_triangular(torch.linalg.cholesky(eye), eye, upper=False)


_LOCAL = threading.local()


def _stream_of_thread() -> torch.cuda.Stream:
    if not hasattr(_LOCAL, "stream"):
        _LOCAL.stream = torch.cuda.Stream()
    return _LOCAL.stream


def mixture_weights(scores: Tensor, weight: Tensor | None = None, steps: int = 300) -> Tensor:
    """Return the weights (members,) of a mixture by EM on scores (V, members) of held-out rows.

    >>> scores = torch.tensor([[0.0, -5.0], [0.0, -5.0], [-5.0, 0.0]])
    >>> mixture_weights(scores)
    tensor([0.6667, 0.3333])
    """
    share = torch.ones(len(scores)) if weight is None else weight
    share = (share / share.sum()).to(scores)
    log_weights = torch.full_like(scores[0], 1 / scores.shape[1]).log()
    for _ in range(steps):
        joint = scores + log_weights
        posterior = joint - logsumexp(joint)[:, None]
        log_weights = logsumexp(posterior + share.log()[:, None], dim=0)
    return log_weights.exp()


def blend(
    members: Sequence[Member], weight: Tensor | None = None, least: float = 0.01
) -> tuple[Density, list[Member], Tensor]:
    """Mix members by their scores; those with less than the share `least` are dropped.

    Returns the mixture (the member itself if one is left), the members kept and their weights.
    """
    kept = list(members)
    while True:
        scores = torch.stack([member.scores for member in kept], -1)
        weights = mixture_weights(scores, weight)
        strong = [member for member, w in zip(kept, weights, strict=True) if w >= least]
        if len(strong) == len(kept):
            break
        kept = strong
    if len(kept) == 1:
        return kept[0].model, kept, weights
    return Mixture([member.model for member in kept], weights.tolist()), kept, weights


def mean_score(members: Sequence[Member], weights: Tensor) -> float:
    """Return the mean score of the validation rows under a mixture."""
    scores = torch.stack([member.scores for member in members], -1)
    return float(logsumexp(scores + weights.log()).mean())
