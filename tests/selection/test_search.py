"""The default: members of several families, weighted by validation, as one model."""

import math
from dataclasses import replace
from typing import Any

import joblib
import pytest
import torch

from marginals import Evidence, Mixture
from marginals.selection.ensemble import Job, fit_member
from marginals.selection.recipes import Recipe, answer_recipes
from marginals.selection.search import (
    Found,
    Search,
    by_weight,
    observed_rows,
    process_count,
    search,
)
from marginals.training.batches import make_rows
from marginals.training.progress_bar import ProgressBar


def rows(count: int = 300) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=generator)
    x[:, 1] = x[:, 0] + 0.3 * x[:, 1]
    x[count // 2 :, 2] += 4
    return x


def check_whole(found: Found, x: torch.Tensor) -> None:
    weights = [line["weight"] for line in found.members]
    assert sum(weights) == pytest.approx(1)
    assert all(w == 0 or w > 0.001 for w in weights)
    assert math.isfinite(found.result.best_loss)
    with torch.no_grad():
        assert bool(found.model.logpdf(x).isfinite().all())


def test_a_search_of_seconds_finds_one_model() -> None:
    x = rows()
    check_whole(search(Evidence.exact(x), effort="fast", seconds=1.5), x)


@pytest.mark.parametrize("focus", [(), (1,)])
def test_models_for_answers_have_equal_weights(
    focus: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def brief(*arguments: Any) -> list[Recipe]:
        return [recipe.fitting(max_steps=3) for recipe in answer_recipes(*arguments)]

    monkeypatch.setattr("marginals.selection.search.answer_recipes", brief)
    x = rows()
    found = search(Evidence.exact(x), focus=focus, aim="answers", jobs=1)
    check_whole(found, x)
    assert len({line["weight"] for line in found.members}) == 1
    assert len({line["seed"] for line in found.members}) == len(found.members)
    held = search(Evidence.exact(x), Evidence.exact(x[:50]), aim="answers", jobs=1)
    assert len({line["weight"] for line in held.members}) == 1
    with pytest.raises(ValueError, match="`aim` to be 'joint' or 'answers'"):
        search(Evidence.exact(x), aim="best")


@pytest.mark.usefixtures("few_steps")
def test_given_validation_rows_judge() -> None:
    x = rows()
    held = Evidence.exact(rows(60).flip(0))
    found = search(Evidence.exact(x), held, effort="fast", jobs=1)
    with torch.no_grad():
        score = float(found.model.log_value(held).mean())
    assert -found.result.best_loss == pytest.approx(score, abs=1e-3)


@pytest.mark.usefixtures("few_steps")
def test_rounds_in_processes_continue_with_the_most_weight() -> None:
    x = rows(2500)
    found = search(Evidence.exact(x), effort="balanced", seconds=20.0, jobs=2)
    check_whole(found, x)
    # Two of the four were continued or varied, with other seeds than those of the first round.
    assert max(line["seed"] for line in found.members) >= 100


def test_models_that_ran_out_of_time_are_continued() -> None:
    x = rows(2500)
    found = search(Evidence.exact(x), effort="balanced", seconds=1.0, jobs=1)
    # A continued model, with another seed, replaces its earlier state.
    seeds = {line["seed"] for line in found.members}
    assert max(seeds) >= 100
    assert not {0, 1, 2, 3} <= seeds


@pytest.mark.usefixtures("few_steps")
def test_small_tables_are_judged_by_every_row() -> None:
    x = rows(60)
    found = search(Evidence.exact(x), effort="balanced", jobs=1)
    check_whole(found, x)
    assert isinstance(found.model, Mixture)
    assert len(found.members) % 5 == 0


@pytest.mark.usefixtures("few_steps")
def test_columns_of_every_kind() -> None:
    x = rows(120)
    x[:, 2] = (x[:, 2] > 2).double()
    x[::4, 0] = 0.0
    x[::7, 1] = torch.nan
    options = {"categories": {2: 2}, "atoms": {0: (0.0,)}}
    found = search(Evidence.exact(x), effort="fast", options=options, jobs=1)
    assert found.model.categories == (None, None, 2)
    assert found.model.atoms == {0: (0.0,)}


def test_models_are_as_large_as_the_observed_cells_allow() -> None:
    x = torch.randn(100, 4)
    x[:, 1:3] = torch.nan
    assert observed_rows(make_rows(Evidence.exact(x), None, "data")) == 50
    lower, upper = torch.full((8, 2), -torch.inf), torch.zeros(8, 2)
    upper[:, 0] = torch.inf  # no constraint
    assert observed_rows(make_rows(Evidence.interval(lower, upper), None, "data")) == 4


@pytest.mark.usefixtures("few_steps")
def test_a_search_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    search(Evidence.exact(rows(80)), effort="fast", progress=True, jobs=1)
    shown = capsys.readouterr().err
    assert "7 of 7 models" in shown
    assert "nats" in shown
    search(Evidence.exact(rows(80)), effort="fast", jobs=1)
    assert capsys.readouterr().err == ""


def interrupt_after(monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    calls: list[Job] = []

    def fit_or_stop(job: Job, device: str) -> object:
        calls.append(job)
        if len(calls) > done:
            raise KeyboardInterrupt
        return fit_member(job, device)

    monkeypatch.setattr("marginals.selection.ensemble.fit_member", fit_or_stop)


@pytest.mark.usefixtures("few_steps")
def test_an_interrupt_keeps_the_models_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Evidence.exact(rows(80))
    interrupt_after(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        search(data, effort="fast", jobs=1)
    interrupt_after(monkeypatch, 1)
    with pytest.warns(UserWarning, match="interrupted"):
        found = search(data, effort="fast", jobs=1)
    assert len(found.members) == 1


@pytest.mark.usefixtures("few_steps")
def test_an_interrupt_before_any_fold_is_done_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted"):
        search(Evidence.exact(rows(60)), effort="balanced", jobs=1)


@pytest.mark.parametrize(("jobs", "each"), [(1, 4.5), (2, 9.0), (7, 18.0)])
def test_models_fitted_at_once_share_the_seconds(
    jobs: int, each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four models: one after the other, in two rounds of two, and all at once."""
    given: list[float] = []

    def fitted(self: object, ready: list[Job]) -> list[Any]:
        given.extend(job.recipe.fit["max_seconds"] for job in ready)
        return [fit_member(replace(j, recipe=j.recipe.fitting(max_steps=2)), "cpu") for j in ready]

    monkeypatch.setattr(Search, "_fitted", fitted)
    with ProgressBar(False) as bar:
        part = make_rows(Evidence.exact(rows(60)), None, "data")
        recipe = Recipe({"tensor": "cp", "width": 2}, {"max_steps": 9, "noise": 0.0})
        members = Search(20.0, "cpu", jobs, bar).fit_all([Job(recipe, part, part)] * 4, 18.0)
    assert None not in members
    assert given == [each] * 4


def test_a_late_round_shortens_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling on a fresh GPU is outside the clock of a fit, not outside that of the search."""
    given: list[float] = []
    monkeypatch.setattr(Search, "_seconds", lambda self: 60.0 * bool(given))

    def fit_all(self: Search, jobs: list[Job], seconds: float) -> list[Any]:
        given.append(seconds)
        short = [replace(job, recipe=job.recipe.fitting(max_steps=2)) for job in jobs]
        return [fit_member(job, "cpu") for job in short]

    monkeypatch.setattr(Search, "fit_all", fit_all)
    part = make_rows(Evidence.exact(rows(60)), None, "data")
    recipe = Recipe({"tensor": "cp", "width": 2}, {"max_steps": 9, "noise": 0.0})
    with ProgressBar(False) as bar:
        Search(120.0, "cpu", 1, bar).in_rounds(part, part, [recipe], "best", 0)
    assert given == pytest.approx([24.0, 21.0, 48.0])  # the second of 42 began after 60


def test_members_are_chosen_by_weight() -> None:
    assert by_weight(torch.tensor([0.7, 0.3]), 3) == [0, 0, 1]
    assert by_weight(torch.tensor([1.0, 0.0]), 2) == [0, 0]


def test_all_cores_mean_as_many_processes() -> None:
    assert process_count(-1, "fast", "cpu") == joblib.effective_n_jobs(-1)
    assert process_count(None, "balanced", "cpu") == joblib.effective_n_jobs(-1)
    assert process_count(None, "quick", "cpu") == process_count(None, "best", "cuda") == 1
    with pytest.raises(ValueError, match="`n_jobs`"):
        search(Evidence.exact(rows(60)), effort="fast", jobs=0)
    with pytest.raises(ValueError, match="`effort` to be one of"):
        search(Evidence.exact(rows(60)), effort="most")
