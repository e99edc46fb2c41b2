"""Models of folds, of which some recipes may fail."""

import pytest
import torch

from marginals import Evidence
from marginals.selection.ensemble import Job, Member, fit_member
from marginals.selection.folds import fit_folds
from marginals.training import FitError

FOLDS = [torch.arange(0, 40), torch.arange(40, 80), torch.arange(80, 120)]


def rows() -> Evidence:
    x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    x[60:] += 5
    return Evidence.exact(x)


def failing(monkeypatch: pytest.MonkeyPatch, fails: set[int]) -> list[Job]:
    """Let these calls, by their number, give no finite loss; return all that come."""
    jobs: list[Job] = []

    def fit_or_fail(job: Job, device: str) -> Member | None:
        jobs.append(job)
        return None if len(jobs) - 1 in fails else fit_member(job, device)

    monkeypatch.setattr("marginals.selection.folds.fit_member", fit_or_fail)
    return jobs


def test_a_recipe_that_fails_in_one_fold_is_left_out_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = failing(monkeypatch, {1})
    models = fit_folds(rows(), FOLDS, coupled=2)
    recipes = len(jobs) // len(FOLDS)
    assert recipes > 1
    assert len(models) == len(FOLDS)
    wide = jobs[1].recipe.build["width"]
    for model, fold in zip(models, FOLDS, strict=True):
        widths = {m.size[1] for m in model.modules() if type(m).__name__ == "Couplings"}
        assert wide not in widths
        with torch.no_grad():
            assert bool(model.log_value(rows().rows(fold)).isfinite().all())


def test_without_any_recipe_the_fit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = failing(monkeypatch, set())
    fit_folds(rows(), FOLDS, coupled=2)
    recipes = len(jobs) // len(FOLDS)
    failing(monkeypatch, set(range(recipes)))
    with pytest.raises(FitError, match="at least one size of model with a finite loss in every"):
        fit_folds(rows(), FOLDS, coupled=2)
