"""Members are weighed by how well they answer, not by likelihood alone."""

import math

import pytest
import torch

from marginals import build
from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.selection import answers
from marginals.selection.answers import answer_penalties, answer_scores, comparable
from marginals.selection.ensemble import mixture_weights, strong_weights
from marginals.training.batches import make_rows


def rows(count: int, seed: int) -> torch.Tensor:
    """Return a number, another one that follows it, and a category that says its sign."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(count, generator=generator, dtype=torch.float64)
    second = first + 0.2 * torch.randn(count, generator=generator, dtype=torch.float64)
    x = torch.stack([first, second, (first > 0).double()], 1)
    return torch.where(torch.rand(x.shape, generator=generator) < 0.1, torch.nan, x)


def model(x: torch.Tensor, rank: int) -> Density:
    return build(
        x, tensor="copula", width=3, rank=rank, categories={2: 2}, init="em", dtype=torch.float64
    )


def test_answers_that_use_the_other_cells_score_better() -> None:
    x, held = rows(500, 0), rows(300, 1)
    train, judges = (
        make_rows(Evidence.exact(x), None, ""),
        make_rows(Evidence.exact(held), None, ""),
    )
    good, poor = (answer_scores(model(x, rank), train, judges) for rank in (1, 0))
    assert good.shape == poor.shape == (200,)
    assert good.mean() < 0.75 * poor.mean()
    assert bool(((good >= 0) & (good <= 1)).all())
    torch.testing.assert_close(good, answer_scores(model(x, 1), train, judges))


def test_a_table_without_observed_cells_has_no_answers() -> None:
    x = rows(200, 0)
    train = make_rows(Evidence.exact(x), None, "")
    empty = make_rows(Evidence.exact(torch.full_like(x[:5], torch.nan)), None, "")
    assert len(answer_scores(model(x, 1), train, empty)) == 0


def test_chance_is_no_penalty() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(100, 2, generator=generator)
    assert answer_penalties(noise, 5).max() < 0.5
    doubled = answer_penalties(torch.stack([noise[:, 0], 2 * noise[:, 0]], 1), 5)
    assert doubled.tolist() == pytest.approx([0.0, 5 * math.log(2)], abs=0.3)


def test_weights_are_the_best_ones_under_penalties() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    penalties = torch.tensor([0.3, 0.0, 0.1], dtype=torch.float64)

    def value(weights: torch.Tensor) -> float:
        return float((scores + weights.log()).logsumexp(1).mean() - weights @ penalties)

    found = mixture_weights(scores, penalties=penalties)
    assert float(found.sum()) == pytest.approx(1)
    best = value(found)
    for _ in range(50):
        other = found + 0.01 * torch.randn(3, generator=generator, dtype=torch.float64)
        other = other.clamp_min(1e-6) / other.clamp_min(1e-6).sum()
        assert value(other) <= best + 1e-6
    torch.testing.assert_close(
        mixture_weights(scores, penalties=torch.zeros(3)), mixture_weights(scores)
    )


def test_a_member_with_poor_answers_is_dropped() -> None:
    scores = torch.tensor([[0.0, 0.1]]).repeat(100, 1)
    assert 1 in strong_weights(scores)
    assert set(strong_weights(scores, penalties=torch.tensor([0.0, 2.0]))) == {0}


def test_members_that_few_rows_do_not_tell_apart_are_mixed() -> None:
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(20, 1, generator=generator)
    noise = 0.5 * torch.randn(20, 2, generator=generator)
    scores = torch.cat([rows + noise, rows + noise[:, :1], rows - 5], 1)  # the third is the first
    weights = strong_weights(scores)
    assert set(weights) == {0, 1}
    assert min(weights.values()) > 0.25
    assert sum(weights.values()) == pytest.approx(1)
    many = scores.repeat(500, 1)
    many[:, 1] -= 0.1
    assert set(strong_weights(many - torch.tensor([0.0, 1.0, 0.0, 0.0]))) == {0}


def test_a_model_with_many_components_scores_the_first_cells() -> None:
    x = rows(400, 0)
    train = make_rows(Evidence.exact(x), None, "")
    judges = make_rows(Evidence.exact(rows(300, 1)), None, "")
    small = answer_scores(model(x, 1), train, judges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "_MOST_FLOATS", 1)
        few = answer_scores(model(x, 1), train, judges)
    assert len(few) == 50
    torch.testing.assert_close(few, small[:50])
    assert comparable([[small, few], [few, small]]).shape == (100, 2)
