"""Members of an ensemble: models fitted to the same rows and weighted by held-out scores."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from marginals.densities.build import build
from marginals.densities.coupled import CoupledDensity
from marginals.densities.coupled_lattices import CoupledLattices
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.densities.split_components import codes_of, split_components
from marginals.numerics import logsumexp
from marginals.runtime.threads import one_thread
from marginals.selection.answers import answer_scores
from marginals.selection.recipes import Recipe
from marginals.training.batches import Rows
from marginals.training.fit import fit
from marginals.training.result import FitError, FitResult

# Share of a member's seconds for its start by EM, if steps follow; and the least for these.
_START_SHARE, _LEAST_SECONDS = 0.6, 0.1
# Of members that take no steps: from which width on the start takes as long as steps do, and the
# shares of others.
_WIDE_START, _FACTOR_SHARE, _SMALL_SHARE = 100, 0.6, 0.1
# Points of a lattice that the range of a held-out row is summed over.
_MOST_POINTS = 16
# Copies of each component that differ in codes, with fewer and with more rows than these; the most
# components to split, rows from which on other members hold such dependence, and the most codes.
_COPIES, _FEW_ROWS, _MOST_SPLIT, _MANY_ROWS, _MOST_CODES = (4, 8), 1000, 24, 2000, 1000
# Members with less weight are dropped.
_LEAST = 0.01
# Held-out rows that the even weights of the members kept are worth: few rows say little about them.
_PRIOR_ROWS = 50
# Members whose scores differ by fewer nats a row are the same.
_SAME = 1e-3
# From below, Newton's method gains digits in every step.
_NEWTON_STEPS = 12


@final
@dataclass(frozen=True)
class Job:
    """A member to fit.

    Args:
        recipe: how to build and train it.
        train: training rows, or a sample of them if there is a stream.
        judges: held-out rows.
        model: a model to continue, if any.
        stream: the rows of each step, of a table larger than memory; see `marginals.fit`.
        answers: whether to score the member's answers about hidden cells of the held-out rows.
    """

    recipe: Recipe
    train: Rows
    judges: Rows
    model: Density | None = None
    stream: Callable[[int], Rows] | None = None
    answers: bool = False

    @property
    def trained(self) -> bool:
        """Whether the member takes steps; otherwise its start is the model."""
        return bool(self.recipe.fit.get("max_steps") != 0)

    @property
    def share(self) -> float:
        """The member's share of the time of one that takes steps."""
        if self.trained:
            return 1.0
        if self.recipe.build.get("init") == "factors":
            return _FACTOR_SHARE
        return 1.0 if self.recipe.build["width"] >= _WIDE_START else _SMALL_SHARE


@final
@dataclass(frozen=True)
class Member:
    """A fitted member: its model, the course of its fit, and scores of the judging rows.

    Args:
        recipe: How it was built and fitted.
        model: The model.
        result: The course of its fit.
        scores: Log values of the judging rows, (V,), or with F columns in focus their log
            conditionals given the others, row by row, (V F,).
        answers: Scores of hidden cells of judging rows, if they were asked for.
    """

    recipe: Recipe
    model: Density
    result: FitResult
    scores: Tensor
    answers: Tensor | None = None


