"""A fit that was stopped goes on as if it had not been, and only where it belongs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from marginals import NMDMA, Evidence, FileError, FitResult, Mixture, Tree, fit, save
from marginals.densities.density import Density
from marginals.io import container
from tests.training.helpers import (
    boxes,
    losses,
    mixed_rows,
    rows,
    same,
    small,
    weights,
)

SETTINGS: dict[str, Any] = {"batch_size": 15, "evaluate_every": 4, "learning_rate": 0.02}
# Cuts at 12, 24 and 36 steps, unless there is a gain.
CUTTING = {"patience": 3, "min_gain": 1e9, "max_cuts": 5}
COURSES = {
    "plain": {},
    "averaging and noise": {"averaging": 0.9, "noise": 0.1},
    "cuts": CUTTING,
    "everything": {"averaging": 0.8, "noise": 0.05, "weight_decay": 0.1, **CUTTING},
    "nothing held out": {"validation_fraction": 0.0, "averaging": 0.5},
}
courses = pytest.mark.parametrize("course", COURSES.values(), ids=COURSES)


def run(steps: int, path: Path | None = None, **settings: Any) -> tuple[FitResult, Density]:
    x = rows(80, 3)
    model = small(x)
    result = fit(model, boxes(x), max_steps=steps, checkpoint=path, **{**SETTINGS, **settings})
    return result, model


def check_same(one: tuple[FitResult, Density], other: tuple[FitResult, Density]) -> None:
    """Compare two fits in all but the time they took."""
    (first, model), (second, twin) = one, other
    assert losses(first) == losses(second)
    assert first.best_step == second.best_step
    assert first.best_loss == second.best_loss
    assert first.stopped == second.stopped
    assert same(weights(model), weights(twin))


# Going on -------------------------------------------------------------------------------------


@courses
@pytest.mark.parametrize("stop", [1, 4, 12, 13, 29])
def test_a_stopped_fit_goes_on_as_if_it_had_not_been(
    tmp_path: Path, course: dict[str, Any], stop: int
) -> None:
    path = tmp_path / "fit"
    first, _ = run(stop, path, **course)
    assert first.stopped == "max_steps"
    assert not first.resumed
    resumed = run(40, path, **course)
    assert resumed[0].resumed
    check_same(resumed, run(40, **course))
    # A record out of turn is of no consequence.
    assert losses(first)[:-1] == losses(resumed[0])[: len(first.history) - 1]


@courses
def test_a_fit_may_be_stopped_at_every_step(tmp_path: Path, course: dict[str, Any]) -> None:
    for steps in range(30):
        resumed = run(steps, tmp_path / "fit", **course)
    check_same(resumed, run(29, **course))


def test_cuts_happen_on_both_sides_of_a_stop(tmp_path: Path) -> None:
    run(13, tmp_path / "fit", **CUTTING)
    result, _ = run(40, tmp_path / "fit", **CUTTING)
    rates = [record.learning_rate for record in result.history]
    assert rates == [0.02] * 4 + [0.01] * 3 + [0.005] * 3 + [0.0025]


def test_a_checkpoint_does_not_change_the_course(tmp_path: Path) -> None:
    check_same(run(20, tmp_path / "fit", checkpoint_seconds=0), run(20))


def test_the_start_of_a_resumed_model_does_not_matter(tmp_path: Path) -> None:
    x = rows(80)
    settings = {**SETTINGS, "checkpoint": tmp_path / "fit"}
    fit(small(x), x, max_steps=6, **settings)
    other = small(x)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    resumed = fit(other, x, max_steps=20, **settings)
    assert losses(resumed) == losses(fit(small(x), x, max_steps=20, **SETTINGS))


def test_seconds_add_up_over_the_parts(tmp_path: Path) -> None:
    first, _ = run(20, tmp_path / "fit")
    second, _ = run(21, tmp_path / "fit")
    assert second.seconds > first.history[-1].seconds
    seconds = [record.seconds for record in second.history]
    assert seconds == sorted(seconds)


# The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [20, 22])
def test_a_finished_fit_returns_at_once(
    tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(steps, tmp_path / "fit", averaging=0.5)
    monkeypatch.setattr(torch.optim.AdamW, "step", None)
    check_same(run(steps, tmp_path / "fit", averaging=0.5), done)
    # Fewer steps than were done are nothing to do either.
    assert run(7, tmp_path / "fit", averaging=0.5)[0].steps == steps


def test_a_fit_ended_by_a_plateau_stays_ended(tmp_path: Path) -> None:
    settings = {**CUTTING, "max_cuts": 1}
    done = run(1000, tmp_path / "fit", **settings)
    assert (done[0].stopped, done[0].steps) == ("plateau", 24)
    check_same(run(2000, tmp_path / "fit", **settings), done)


def test_a_fit_stopped_by_the_clock_goes_on_when_given_more(tmp_path: Path) -> None:
    first, _ = run(30, tmp_path / "fit", max_seconds=0)
    assert (first.stopped, first.steps) == ("max_seconds", 0)
    check_same(run(30, tmp_path / "fit"), run(30))


# Interrupts -----------------------------------------------------------------------------------


def interrupt_when(condition: Callable[[], bool], after: int) -> Callable[[], None]:
    """Raise at the time that the condition holds for the `after`-th time."""
    count = 0

    def check() -> None:
        nonlocal count
        if condition():
            count += 1
            if count == after:
                raise KeyboardInterrupt

    return check


def in_forward(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    wrap(model, monkeypatch, interrupt_when(torch.is_grad_enabled, 15))


def in_evaluation(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    wrap(model, monkeypatch, interrupt_when(lambda: not torch.is_grad_enabled(), 5))


def wrap(model: Density, monkeypatch: pytest.MonkeyPatch, check: Callable[[], None]) -> None:
    contract = model.contract

    def checked(evidence: Evidence) -> Tensor:
        check()
        return contract(evidence)

    monkeypatch.setattr(model, "contract", checked)


def after_the_optimiser(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights have moved, the count of steps has not."""
    check = interrupt_when(lambda: True, 15)
    step = torch.optim.AdamW.step

    def checked(self: torch.optim.AdamW) -> None:
        step(self)
        check()

    monkeypatch.setattr(torch.optim.AdamW, "step", checked)


