"""The default: several models of different families, chosen and mixed by validation."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import joblib
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.mixture import Mixture
from marginals.numerics import logsumexp
from marginals.selection.ensemble import (
    Job,
    Member,
    Recipe,
    fit_member,
    fit_members,
    mixture_weights,
    strong_weights,
)
from marginals.selection.recipes import SECONDS, Effort, first_recipes, varied
from marginals.training.batches import Rows, make_rows, split
from marginals.training.fit_progress import SearchProgress
from marginals.training.result import FitError, FitResult

# Tables so small are cross-validated: one held-out part would say little.
_FEW_ROWS, _FOLDS = 2000, 5
# Validation rows beyond this tell no more.
_MOST_HELD = 20_000
# Fits on a GPU at a time.
_AT_ONCE = 4


@final
@dataclass(frozen=True)
class Found:
    """What a search found.

    Args:
        model: a mixture, or its only member.
        members: for each model fitted, its recipe, weight (0 if dropped), score and cost.
        score: the mean log value of validation rows under the mixture.
        best: the result of the member with the most weight.
        seconds: in all.
    """

    model: Density
    members: tuple[dict[str, Any], ...]
    score: float
    best: FitResult
    seconds: float


def search(
    data: Evidence,
    held: Evidence | None = None,
    *,
    weight: Tensor | None = None,
    effort: Effort = "fast",
    seconds: float | None = None,
    device: str = "cpu",
    coupled: int = 0,
    options: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    seed: int = 0,
) -> Found:
    """Fit models of several families, then more of those that weigh most, and mix them.

    Args:
        data: rows to learn from.
        held: rows to judge by; a random share of `data` if None. Small tables are then cut into
            five parts, each of which judges the models fitted to the others.
        weight: of the rows of `data`.
        effort: how many models and seconds.
        seconds: the most, instead of those of the effort.
        device: where to fit.
        coupled: the number of columns that copula components can couple.
        options: of `marginals.build`, for all models.
        jobs: processes on a CPU; None for all cores, or one for the effort "fast".
        progress: show a progress bar; None for only on a terminal.
        seed: of everything random.
    """
    gpu = device.startswith("cuda")
    limit = SECONDS[effort][gpu] if seconds is None else seconds
    rows = make_rows(data, weight, "data")
    recipes = first_recipes(_known_rows(rows), coupled, effort, gpu)
    recipes = [varied_seed(recipe, seed + i) for i, recipe in enumerate(recipes)]
    folded = (
        held is None and effort not in ("quick", "fast") and 2 * _FOLDS <= len(rows) < _FEW_ROWS
    )
    judges: Rows | None
    if folded:
        judges = rows
    elif held is None:
        every = rows
        share = min(0.2 if len(rows) < _FEW_ROWS else 0.1, _MOST_HELD / len(rows))
        rows, judges = split(rows, share, seed)
        judges = rows if judges is None else judges
    else:
        judges = make_rows(held, None, "validation")
    with SearchProgress(limit, progress) as bar:
        run = _Search(limit, device, options or {}, _jobs(jobs, effort, device), bar)
        if folded:
            return run.folded(rows, recipes, seed)
        if effort == "quick" and held is None:
            return run.twice(rows, judges, every, recipes)
        return run.in_rounds(rows, judges, recipes, effort, seed)


def _known_rows(rows: Rows) -> int:
    """Return how many complete rows would have as many cells as these have known ones.

    Models are as large as the cells allow: rows with gaps tell less of how columns go together, and
    validation rows with gaps show less of what is made up there.
    """
    known = 1 - float(rows.evidence.missing().double().mean())
    return max(1, round(known * len(rows)))


def varied_seed(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe with another seed."""
    return replace(recipe, build={**recipe.build, "seed": seed}, fit={**recipe.fit, "seed": seed})