def fit_member(job: Job, device: str) -> Member | None:
    """Fit one member; return None if its loss does not stay finite, or it cannot be built."""
    try:
        return _fit_member(job, device)
    except (FitError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        return None


def _fit_member(job: Job, device: str) -> Member | None:
    recipe, train, judges = job.recipe, job.train, job.judges
    begun, settings = time.monotonic(), dict(recipe.fit)
    alone = judges is train  # no row is held out
    limit = settings.get("max_seconds")
    if job.model is None:
        share = _START_SHARE if job.trained else 1.0
        seconds = None if limit is None else share * limit
        model: Density = build(
            train.evidence, sample_weight=train.weight, seconds=seconds, **recipe.build
        )
    else:
        model = job.model
    model = model.to(device)
    if limit is not None:
        settings["max_seconds"] = max(_LEAST_SECONDS, limit - (time.monotonic() - begun))
    if job.trained:
        held = {"validation": judges.evidence, "validation_weight": judges.weight}
        if alone:
            held = {"validation_fraction": 0.0, "noisy_judges": True}
        result = fit(
            model,
            train.evidence,
            sample_weight=train.weight,
            stream=job.stream,
            **{"progress": False, **held, **settings},
        )
    scores = held_out_scores(model, judges, recipe.focus)
    if not (alone or recipe.focus):
        model, scores, gain = _split(model, train, judges, scores, recipe.fit["seed"])
        if job.trained:
            result = replace(result, best_loss=result.best_loss - gain)
    if not job.trained:  # the start is the model
        loss = -weighted_mean(scores, judges.weight)
        if not math.isfinite(loss):
            return None
        result = FitResult((), 0, loss, "max_steps", time.monotonic() - begun)
    elif recipe.focus:  # the losses of other weights of the focus are not comparable
        result = replace(result, best_loss=-weighted_mean(scores, judges.weight))
    asked = job.answers and not (alone or recipe.focus)
    answers = answer_scores(model, train, judges) if asked else None
    return Member(recipe, model, result, scores, answers)


def _split(
    model: Density, train: Rows, judges: Rows, scores: Tensor, seed: int
) -> tuple[Density, Tensor, float]:
    """Split components of a small table if held-out rows say so: codes may depend on each other.

    Returns:
        The model, scores of the judging rows, and what was gained.
    """
    few = isinstance(model, CoupledDensity) and model.leaves.width <= _MOST_SPLIT
    if not few or len(train) >= _MANY_ROWS or not isinstance(model, CoupledDensity):
        return model, scores, 0.0
    codes = codes_of(model)
    if len(codes) < 2 or sum(model.categories[c] or 0 for c in codes) > _MOST_CODES:
        return model, scores, 0.0
    copies = _COPIES[len(train) >= _FEW_ROWS]
    found = split_components(model, train.evidence, copies, seed)
    ours = held_out_scores(found, judges)
    gain = weighted_mean(ours, judges.weight) - weighted_mean(scores, judges.weight)
    return (found, ours, gain) if gain > 0 else (model, scores, 0.0)


@torch.no_grad()
def held_out_scores(model: Density, judges: Rows, focus: Sequence[int] = ()) -> Tensor:
    """Return the log values of rows (V,), or the log conditionals of columns in focus (V F,).

    Ranges of many points of a lattice are taken as continuous, which changes no choice.
    """
    with _few_points(model):
        return _log_values(model, judges, focus)


def _log_values(model: Density, judges: Rows, focus: Sequence[int]) -> Tensor:
    joint = model.log_value(judges.evidence).double().cpu()
    if not focus:
        return joint
    others = [model.log_value(judges.evidence.without(c)).double().cpu() for c in focus]
    return (joint[:, None] - torch.stack(others, 1)).flatten()


@contextmanager
def _few_points(model: Density) -> Iterator[None]:
    """Sum over few points of ranges: the first value of a bounded lattice has hundreds."""
    parts = [part for part in model.modules() if isinstance(part, CoupledLattices)]
    before = [part.most_points for part in parts]
    for part in parts:
        part.most_points = _MOST_POINTS
    try:
        yield
    finally:
        for part, most in zip(parts, before, strict=True):
            part.most_points = most


def fit_members(jobs: Sequence[Job], device: str, at_once: int = 1) -> Iterator[Member | None]:
    """Fit members one after the other, or on a GPU several at a time, each on its own stream."""
    if not device.startswith("cuda") or at_once == 1:
        yield from (fit_member(job, device) for job in jobs)
        return
    warm_up(device)

    def start() -> None:  # a thread keeps its stream
        torch.cuda.set_stream(torch.cuda.Stream())

    def work(job: Job) -> Member | None:
        stream = torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.default_stream())
        member = fit_member(job, device)
        stream.synchronize()
        return member

    with ThreadPoolExecutor(at_once, initializer=start) as pool:
        yield from pool.map(work, jobs)


def warm_up(device: str) -> None:
    """Load what torch loads on first use, which two threads must not do at once."""
    eye = torch.eye(2, device=device)
    torch.linalg.solve_triangular(torch.linalg.cholesky(eye), eye, upper=False)


