"""Mixture weights maximise the likelihood of held-out rows; failed members are left out."""

import pytest
import torch
from torch.testing import assert_close

from marginals import Evidence
from marginals.selection import ensemble
from marginals.selection.ensemble import Job, fit_member, held_out_scores, mixture_weights
from marginals.selection.recipes import Recipe
from marginals.training.batches import Rows, make_rows
from tests.laws.registry import generic_copula


def test_weights_maximise_the_validation_likelihood() -> None:
    scores = torch.randn(200, 3) * 2
    weights = mixture_weights(scores, steps=2000)
    assert float(weights.sum()) == pytest.approx(1)
    best = (scores + weights.log()).logsumexp(-1).mean()
    for _ in range(50):
        other = (weights + 0.05 * torch.rand(3)).clamp_min(1e-9)
        other = other / other.sum()
        assert (scores + other.log()).logsumexp(-1).mean() <= best + 1e-6


def test_weights_count_rows_by_their_weight() -> None:
    scores = torch.tensor([[0.0, -50.0], [-50.0, 0.0]])
    assert_close(mixture_weights(scores, torch.tensor([3.0, 1.0])), torch.tensor([0.75, 0.25]))


def test_a_useless_member_gets_no_weight() -> None:
    good = torch.randn(100)
    weights = mixture_weights(torch.stack([good, good - 10], -1))
    assert float(weights[1]) < 1e-3


def test_a_member_that_fails_is_left_out() -> None:
    part = make_rows(Evidence.exact(torch.randn(50, 3)), None, "data")
    recipe = Recipe({"tensor": "cp", "width": 2}, {"max_steps": 30, "learning_rate": 1e30})
    assert fit_member(Job(recipe, part, part), "cpu") is None


def test_a_member_that_cannot_be_built_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that meets a singular matrix must not lose the work of the others."""

    def singular(*args: object, **options: object) -> None:
        torch.linalg.cholesky(-torch.eye(2))

    monkeypatch.setattr(ensemble, "build", singular)
    part = make_rows(Evidence.exact(torch.randn(50, 3)), None, "data")
    recipe = Recipe({"tensor": "cp", "width": 2}, {"max_steps": 3})
    assert fit_member(Job(recipe, part, part), "cpu") is None


def test_held_out_rows_are_scored_with_few_points_of_ranges() -> None:
    """The first value of a bounded lattice holds hundreds of points, which choose no member."""
    model = generic_copula([None, None], 2, 1, 0, step=0.3)
    ranges = Evidence.interval(torch.full((3, 2), -torch.inf), torch.tensor([[0.5, 0.2]] * 3))
    expected = model.log_value(ranges)
    before = model.lattices.most_points
    found = held_out_scores(model, Rows(ranges, torch.ones(3)))
    assert model.lattices.most_points == before
    assert_close(found, expected, rtol=0, atol=0.01)
    assert not torch.equal(found, expected)


@pytest.mark.parametrize("dependent", [True, False])
def test_components_are_split_if_held_out_rows_say_so(dependent: bool) -> None:
    x = torch.randn(600, 4, dtype=torch.float64)
    x[:, 2] = (x[:, 2] > 0).double()
    x[:, 3] = x[:, 2] if dependent else (x[:, 3] > 0).double()
    train, judges = (make_rows(Evidence.exact(part), None, "data") for part in x.split([450, 150]))
    options = {"tensor": "copula", "width": 1, "rank": 1, "init": "em", "categories": {2: 2, 3: 2}}
    recipe = Recipe(options, {"max_steps": 0, "seed": 0})
    member = fit_member(Job(recipe, train, judges), "cpu")
    assert member is not None
    assert_close(member.scores, held_out_scores(member.model, judges))
    both = Evidence.exact(torch.tensor([[1.0, 1.0]]).double(), [2, 3])
    with torch.no_grad():
        together = float(member.model.log_value(both).exp())
    assert together == pytest.approx(0.5 if dependent else 0.25, abs=0.06)
    if dependent:
        assert member.model.leaves.width == 4
    # No row is held out: nothing could say so.
    alone = fit_member(Job(recipe, train, train), "cpu")
    assert alone is not None
    assert alone.model.leaves.width == 1
