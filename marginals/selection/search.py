"""The default: fit several models of different families, and mix them by held-out score."""

import copy
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, final

import joblib
import numpy as np
import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.densities.em_start import flat_column, is_dependent, is_sharp
from marginals.numerics import logsumexp
from marginals.selection.answers import answer_penalties, comparable
from marginals.selection.coupling import copula_options, has_many_boxes
from marginals.selection.ensemble import (
    Job,
    Member,
    fit_members,
    mix,
    mixture_weights,
    strong_weights,
    weighted_mean,
)
from marginals.selection.folds import fold_jobs, group_scores, split_folds, whole_groups
from marginals.selection.nesting import NestedTable
from marginals.selection.processes import LEAST_SECONDS, Pool, fit_in_processes
from marginals.selection.recipes import (
    FEW_ROWS,
    MANY_ROWS,
    SECONDS,
    Effort,
    Recipe,
    answer_recipes,
    first_recipes,
    focused_recipes,
    node_recipes,
    sharp_recipes,
)
from marginals.training.batches import Rows, make_rows, split
from marginals.training.progress_bar import ProgressBar
from marginals.training.result import FitError, FitResult

# Small tables are cross-validated: one held-out part would say little.
_FOLDS = 5
# More validation rows would not change the choice.
_MOST_HELD = 20_000
# Fits on a GPU at a time.
_AT_ONCE = 4
# Share of the seconds for each round.
_ROUNDS = {"balanced": (0.35, 0.6), "best": (0.2, 0.35, 0.4)}
_ONE_ROUND = (0.95,)
# Seconds of a search from which on further processes pay.
_WORTH_PROCESSES = 6.0
# Seconds of a search from which on members placed by factors, which take some of them, pay.
_WORTH_NODES = 6.0
# Options of a member that `Found.members` lists.
_LISTED = ("tensor", "leaves", "width", "rank", "common", "factors", "tree", "init", "seed")


@final
@dataclass(frozen=True)
class Found:
    """The model that was chosen.

    Args:
        model: A mixture, or its only member.
        result: The fit of the member with the most weight, with the loss of the whole mixture and
            the seconds of the whole search.
        members: Options, weight (0 if dropped), score and cost of each model fitted.
    """

    model: Density
    result: FitResult
    members: tuple[dict[str, Any], ...] = ()


def search(
    data: Evidence,
    held: Evidence | None = None,
    *,
    weight: Tensor | None = None,
    effort: str = "fast",
    seconds: float | None = None,
    device: str = "cpu",
    options: Mapping[str, Any] | None = None,
    focus: Sequence[int] = (),
    aim: str = "joint",
    jobs: int | None = None,
    progress: bool | None = None,
    seed: int = 0,
    started: float | None = None,
    stream: Callable[[int], Rows] | None = None,
    size: int | None = None,
    pool: Pool | None = None,
) -> Found:
    """Fit models of several families, then more of those with the most weight, and mix them.

    Args:
        data: Rows to learn from.
        held: Rows to judge by. None holds out a random share of `data`, or splits a small table
            into five folds, each of which judges the models fitted to the others.
        weight: One weight per row of `data`.
        effort: How many models and seconds: "quick", "fast", "balanced" or "best".
        seconds: Time limit, instead of that of the effort.
        device: Where to fit.
        options: The `categories`, `atoms` and `lattices` of `marginals.build`.
        focus: Columns whose conditionals given the others count in training, and weigh members.
        aim: "joint" for one joint, or "answers" for models of equal weight to be averaged, where
            the table is not large and has columns to couple.
        jobs: Processes on a CPU; None means all cores, or one for few seconds.
        progress: Show a progress bar; None shows it only on a terminal.
        seed: Seed for split, starts and training.
        started: When the seconds began, by `time.monotonic`; now by default.
        stream: The rows of each step, if `data` are only a sample of them; needs `held`.
        size: The number of all rows, if `data` are a sample.
        pool: Where members are fitted; None for processes on this machine.
    """
    if effort not in SECONDS:
        raise ValueError(f"Expected `effort` to be one of {list(SECONDS)}; got {effort!r}.")
    if aim not in ("joint", "answers"):
        raise ValueError(f"Expected `aim` to be 'joint' or 'answers'; got {aim!r}.")
    effort, gpu = cast(Effort, effort), device.startswith("cuda")
    options = {"categories": {}, "atoms": {}, **(options or {})}
    limit = SECONDS[effort][gpu] if seconds is None else seconds
    limit -= 0.0 if started is None else time.monotonic() - started
    apart = {} if stream is not None else options["categories"]
    nested = NestedTable.of(data, apart, but=(*focus, *options.get("alone", ())))
    if nested.nestings:
        found = search(
            nested.apart(data),
            None if held is None else nested.apart(held),
            weight=weight,
            effort=effort,
            seconds=limit,
            device=device,
            options=nested.options(options),
            focus=[nested.kept()[c] for c in focus],
            aim=aim,
            jobs=jobs,
            progress=progress,
            seed=seed,
            size=size,
            pool=pool,
        )
        return replace(found, model=nested.joined(found.model, data, options))
    rows = make_rows(data, weight, "data")
    count = round(observed_rows(rows) * (size or len(rows)) / len(rows))
    alike, recipes = _recipes(data, count, effort, limit, options, gpu, focus, aim, seed)
    with ProgressBar(progress, limit) as bar:
        alone = jobs is None and limit < _WORTH_PROCESSES
        processes = 1 if alone else process_count(jobs, effort, device)
        run = Search(limit, device, processes, bar, stream, pool)
        if alike:
            return run.alike(
                rows, None if held is None else make_rows(held, None, "validation"), recipes
            )
        if held is not None:
            judges = make_rows(held, None, "validation")
            return run.in_rounds(rows, judges, recipes, effort, seed)
        if effort in ("balanced", "best") and 2 * _FOLDS <= len(rows) < FEW_ROWS:
            return run.in_folds(rows, recipes, seed)
        share = min(0.2 if len(rows) < FEW_ROWS else 0.1, _MOST_HELD / len(rows))
        train, part = split(rows, share, seed)
        judges = train if part is None else part
        if effort == "quick":
            return run.twice(train, judges, rows, recipes)
        return run.in_rounds(train, judges, recipes, effort, seed)