def mixture_weights(
    scores: Tensor,
    weight: Tensor | None = None,
    steps: int = 300,
    penalties: Tensor | None = None,
) -> Tensor:
    """Return mixture weights (members,) by EM on scores (V, members) of held-out rows.

    Args:
        scores: Log values of held-out rows.
        weight: One weight per row.
        steps: Steps of EM.
        penalties: What the weight of each member costs, in nats a row.

    >>> scores = torch.tensor([[0.0, -50.0], [0.0, -50.0], [-50.0, 0.0]])
    >>> mixture_weights(scores)
    tensor([0.6667, 0.3333])
    """
    share = torch.ones(len(scores)) if weight is None else by_score(weight, len(scores))
    share = share.to(scores) / share.sum().to(scores)
    log_weights = torch.full_like(scores[0], 1 / scores.shape[1]).log()
    with one_thread():  # several would wait for each other after every small operation
        for _ in range(steps):
            joint = scores + log_weights
            posterior = joint - logsumexp(joint)[:, None]
            log_weights = logsumexp(posterior + share.log()[:, None], dim=0)
            if penalties is not None:
                log_weights = _penalised(log_weights.exp(), penalties.to(log_weights)).log()
    return log_weights.exp()


def _penalised(shares: Tensor, penalties: Tensor) -> Tensor:
    """Return the weights w (M,) that maximise `sum(shares log w - penalties w)` and sum to one.

    They are shares / (t + penalties); Newton's method finds t from below, where the sum falls.
    """
    least = penalties.argmin()
    apart = penalties - penalties[least]
    t = shares[least].clamp_min(torch.finfo(shares.dtype).tiny)
    for _ in range(_NEWTON_STEPS):
        terms = shares / (t + apart)
        slope = (terms / (t + apart)).sum()
        t = t + (terms.sum() - 1) / slope
    found = shares / (t + apart)
    return found / found.sum()


def strong_weights(
    scores: Tensor, weight: Tensor | None = None, penalties: Tensor | None = None
) -> dict[int, float]:
    """Return the mixture weight of each member worth keeping.

    Args:
        scores: Log values of held-out rows, (V, members).
        weight: One weight per row.
        penalties: What the weight of each member costs, in nats a row.

    >>> weights = strong_weights(torch.tensor([[0.0, -1.0, -50.0], [-1.0, 0.0, -50.0]]))
    >>> {member: round(weight, 3) for member, weight in weights.items()}
    {0: 0.5, 1: 0.5}
    """
    costs = scores.new_zeros(scores.shape[1]) if penalties is None else penalties.to(scores)
    kept = _distinct(scores)
    level = _as_good(scores[:, kept] - costs[kept])
    even = {kept[i] for i in level}
    while True:
        own = None if penalties is None else costs[kept]
        weights = mixture_weights(scores[:, kept], weight, penalties=own).tolist()
        # Among very many members none may reach the limit: then the strongest is enough.
        least = min(_LEAST, max(weights))
        strong = {member: w for member, w in zip(kept, weights, strict=True) if w >= least}
        if len(strong) == len(kept):
            break
        kept = list(strong)
    even |= set(strong)
    share = _PRIOR_ROWS / (_PRIOR_ROWS + len(scores))
    return {m: (1 - share) * strong.get(m, 0.0) + share / len(even) for m in sorted(even)}


def _distinct(scores: Tensor) -> list[int]:
    """Return the members without those that score every row as an earlier one: EM often agrees."""
    kept: list[int] = []
    for member in range(scores.shape[1]):
        away = (scores[:, kept] - scores[:, member, None]).abs().mean(0)
        if not bool((away < _SAME).any()):
            kept.append(member)
    return kept


def _as_good(scores: Tensor) -> list[int]:
    """Return the members that few rows do not show to be worse than the best, by one deviation."""
    best = scores.mean(0).argmax()
    away = scores - scores[:, best, None]
    error = away.std(0, correction=0) / len(scores) ** 0.5
    return (away.mean(0) + error >= 0).nonzero()[:, 0].tolist()


def weighted_mean(scores: Tensor, weight: Tensor) -> float:
    """Return the mean of scores, weighted by row."""
    weight = by_score(weight.double().cpu(), len(scores))
    return float((scores * weight).sum() / weight.sum())


def by_score(weight: Tensor, scores: int) -> Tensor:
    """Return the weights of rows (V,) for their scores, of which each row has as many."""
    return weight.repeat_interleave(scores // len(weight))


def mix(models: Sequence[Density], weights: Sequence[float]) -> Density:
    """Return the mixture of models, or the only one."""
    return models[0] if len(models) == 1 else Mixture(models, weights)