def in_writing(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    check = interrupt_when(lambda: True, 5)
    write = container.write

    def checked(*arguments: Any, **options: Any) -> None:
        check()
        write(*arguments, **options)

    monkeypatch.setattr(container, "write", checked)


# Each moment, the step of the last evaluation before it, and the seconds between checkpoints.
MOMENTS = [
    (in_forward, 12, 0.0),
    (in_forward, 12, 1e9),
    (in_evaluation, 8, 0.0),
    (in_evaluation, 8, 1e9),
    (after_the_optimiser, 12, 0.0),
    (after_the_optimiser, 12, 1e9),
    (in_writing, 4, 0.0),
]


@pytest.mark.parametrize(
    ("moment", "evaluated", "seconds"),
    MOMENTS,
    ids=[f"{moment.__name__}-{seconds:g}" for moment, _, seconds in MOMENTS],
)
@courses
def test_an_interrupt_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: Callable[[Density, pytest.MonkeyPatch], None],
    evaluated: int,
    seconds: float,
    course: dict[str, Any],
) -> None:
    path = tmp_path / "fit"
    x = rows(80, 3)
    model = small(x)
    settings = {**SETTINGS, **course, "checkpoint": path, "checkpoint_seconds": seconds}
    with monkeypatch.context() as patch:
        moment(model, patch)
        with pytest.raises(KeyboardInterrupt):
            fit(model, boxes(x), max_steps=40, **settings)
    assert same(weights(model), weights(run(evaluated, **course)[1]))
    assert bool(model.log_value(boxes(x)).isfinite().all())
    resumed = run(40, path, **course)
    assert resumed[0].resumed
    check_same(resumed, run(40, **course))


def test_an_interrupt_between_steps_is_checkpointed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fit"
    x = rows(80)
    model = small(x)
    in_forward(model, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fit(model, x, max_steps=40, checkpoint=path, checkpoint_seconds=1e9, **SETTINGS)
    _, header = container.read(path, "checkpoint")
    assert header["counters"]["step"] == 14


def test_an_interrupt_without_a_checkpoint_leaves_the_best_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, held = rows(80), rows(40, seed=1)
    model, good = small(x), small(x)
    in_forward(model, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fit(model, x, validation=held, max_steps=40, **SETTINGS)
    fit(good, x, validation=held, max_steps=12, **SETTINGS)
    assert same(weights(model), weights(good))


# Refusals -------------------------------------------------------------------------------------


def refused(path: Path, model: Density, data: Any, message: str, **settings: Any) -> None:
    """Check that a fit does not go on from the checkpoint, and changes nothing."""
    before, file = weights(model), path.read_bytes()
    with pytest.raises(ValueError, match=message):
        fit(model, data, max_steps=9, checkpoint=path, **{**SETTINGS, **settings})
    assert same(weights(model), before)
    assert path.read_bytes() == file


def kept(path: Path, data: Any, **settings: Any) -> Path:
    """Leave a checkpoint of a small fit."""
    x = data if isinstance(data, Tensor) else data.midpoints()
    fit(small(x), data, max_steps=5, checkpoint=path, **{**SETTINGS, **settings})
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:-1],
        lambda x: x + 1e-12,
        lambda x: x.flip(0),
        lambda x: x.flip(1),
        lambda x: torch.where(torch.arange(80)[:, None] == 7, torch.nan, x),
        lambda x: Evidence.interval(x - 1e-9, x),
        lambda x: Evidence.exact(x, [1, 0]),
    ],
    ids=["fewer", "moved", "rows reversed", "columns swapped", "missing", "interval", "renamed"],
)
def test_other_data_are_refused(tmp_path: Path, change: Callable[[Tensor], Any]) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    refused(path, small(x), change(x), "checkpoint '.*fit' .* got one with other data")


