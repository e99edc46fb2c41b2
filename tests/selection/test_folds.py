"""Models fitted to folds, some of whose recipes may fail."""

import numpy as np
import pytest
import torch

from marginals import Evidence
from marginals.selection.ensemble import Job, Member, fit_member
from marginals.selection.folds import fit_folds, split_folds
from marginals.training import FitError

FOLDS = [torch.arange(0, 40), torch.arange(40, 80), torch.arange(80, 120)]


@pytest.mark.parametrize(("count", "folds"), [(10, 5), (11, 3), (7, 7)])
def test_folds_hold_each_row_once(count: int, folds: int) -> None:
    first, again, other = (split_folds(count, folds, np.random.RandomState(s)) for s in (0, 0, 1))
    assert torch.equal(torch.cat(first).sort().values, torch.arange(count))
    assert max(map(len, first)) - min(map(len, first)) <= 1
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(torch.cat(first), torch.cat(other))


def rows() -> Evidence:
    x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    x[60:] += 5
    return Evidence.exact(x)


def failing(monkeypatch: pytest.MonkeyPatch, width: int | None = None) -> list[Job]:
    """Let the first fit of a width, or of all if None, fail; return all jobs."""
    jobs: list[Job] = []

    def fit_or_fail(job: Job, device: str) -> Member | None:
        first = job.recipe not in [other.recipe for other in jobs]
        jobs.append(job)
        fails = first and width in (None, job.recipe.build["width"])
        return None if fails else fit_member(job, device)

    monkeypatch.setattr("marginals.selection.folds.fit_member", fit_or_fail)
    return jobs


def test_a_recipe_that_fails_in_one_fold_is_left_out_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = failing(monkeypatch, width=2)
    models = fit_folds(rows(), FOLDS)
    assert len({job.recipe.build["width"] for job in jobs}) > 1
    for model, fold in zip(models, FOLDS, strict=True):
        widths = {m.size[1] for m in model.modules() if type(m).__name__ == "Couplings"}
        assert widths
        assert 2 not in widths
        with torch.no_grad():
            assert bool(model.log_value(rows().rows(fold)).isfinite().all())


def test_without_any_recipe_the_fit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch)
    with pytest.raises(FitError, match="at least one size of model with a finite loss in every"):
        fit_folds(rows(), FOLDS)