class _Search:
    """One run of `search`: its limits and where it works."""

    def __init__(
        self,
        seconds: float,
        device: str,
        options: Mapping[str, Any],
        jobs: int,
        progress: SearchProgress,
    ) -> None:
        self.seconds, self.device, self.options, self.jobs = seconds, device, options, jobs
        self.progress = progress
        self.any_fitted = self.interrupted = False
        self.started = time.monotonic()

    def in_rounds(
        self, rows: Rows, judges: Rows, recipes: Sequence[Recipe], effort: Effort, seed: int
    ) -> Found:
        """Fit one of each; then go on with those that weigh most, or fit more like them."""
        turns = {"balanced": (0.35, 0.6), "best": (0.2, 0.35, 0.4)}
        shares = turns.get(effort, (0.95,))
        jobs = [Job(recipe, rows, judges) for recipe in recipes]
        members: list[Member] = []
        for turn, share in enumerate(shares):
            if turn:
                jobs = self._next_jobs(members, rows, judges, seed + 100 * turn)
            fitted = self._fit_all(jobs, share * self.seconds)
            for job, member in zip(jobs, fitted, strict=True):
                if member is not None:  # one that went on takes the place of what it was
                    members = [m for m in members if m.model is not job.model]
                    members.append(member)
            _check_any(members)
            if self.interrupted:
                break
        return self._mixed([[member] for member in members], _scores(members), judges.weight)

    def twice(self, rows: Rows, judges: Rows, every: Rows, recipes: Sequence[Recipe]) -> Found:
        """Fit one of each, and those that weigh something again, to the judges' rows too."""
        first = self._fit_all([Job(recipe, rows, judges) for recipe in recipes], self.seconds / 2)
        members = [member for member in first if member is not None]
        _check_any(members)
        found = self._mixed([[member] for member in members], _scores(members), judges.weight)
        if self.interrupted:
            return found
        weights = [line["weight"] for line in found.members]
        kept = [i for i, weight in enumerate(weights) if weight > 0]
        again = [Job(members[i].recipe, every, judges) for i in kept]
        second = self._fit_all(again, self.seconds / 2)
        pairs = [(m.model, weights[i]) for i, m in zip(kept, second, strict=True) if m is not None]
        if self.interrupted or len(pairs) < len(kept):
            return found
        models, shares = zip(*pairs, strict=True)
        model = models[0] if len(models) == 1 else Mixture(models, shares)
        return replace(found, model=model.to(self.device), seconds=self._seconds())

    def _next_jobs(
        self, members: Sequence[Member], rows: Rows, judges: Rows, seed: int
    ) -> list[Job]:
        """Go on with members that ran out of time; of those that did not, fit variants."""
        weights = mixture_weights(_scores(members), judges.weight)
        count = 2 * _AT_ONCE if self.device.startswith("cuda") else max(2, self.jobs)
        jobs, open_ = [], {i for i, m in enumerate(members) if m.result.stopped == "max_seconds"}
        for number, i in enumerate(_by_weight(weights, count)):
            member = members[i]
            if i in open_:
                open_.remove(i)
                # With another seed: the same batches and noise would come again.
                going = varied_seed(member.recipe, seed + number)
                jobs.append(Job(going, rows, judges, member.model))
            else:
                jobs.append(Job(varied(member.recipe, seed + number), rows, judges))
        return jobs

    def folded(self, rows: Rows, recipes: Sequence[Recipe], seed: int) -> Found:
        """Fit each recipe to four fifths of the rows, five times; each row is judged once."""
        generator = torch.Generator().manual_seed(seed)
        parts = torch.randperm(len(rows), generator=generator).chunk(_FOLDS)
        jobs = []
        for recipe in recipes:
            for i, part in enumerate(parts):
                rest = torch.cat([other for j, other in enumerate(parts) if j != i])
                jobs.append(Job(recipe, rows.take(rest), rows.take(part)))
        members = self._fit_all(jobs, 0.9 * self.seconds)
        groups, columns = [], []
        for i in range(len(recipes)):
            group = members[i * _FOLDS : (i + 1) * _FOLDS]
            if None not in group:
                groups.append([member for member in group if member is not None])
                columns.append(torch.cat([member.scores for member in groups[-1]]))
        if self.interrupted and not groups:
            raise KeyboardInterrupt
        _check_any(groups)
        order = torch.cat(list(parts))
        return self._mixed(groups, torch.stack(columns, -1), rows.weight[order])

    def _fit_all(self, jobs: Sequence[Job], seconds: float) -> list[Member | None]:
        """Fit all of them within so many seconds, as many at a time as the machine allows."""
        at_once = _AT_ONCE if self.device.startswith("cuda") else self.jobs
        trained = max(1, sum(job.recipe.fit["max_steps"] > 0 for job in jobs))
        rounds = -(-trained // min(at_once, trained))
        each = {"max_seconds": max(0.5, seconds / rounds)}
        ready = [
            replace(
                job,
                recipe=replace(
                    job.recipe,
                    build={**job.recipe.build, **self.options},
                    fit={**job.recipe.fit, **each},
                ),
            )
            for job in jobs
        ]
        found: list[Member | None] = []
        self.progress.planned(len(ready))
        try:
            for member in self._fitted(ready, at_once):
                found.append(member)
                self.progress.fitted(None if member is None else -member.result.best_loss)
        except KeyboardInterrupt:
            # What was fitted until now is a model too; without any, the interrupt goes through.
            if not self.any_fitted and not any(found):
                raise
            self.interrupted = True
            told = "The search was interrupted: the models that were fitted until then are mixed."
            warnings.warn(told, stacklevel=2)
        self.any_fitted = self.any_fitted or any(found)
        return found + [None] * (len(ready) - len(found))

    def _fitted(self, jobs: Sequence[Job], at_once: int) -> Iterable[Member | None]:
        if self.device.startswith("cuda") or self.jobs == 1 or len(jobs) == 1:
            return fit_members(jobs, self.device, at_once)
        parallel = joblib.Parallel(
            n_jobs=self.jobs, inner_max_num_threads=1, backend="loky", return_as="generator"
        )
        return parallel(joblib.delayed(fit_member)(job, self.device) for job in jobs)

    def _mixed(self, groups: list[list[Member]], scores: Tensor, weight: Tensor) -> Found:
        """Weigh groups of members by their scores (V, groups), and drop the weak ones."""
        kept, weights = strong_weights(scores, weight)
        share = dict(zip(kept, weights.tolist(), strict=True))
        models, shares = [], []
        for g in kept:
            models += [member.model for member in groups[g]]
            shares += [share[g] / len(groups[g])] * len(groups[g])
        model = models[0] if len(models) == 1 else Mixture(models, shares)
        value = logsumexp(scores[:, kept] + weights.log())
        rows = weight.double().cpu()
        best = groups[max(kept, key=share.__getitem__)][0].result
        lines = [
            _line(m, share.get(g, 0.0) / len(group))
            for g, group in enumerate(groups)
            for m in group
        ]
        return Found(
            model.to(self.device),
            tuple(lines),
            float((value * rows).sum() / rows.sum()),
            best,
            self._seconds(),
        )

    def _seconds(self) -> float:
        return time.monotonic() - self.started


def _line(member: Member, weight: float) -> dict[str, Any]:
    return {
        **{key: member.recipe.build[key] for key in _TOLD if key in member.recipe.build},
        "noise": member.recipe.fit["noise"],
        "weight": weight,
        "score": -member.result.best_loss,
        "steps": member.result.steps,
        "seconds": member.result.seconds,
    }


_TOLD = ("tensor", "leaves", "width", "rank", "common", "tree", "init", "seed")


def _scores(members: Sequence[Member]) -> Tensor:
    return torch.stack([member.scores for member in members], -1)


def _by_weight(weights: Tensor, count: int) -> list[int]:
    """Return members to go on with, each as often as its weight says, by the largest remainder."""
    wanted = weights * count
    chosen = []
    for _ in range(count):
        best = int(wanted.argmax())
        chosen.append(best)
        wanted[best] -= 1
    return chosen


def _check_any(found: Sequence[object]) -> None:
    if not found:
        raise FitError(
            "Expected at least one model with a finite loss; got none. Look for columns of extreme "
            "size, and declare bounds with Continuous(lower=, upper=)."
        )


def _jobs(asked: int | None, effort: Effort, device: str) -> int:
    if asked is None and (effort in ("quick", "fast") or device.startswith("cuda")):
        return 1
    try:
        return int(joblib.effective_n_jobs(-1 if asked is None else asked))
    except ValueError:
        raise ValueError(
            f"Expected `n_jobs` to be a number of processes, or -1 for all cores; got {asked}."
        ) from None