def test_other_weights_are_refused(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    weight = torch.ones(80).index_fill(0, torch.tensor([3, 5, 8, 13]), 0.5)
    refused(path, small(x), x, "other data", sample_weight=weight)


def test_other_sets_are_refused(tmp_path: Path) -> None:
    x = mixed_rows(80)
    x[:, 2] = torch.nan
    allowed = torch.ones(80, 3, dtype=torch.bool)
    model = small(x, categories={2: 3})
    evidence = Evidence((0, 1, 2), x, x, {2: allowed})
    fit(model, evidence, max_steps=5, checkpoint=tmp_path / "fit", **SETTINGS)
    other = Evidence((0, 1, 2), x, x, {2: allowed.index_fill(1, torch.tensor([1]), False)})
    refused(tmp_path / "fit", model, other, "other data")


def test_other_validation_rows_are_refused(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x, validation=x[:20])
    refused(path, small(x), x, "got one with other validation.", validation=x[20:40])
    weight = torch.arange(20)
    held = {"validation": x[:20], "validation_weight": weight}
    refused(path, small(x), x, "got one with other validation.", **held)


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    message = r"other settings \(learning_rate 0.02, now 0.03, noise 0.0, now 0.1\)\. Use another"
    refused(path, small(x), x, message, learning_rate=0.03, noise=0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 16),
        ("weight_decay", 0.1),
        ("clip_norm", None),
        ("evaluate_every", None),
        ("patience", 4),
        ("factor", 0.6),
        ("max_cuts", 7),
        ("min_gain", 1e-3),
        ("averaging", 0.5),
    ],
)
def test_every_setting_of_the_course_counts(tmp_path: Path, name: str, value: Any) -> None:
    x = rows(80)
    refused(kept(tmp_path / "fit", x), small(x), x, rf"settings \({name} ", **{name: value})


def test_another_seed_is_refused(tmp_path: Path) -> None:
    x = rows(80)
    refused(kept(tmp_path / "fit", x), small(x), x, r"settings \(seed 0, now 1\)", seed=1)


def test_settings_beside_the_course_may_change(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    free = {"max_seconds": 100.0, "checkpoint_seconds": 0.0, "progress": False}
    assert fit(small(x), x, max_steps=9, checkpoint=str(path), **free, **SETTINGS).resumed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: small(x), lambda x: small(x, width=4)),
        (lambda x: small(x), lambda x: small(x, tensor="cp")),
        (lambda x: small(x), lambda x: small(x, hidden=2)),
        (lambda x: small(x), lambda x: small(x).float()),
        # The same parameters, of another meaning.
        (lambda x: small(x, tree=Tree(((0, 1), 2))), lambda x: small(x, tree=Tree(((0, 2), 1)))),
        (lambda x: NMDMA(small(x)), lambda x: NMDMA(small(x), order=(2, 1, 0))),
        (lambda x: small(x), lambda x: small(x * 2)),
        (lambda x: Mixture([small(x)]), lambda x: Mixture([small(x, init="paper")])),
    ],
    ids=["width", "tensor", "hidden", "dtype", "tree", "order", "scale", "parametrisation"],
)
def test_another_model_is_refused(
    tmp_path: Path, one: Callable[[Tensor], Density], other: Callable[[Tensor], Density]
) -> None:
    x = rows(80, 3)
    fit(one(x), x, max_steps=5, checkpoint=tmp_path / "fit", **SETTINGS)
    refused(tmp_path / "fit", other(x), x, "got one with other model")


def test_all_that_changed_is_named(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    message = r"other data and validation and settings \(seed 0, now 2\) and model\. Use another"
    refused(path, small(x, width=2), x + 1, message, seed=2)


def test_the_number_of_threads_does_not_matter(tmp_path: Path) -> None:
    x = rows(20_000, 4)
    model = small(x, width=1, hidden=1)
    settings = {**SETTINGS, "checkpoint": tmp_path / "fit"}
    fit(model, x, max_steps=1, **settings)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert fit(model, x, max_steps=2, **settings).resumed
    finally:
        torch.set_num_threads(threads)


# Damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: data[:-9] + bytes([data[-9] ^ 128]) + data[-8:],
        lambda data: b"something else",
    ],
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    path.write_bytes(damage(path.read_bytes()))
    model = small(x)
    before = weights(model)
    with pytest.raises(FileError, match="Expected `path` to be a marginals checkpoint"):
        fit(model, x, max_steps=9, checkpoint=path, **SETTINGS)
    assert same(weights(model), before)


def test_a_model_is_no_checkpoint(tmp_path: Path) -> None:
    x = rows(80)
    save(small(x), tmp_path / "fit")
    with pytest.raises(FileError, match=r"checkpoint; got .* a marginals model"):
        fit(small(x), x, checkpoint=tmp_path / "fit")
