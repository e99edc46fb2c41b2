"""Members of an ensemble: fits of the same rows, and their weights by validation."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, final

import torch
from torch import Tensor

from marginals.densities.build import build
from marginals.densities.density import Density
from marginals.numerics import logsumexp
from marginals.training.batches import Rows
from marginals.training.fit import fit
from marginals.training.result import FitError, FitResult

# Members with less weight are dropped.
_LEAST = 0.01


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
class Job:
    """A member to be fitted: to rows, judged by others, and from a model to go on with if any."""

    recipe: Recipe
    train: Rows
    judges: Rows
    model: Density | None = None


@final
@dataclass(frozen=True)
class Member:
    """A fitted member: the model, how its fit went, and its scores of the validation rows (V,)."""

    recipe: Recipe
    model: Density
    result: FitResult
    scores: Tensor


def fit_member(job: Job, device: str) -> Member | None:
    """Fit one member; None if its loss did not stay finite."""
    recipe, train, judges = job.recipe, job.train, job.judges
    model = job.model or build(train.evidence, sample_weight=train.weight, **recipe.build)
    model = model.to(device)
    if recipe.fit.get("max_steps") == 0:  # the start is all there is
        return _untrained(job, model)
    try:
        result = fit(
            model,
            train.evidence,
            sample_weight=train.weight,
            validation=judges.evidence,
            validation_weight=judges.weight,
            **{"progress": False} | recipe.fit,
        )
    except FitError:
        return None
    with torch.no_grad():
        scores = model.log_value(judges.evidence).double().cpu()
    return Member(recipe, model, result, scores)


@torch.no_grad()
def _untrained(job: Job, model: Density) -> Member | None:
    """Score a model that needs no training."""
    scores = model.log_value(job.judges.evidence).double().cpu()
    weight = job.judges.weight.double().cpu()
    loss = -float((scores * weight).sum() / weight.sum())
    if not math.isfinite(loss):
        return None
    return Member(job.recipe, model, FitResult((), 0, loss, "max_steps", 0.0, False), scores)


def fit_members(jobs: Sequence[Job], device: str, at_once: int = 1) -> Iterator[Member | None]:
    """Fit members one after the other, or on a GPU several at a time, each on its own stream."""
    if not device.startswith("cuda") or at_once == 1:
        yield from (fit_member(job, device) for job in jobs)
        return
    warm_up(device)
    streams: SimpleQueue[torch.cuda.Stream] = SimpleQueue()
    for _ in range(at_once):
        streams.put(torch.cuda.Stream())

    def work(job: Job) -> Member | None:
        stream = streams.get()
        try:
            stream.wait_stream(torch.cuda.default_stream())
            with torch.cuda.stream(stream):
                member = fit_member(job, device)
            stream.synchronize()
        finally:
            streams.put(stream)
        return member

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, jobs)


def warm_up(device: str) -> None:
    """Load what torch loads on first use, which two threads must not do at once."""
    eye = torch.eye(2, device=device)
    torch.linalg.solve_triangular(torch.linalg.cholesky(eye), eye, upper=False)


def mixture_weights(scores: Tensor, weight: Tensor | None = None, steps: int = 300) -> Tensor:
    """Return the weights (members,) of a mixture by EM on scores (V, members) of held-out rows.

    >>> scores = torch.tensor([[0.0, -50.0], [0.0, -50.0], [-50.0, 0.0]])
    >>> mixture_weights(scores)
    tensor([0.6667, 0.3333])
    """
    share = torch.ones(len(scores)) if weight is None else weight
    share = share.to(scores) / share.sum().to(scores)
    log_weights = torch.full_like(scores[0], 1 / scores.shape[1]).log()
    for _ in range(steps):
        joint = scores + log_weights
        posterior = joint - logsumexp(joint)[:, None]
        log_weights = logsumexp(posterior + share.log()[:, None], dim=0)
    return log_weights.exp()


def strong_weights(scores: Tensor, weight: Tensor | None = None) -> tuple[list[int], Tensor]:
    """Return the members that weigh something in a mixture, and their weights.

    Args:
        scores: of held-out rows, (V, members).
        weight: of the rows.

    >>> kept, weights = strong_weights(torch.tensor([[0.0, -1.0, -50.0], [-1.0, 0.0, -50.0]]))
    >>> kept, weights
    ([0, 1], tensor([0.5000, 0.5000]))
    """
    kept = list(range(scores.shape[1]))
    while True:
        weights = mixture_weights(scores[:, kept], weight)
        # Of very many members none may weigh so much: then the strongest is enough.
        least = min(_LEAST, float(weights.max()))
        strong = [member for member, w in zip(kept, weights.tolist(), strict=True) if w >= least]
        if len(strong) == len(kept):
            return kept, weights
        kept = strong