def _recipes(
    data: Evidence,
    rows: int,
    effort: Effort,
    seconds: float,
    options: Mapping[str, Any],
    gpu: bool,
    focus: Sequence[int],
    aim: str,
    seed: int,
) -> tuple[bool, list[Recipe]]:
    """Return the recipes for a table, and whether their models get equal weights.

    Args:
        data: The rows.
        rows: Number of complete rows with as many observed cells.
        effort, seconds, gpu: How many models there can be.
        options, focus, aim, seed: As for `search`.
    """
    copula = copula_options(data, options)
    coupled = copula["coupled"]
    mixed = bool(options["categories"])
    classes = set(focus) <= set(options["categories"])
    gaps = float(data.missing().double().mean())
    answers = answer_recipes(rows, len(coupled), effort, focus, classes, gaps)
    alike = answers if aim == "answers" else []
    numbers = data.select(coupled).midpoints()
    first = first_recipes(rows, len(coupled), effort, gpu, mixed, is_dependent(numbers))
    sharp = effort != "quick" and is_sharp(numbers)
    placed = mixed and effort != "quick" and seconds >= _WORTH_NODES
    placed = placed and not has_many_boxes(data, coupled)
    flat = placed and flat_column(numbers) is not None
    nodes = node_recipes(rows, len(coupled), sharp, flat) if placed else []
    if sharp and nodes and effort == "fast" and not focus:
        first = []  # steps of training blur such dependence, and seconds allow few of them
    # Large tables have a mixture of their own: smaller ones would only take its time.
    own = rows >= MANY_ROWS and any(r.build.get("init") == "em" for r in first)
    few = effort != "quick" and len(coupled) > 1 and rows < FEW_ROWS
    first = (
        nodes + (sharp_recipes(rows, len(coupled)) if (sharp or few) and not own else []) + first
    )
    recipes = [
        recipe.building(**(copula if recipe.build["tensor"] == "copula" else options)).seeded(
            seed + i
        )
        for i, recipe in enumerate(alike or first)
    ]
    if focus and not alike:
        recipes = focused_recipes(recipes, focus)
    return bool(alike), recipes


def observed_rows(rows: Rows) -> int:
    """Return how many complete rows would have as many observed cells as these.

    Models are as large as the observed cells allow: incomplete rows say less about how columns
    depend on each other, both in training and in validation.
    """
    observed = 1 - float(rows.evidence.missing().double().mean())
    return max(1, round(observed * len(rows)))


def process_count(jobs: int | None, effort: Effort, device: str) -> int:
    """Return the number of processes to use; reject what is not one."""
    if jobs is None and (effort == "quick" or device.startswith("cuda")):
        return 1
    try:
        return int(joblib.effective_n_jobs(-1 if jobs is None else jobs))
    except ValueError:
        raise ValueError(
            f"Expected `n_jobs` to be a number of processes, or -1 for all cores; got {jobs}."
        ) from None


