"""Evaluations, the plateau schedule, and which weights are kept."""

import dataclasses
from pathlib import Path

import pytest
import torch

from marginals import FitConfig, FitResult, build, fit
from marginals.training import Record
from marginals.training.batches import make_rows
from marginals.training.fit import FitRun
from tests.training.helpers import after, loss_of, losses, parts, rows, same, small, weights

NEVER_GAINS = {"min_gain": 1e9, "evaluate_every": 2, "patience": 3, "batch_size": 20}


def lowest(result: FitResult) -> Record:
    return min(result.history, key=lambda record: record.validation_loss)


# History --------------------------------------------------------------------------------------


def test_history_has_a_record_per_evaluation() -> None:
    x = rows(100)
    result = fit(small(x), x, batch_size=30, max_steps=20, evaluate_every=6, learning_rate=0.02)
    steps = [record.step for record in result.history]
    assert steps == [0, 6, 12, 18, 20]
    assert [record.epoch for record in result.history] == [step / 3 for step in steps]
    assert {record.learning_rate for record in result.history} == {0.02}
    seconds = [record.seconds for record in result.history]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= seconds[-1] <= result.seconds
    assert (result.steps, result.stopped, result.resumed) == (20, "max_steps", False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.history[0].step = 3


def test_the_first_record_is_the_start_and_train_losses_are_those_of_the_steps() -> None:
    x, held = rows(50), rows(30, seed=1)
    model = small(x)
    start = loss_of(model, x), loss_of(model, held)
    result = fit(model, x, validation=held, batch_size=50, max_steps=3, evaluate_every=1)
    first, second = result.history[:2]
    assert (first.train_loss, first.validation_loss) == pytest.approx(start, rel=1e-12)
    # The loss of the first step is that of the weights before it.
    assert second.train_loss == pytest.approx(start[0], rel=1e-12)


def test_evaluations_come_once_per_epoch_within_bounds() -> None:
    for count, size, every in [(100, 50, 50), (6400, 100, 64), (5000, 10, 400)]:
        model = small(rows(count), width=1)
        train = make_rows(model.checked(rows(count)), None, "data")
        assert FitRun(model, train, None, FitConfig(batch_size=size)).every == every
    x = rows(100)
    result = fit(small(x), x, batch_size=50, validation_fraction=0.0, max_steps=51)
    assert [record.step for record in result.history] == [0, 50, 51]


def test_no_steps_leave_the_model_alone() -> None:
    x = rows(30)
    model = small(x)
    before = weights(model)
    result = fit(model, x, max_steps=0)
    assert (result.steps, result.best_step, len(result.history)) == (0, 0, 1)
    assert same(weights(model), before)


def test_the_clock_stops_a_fit() -> None:
    x = rows(30)
    result = fit(small(x), x, max_seconds=0.1)
    assert result.stopped == "max_seconds"
    assert result.seconds >= 0.1
    assert result.steps < 20_000
    assert fit(small(x), x, max_seconds=0).steps == 0


# Seeds ----------------------------------------------------------------------------------------


def test_the_seed_alone_determines_the_course() -> None:
    x = rows(100)
    settings = {"batch_size": 20, "max_steps": 15, "evaluate_every": 5, "noise": 0.05}
    first, again, other = (small(x) for _ in range(3))
    course = losses(fit(first, x, seed=4, **settings))
    torch.manual_seed(99)  # the global generator plays no part
    before = torch.get_rng_state()
    assert losses(fit(again, x, seed=4, **settings)) == course
    assert torch.equal(torch.get_rng_state(), before)
    assert same(weights(first), weights(again))
    different = losses(fit(other, x, seed=5, **settings))
    assert all(one != two for one, two in zip(course[1:], different[1:], strict=True))


# Plateau --------------------------------------------------------------------------------------


def test_a_plateau_cuts_the_rate_and_after_enough_cuts_ends_the_fit() -> None:
    x = rows(40)
    result = fit(small(x), x, max_cuts=2, factor=0.1, learning_rate=0.01, **NEVER_GAINS)
    assert result.stopped == "plateau"
    # The start, then three evaluations at each of three rates.
    assert result.steps == 2 * 3 * 3
    rates = [record.learning_rate for record in result.history]
    assert rates == pytest.approx([0.01] * 4 + [0.001] * 3 + [0.0001] * 3)


@pytest.mark.parametrize("averaging", [0.0, 0.5])
def test_a_cut_returns_to_the_best_weights(tmp_path: Path, averaging: float) -> None:
    # The rate is so high that every evaluation is worse than the start.
    settings = {**NEVER_GAINS, "learning_rate": 1.0, "min_gain": 0.0, "averaging": averaging}
    x = rows(40)
    path = tmp_path / "fit"
    after(5, path, x, **settings)
    assert same(parts(path, "best"), weights(small(x)))
    assert not same(parts(path, "model"), parts(path, "best"))
    after(6, path, x, **settings)
    assert same(parts(path, "model"), parts(path, "best"))
    assert same(parts(path, "average"), parts(path, "best")) == (averaging > 0)
    after(7, path, x, **settings)
    assert not same(parts(path, "model"), parts(path, "best"))


def test_gains_postpone_a_plateau_and_small_ones_are_kept_but_do_not_count() -> None:
    x = rows(400)
    settings = {"evaluate_every": 2, "patience": 3, "batch_size": 100, "validation_fraction": 0}
    result = fit(small(x, width=8), x, max_steps=30, **settings)
    assert result.stopped == "max_steps"
    assert {record.learning_rate for record in result.history} == {0.01}
    result = fit(small(x, width=8), x, max_cuts=0, min_gain=1e9, **settings)
    assert (result.stopped, result.steps) == ("plateau", 6)
    assert result.best_step == 6


def test_overfitting_stops_early_at_the_best_weights() -> None:
    x, held = rows(20), rows(200, seed=1)
    model = small(x, width=8)
    settings = {"learning_rate": 0.05, "evaluate_every": 5, "patience": 4, "max_cuts": 1}
    result = fit(model, x, validation=held, max_steps=5000, **settings)
    assert result.stopped == "plateau"
    assert result.best_step < result.steps < 2000
    assert result.history[-1].train_loss < lowest(result).train_loss
    assert loss_of(model, held) == pytest.approx(result.best_loss, rel=1e-12)


# Best weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("averaging", [0.0, 0.8])
@pytest.mark.parametrize("holding_out", [True, False])
@pytest.mark.parametrize("steps", [24, 25])  # the last evaluation on schedule, and off schedule
def test_the_model_ends_with_the_weights_of_the_best_loss(
    averaging: float, holding_out: bool, steps: int
) -> None:
    x = rows(60)
    held = rows(40, seed=1) if holding_out else x
    model = small(x)
    settings = {"batch_size": 10, "evaluate_every": 3, "learning_rate": 0.3}
    settings |= {"averaging": averaging, "max_steps": steps, "validation_fraction": 0.0}
    result = fit(model, x, validation=held if holding_out else None, **settings)
    assert result.best_loss == lowest(result).validation_loss
    assert result.best_step == lowest(result).step
    assert loss_of(model, held) == pytest.approx(result.best_loss, rel=1e-12)


def test_a_late_best_is_kept_too() -> None:
    x = rows(400)
    model = small(x, width=8)
    result = fit(model, x, validation_fraction=0, batch_size=400, max_steps=7, evaluate_every=4)
    assert result.best_step == 7
    assert loss_of(model, x) == pytest.approx(result.best_loss, rel=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 5.0, "max_steps": 6, "evaluate_every": 3},
        # The last step breaks the weights.
        {"learning_rate": 1e6, "clip_norm": None, "max_steps": 1, "evaluate_every": 1},
    ],
)
def test_a_worse_fit_leaves_the_start(settings: dict[str, object]) -> None:
    x = rows(60)
    model = small(x)
    before = weights(model)
    assert fit(model, x, validation_fraction=0.0, batch_size=60, **settings).best_step == 0
    assert same(weights(model), before)


def test_noisy_judges_have_the_noise_of_training() -> None:
    """Else a start that is sharper than the noise would be kept whatever the steps find."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(300, 1, generator=generator)
    x = torch.cat([z, z + 1e-3 * torch.randn(300, 1, generator=generator)], 1)
    model = build(x, tensor="copula", width=1, rank=1, init="em")
    settings = {"noise": 0.2, "max_steps": 60, "evaluate_every": 20, "learning_rate": 0.03}
    found = fit(model, x, validation_fraction=0.0, noisy_judges=True, **settings)
    assert found.best_step > 0