class Search:
    """One run of `search`: its limits and where it works."""

    def __init__(
        self,
        seconds: float,
        device: str,
        jobs: int,
        bar: ProgressBar,
        stream: Callable[[int], Rows] | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.seconds, self.device, self.bar = seconds, device, bar
        self.stream, self.pool = stream, pool
        self.gpu = device.startswith("cuda") and pool is None
        self.at_once = _AT_ONCE if self.gpu else jobs if pool is None else pool.count
        self.scores: list[float | None] = []  # of the models fitted so far, None for failures
        self.planned = 0
        self.interrupted = False
        self.started = time.monotonic()

    def in_rounds(
        self, rows: Rows, judges: Rows, recipes: Sequence[Recipe], effort: Effort, seed: int
    ) -> Found:
        """Fit every recipe; then continue the models with the most weight, or fit variants."""
        # Many held-out rows say enough about the weights by their likelihood.
        answers = len(rows) < MANY_ROWS and self.stream is None and rows is not judges
        jobs = [Job(recipe, rows, judges, answers=answers) for recipe in recipes]
        members: list[Member] = []
        due = 0.0  # when the round should end
        for turn, share in enumerate(_ROUNDS.get(effort, _ONE_ROUND)):
            if turn:
                jobs = self._next_jobs(members, rows, judges, seed + 100 * turn)
                jobs = [replace(job, answers=answers) for job in jobs]
            planned = share * self.seconds
            due += planned
            # Fits do not count the time to compile on a GPU: a late round shortens the next.
            fitted = self.fit_all(jobs, max(planned / 2, min(planned, due - self._seconds())))
            for job, member in zip(jobs, fitted, strict=True):
                if member is not None:  # a continued model replaces its earlier state
                    members = [m for m in members if m.model is not job.model]
                    members.append(member)
            if self.interrupted or not members:
                break
        return self._found([[member] for member in members], judges.weight)

    def alike(self, rows: Rows, held: Rows | None, recipes: Sequence[Recipe]) -> Found:
        """Fit every recipe to all rows, and give all models the same weight."""
        judges = rows if held is None else held
        fitted = self.fit_all([Job(r, rows, judges) for r in recipes], 0.95 * self.seconds)
        return self._found([[m] for m in fitted if m is not None], judges.weight, even=True)

    def twice(self, rows: Rows, judges: Rows, every: Rows, recipes: Sequence[Recipe]) -> Found:
        """Fit every recipe, then refit the members kept to all rows, including the judges."""
        fitted = self.fit_all([Job(recipe, rows, judges) for recipe in recipes], self.seconds / 2)
        members = [member for member in fitted if member is not None]
        found = self._found([[member] for member in members], judges.weight)
        if self.interrupted:
            return found
        weights = [line["weight"] for line in found.members]
        again = [
            Job(m.recipe, every, judges) for m, w in zip(members, weights, strict=True) if w > 0
        ]
        refitted = [m.model for m in self.fit_all(again, self.seconds / 2) if m is not None]
        if len(refitted) < len(again):
            return found
        model = mix(refitted, [w for w in weights if w > 0]).to(self.device)
        return replace(found, model=model, result=replace(found.result, seconds=self._seconds()))

    def in_folds(self, rows: Rows, recipes: Sequence[Recipe], seed: int) -> Found:
        """Fit every recipe to four fifths of the rows, five times, so that each row is judged."""
        folds = split_folds(len(rows), _FOLDS, np.random.RandomState(seed % (1 << 32)))
        jobs = [job for recipe in recipes for job in fold_jobs(recipe, rows, folds)]
        jobs = [replace(job, answers=True) for job in jobs]
        groups = whole_groups(self.fit_all(jobs, 0.9 * self.seconds), _FOLDS)
        if self.interrupted and not groups:
            raise KeyboardInterrupt
        return self._found(groups, rows.weight[torch.cat(folds)])

    def fit_all(self, jobs: Sequence[Job], seconds: float) -> list[Member | None]:
        """Fit all jobs within so many seconds, as many at a time as the machine allows."""
        turns = [jobs[place :: self.at_once] for place in range(self.at_once)]
        each = seconds / max(1.0, *(sum(job.share for job in turn) for turn in turns))
        ready = [
            replace(
                job,
                recipe=job.recipe.fitting(max_seconds=max(LEAST_SECONDS, job.share * each)),
                stream=copy.copy(self.stream),
            )
            for job in jobs
        ]
        found: list[Member | None] = []
        self.planned += len(ready)
        self._show_progress()
        try:
            for member in self._fitted(ready):
                found.append(member)
                self.scores.append(None if member is None else -member.result.best_loss)
                self._show_progress()
        except KeyboardInterrupt:
            # The models fitted so far make a mixture too; without any, the interrupt passes.
            if all(score is None for score in self.scores):
                raise
            self.interrupted = True
            warnings.warn(
                "The search was interrupted: the models fitted so far are mixed.", stacklevel=2
            )
        return found + [None] * (len(ready) - len(found))

    def _fitted(self, jobs: Sequence[Job]) -> Iterable[Member | None]:
        if self.pool is not None:
            return self.pool.fit(jobs, self.device)
        if self.gpu or self.at_once == 1 or len(jobs) == 1:
            return fit_members(jobs, self.device, self.at_once)
        return fit_in_processes(jobs, min(self.at_once, len(jobs)), self.device)

    def _next_jobs(
        self, members: Sequence[Member], rows: Rows, judges: Rows, seed: int
    ) -> list[Job]:
        """Continue members that ran out of time; fit variants of those that converged."""
        scores = group_scores([[member] for member in members])
        count = 2 * self.at_once if self.gpu else max(2, self.at_once)
        jobs, open_ = [], {i for i, m in enumerate(members) if m.result.stopped == "max_seconds"}
        for number, i in enumerate(by_weight(mixture_weights(scores, judges.weight), count)):
            recipe = members[i].recipe
            if i in open_:
                open_.remove(i)
                # The old seed would repeat the same batches and noise.
                jobs.append(Job(recipe.seeded(seed + number), rows, judges, members[i].model))
            else:
                jobs.append(Job(recipe.varied(seed + number), rows, judges))
        return jobs

    def _found(
        self, groups: Sequence[Sequence[Member]], weight: Tensor, even: bool = False
    ) -> Found:
        """Weight groups of members by their scores, drop the weak ones and mix the others.

        If weights are even, all groups are mixed.
        """
        if not groups:
            raise FitError(
                "Expected at least one model with a finite loss; got none. Look for columns of "
                "extreme size, and declare bounds with Continuous(lower=, upper=)."
            )
        scores = group_scores(groups)
        share = 1 / len(groups)
        weights = (
            dict.fromkeys(range(len(groups)), share)
            if even
            else strong_weights(scores, weight, _penalties(groups))
        )
        models = [member.model for g in weights for member in groups[g]]
        shares = [weights[g] / len(groups[g]) for g in weights for _ in groups[g]]
        log_weights = scores.new_tensor(list(weights.values())).log()
        value = logsumexp(scores[:, list(weights)] + log_weights)  # (V,)
        best = groups[max(weights, key=weights.__getitem__)][0].result
        loss = -weighted_mean(value, weight)
        lines = [
            _line(member, weights.get(g, 0.0) / len(group))
            for g, group in enumerate(groups)
            for member in group
        ]
        model = mix(models, shares).to(self.device)
        result = replace(best, best_loss=loss, seconds=self._seconds())
        return Found(model, result, tuple(lines))

    def _show_progress(self) -> None:
        done, scores = len(self.scores), [score for score in self.scores if score is not None]
        best = f", best {max(scores):.3f} nats" if scores else ""
        self.bar.update(done, self.planned, f"{done} of {self.planned} models{best}")

    def _seconds(self) -> float:
        return time.monotonic() - self.started


def _penalties(groups: Sequence[Sequence[Member]]) -> Tensor | None:
    """Return what the weight of each group costs for its answers; None without their scores."""
    found = [[m.answers for m in group if m.answers is not None] for group in groups]
    if not all(map(len, found)):
        return None
    return answer_penalties(comparable(found), groups[0][0].model.columns)


def _line(member: Member, weight: float) -> dict[str, Any]:
    leaves = getattr(member.model, "leaves", None)  # components may have been split
    width = {} if leaves is None else {"width": leaves.width}
    return {
        **{key: member.recipe.build[key] for key in _LISTED if key in member.recipe.build},
        **width,
        "noise": member.recipe.fit["noise"],
        **({"focus_weight": member.recipe.fit["focus_weight"]} if member.recipe.focus else {}),
        "weight": weight,
        "score": -member.result.best_loss,
        **({} if member.answers is None else {"answers": float(member.answers.mean())}),
        "steps": member.result.steps,
        "seconds": member.result.seconds,
    }


def by_weight(weights: Tensor, count: int) -> list[int]:
    """Return `count` members, each as often as its weight says, by largest remainder.

    >>> by_weight(torch.tensor([0.7, 0.3]), 3)
    [0, 0, 1]
    """
    wanted, chosen = weights * count, []
    for _ in range(count):
        chosen.append(int(wanted.argmax()))
        wanted[chosen[-1]] -= 1
    return chosen
