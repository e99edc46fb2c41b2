"""A stopped fit continues as if it had not been stopped, and only from its own checkpoint."""

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from marginals import NMDMA, Evidence, FileError, FitResult, Mixture, Tree, fit, save
from marginals.densities.density import Density
from marginals.io import container
from marginals.runtime.adamw import AdamW
from tests.training.helpers import boxes, losses, mixed_rows, rows, same, small, watch, weights

SETTINGS: dict[str, Any] = {"batch_size": 15, "evaluate_every": 4, "learning_rate": 0.02}
# Cuts at 12, 24 and 36 steps, unless there is a gain.
CUTTING = {"patience": 3, "min_gain": 1e9, "max_cuts": 5}
COURSES = {
    "plain": {},
    "cuts": CUTTING,
    "everything": {"averaging": 0.8, "noise": 0.05, "weight_decay": 0.1, **CUTTING},
    "nothing held out": {"validation_fraction": 0.0, "averaging": 0.5},
}
courses = pytest.mark.parametrize("course", COURSES)
Outcome = tuple[FitResult, Density]


def run(steps: int, path: Path | None = None, shift: float = 0.0, **settings: Any) -> Outcome:
    x = rows(80, 3)
    model = small(x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(shift)
    result = fit(model, boxes(x), max_steps=steps, checkpoint=path, **{**SETTINGS, **settings})
    return result, model


@cache
def whole(steps: int, course: str) -> Outcome:
    """A fit that was never stopped."""
    return run(steps, **COURSES[course])


def check_same(one: Outcome, other: Outcome) -> None:
    """Compare two fits in everything except the time they took."""
    (first, model), (second, twin) = one, other
    assert losses(first) == losses(second)
    assert (first.best_step, first.best_loss) == (second.best_step, second.best_loss)
    assert first.stopped == second.stopped
    assert same(weights(model), weights(twin))


# Continuing -----------------------------------------------------------------------------------


@courses
def test_a_fit_may_be_stopped_at_every_step(tmp_path: Path, course: str) -> None:
    expected = losses(whole(40, course)[0])
    for steps in [*range(30), 40]:
        # The checkpoint replaces whatever the model starts with.
        resumed = run(steps, tmp_path / "fit", shift=min(steps, 1.0), **COURSES[course])
        result = resumed[0]
        assert (result.stopped, result.resumed) == ("max_steps", steps > 0)
        # The evaluation off schedule at a stop leaves no trace.
        assert losses(result)[:-1] == expected[: len(result.history) - 1]
    check_same(resumed, whole(40, course))
    seconds = [record.seconds for record in result.history]
    assert seconds == sorted(seconds)
    if course == "cuts":
        rates = [record.learning_rate for record in result.history]
        assert rates == [0.02] * 4 + [0.01] * 3 + [0.005] * 3 + [0.0025]


@pytest.mark.parametrize("steps", [20, 22])
def test_a_finished_fit_returns_at_once(
    tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(steps, tmp_path / "fit", averaging=0.5)
    monkeypatch.setattr(AdamW, "step", None)
    check_same(run(steps, tmp_path / "fit", averaging=0.5), done)
    # Nor is there anything to do for fewer steps than were done.
    assert run(7, tmp_path / "fit", averaging=0.5)[0].steps == steps


def test_a_plateau_ends_a_fit_for_good_but_a_limit_may_be_raised(tmp_path: Path) -> None:
    settings = {**CUTTING, "max_cuts": 1}
    done = run(1000, tmp_path / "plateau", **settings)
    assert (done[0].stopped, done[0].steps) == ("plateau", 24)
    check_same(run(2000, tmp_path / "plateau", **settings), done)
    first, _ = run(40, tmp_path / "clock", max_seconds=0)
    assert (first.stopped, first.steps) == ("max_seconds", 0)
    check_same(run(40, tmp_path / "clock"), whole(40, "plain"))


# Interrupts -----------------------------------------------------------------------------------


def interrupt_at(count: int, when: Callable[[], bool] = lambda: True) -> Callable[..., None]:
    """Return a function that interrupts when it is called under a condition so many times."""
    calls = itertools.count(1)

    def check(*_: Any) -> None:
        if when() and next(calls) == count:
            raise KeyboardInterrupt

    return check


def in_forward(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(model, interrupt_at(15, torch.is_grad_enabled))


def in_evaluation(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(model, interrupt_at(5, lambda: not torch.is_grad_enabled()))


def after_the_optimiser(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights have moved, but the number of steps has not."""
    check, step = interrupt_at(15), AdamW.step
    monkeypatch.setattr(AdamW, "step", lambda self, scale: (step(self, scale), check()))


def in_writing(model: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    check, write = interrupt_at(5), container.write
    monkeypatch.setattr(container, "write", lambda *args, **kinds: (check(), write(*args, **kinds)))


# Each moment, the step of the last evaluation before it, the seconds between checkpoints, and the
# course: each moment in that of everything, each course at one moment.
MOMENTS = [
    *((in_forward, 12, 1e9, course) for course in COURSES),
    (in_forward, 12, 0.0, "everything"),
    *((in_evaluation, 8, seconds, "everything") for seconds in (0.0, 1e9)),
    *((after_the_optimiser, 12, seconds, "everything") for seconds in (0.0, 1e9)),
    (in_writing, 4, 0.0, "everything"),
]


@pytest.mark.parametrize(
    ("moment", "evaluated", "seconds", "course"),
    MOMENTS,
    ids=[f"{moment.__name__}-{seconds:g}-{course}" for moment, _, seconds, course in MOMENTS],
)
def test_an_interrupt_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: Callable[[Density, pytest.MonkeyPatch], None],
    evaluated: int,
    seconds: float,
    course: str,
) -> None:
    path, x = tmp_path / "fit", rows(80, 3)
    model = small(x)
    settings = {**SETTINGS, **COURSES[course], "checkpoint": path, "checkpoint_seconds": seconds}
    with monkeypatch.context() as patch:
        moment(model, patch)
        with pytest.raises(KeyboardInterrupt):
            fit(model, boxes(x), max_steps=40, **settings)
    assert same(weights(model), weights(whole(evaluated, course)[1]))
    if (moment, seconds) == (in_forward, 1e9):  # between steps: nothing is lost
        assert container.read(path, "checkpoint")[1]["counters"]["step"] == 14
    resumed = run(40, path, **COURSES[course])
    assert resumed[0].resumed
    check_same(resumed, whole(40, course))


# Rejected checkpoints -------------------------------------------------------------------------


def kept(path: Path, data: Any, model: Density | None = None, **settings: Any) -> Path:
    """Leave the checkpoint of a small fit."""
    fit(model or small(data), data, max_steps=5, checkpoint=path, **{**SETTINGS, **settings})
    return path


def rejected(path: Path, model: Density, data: Any, message: str, **settings: Any) -> None:
    """Check that a fit does not resume from the checkpoint, and changes nothing."""
    before, file = weights(model), path.read_bytes()
    with pytest.raises(ValueError, match=message):
        fit(model, data, max_steps=9, checkpoint=path, **{**SETTINGS, **settings})
    assert same(weights(model), before)
    assert path.read_bytes() == file


def test_other_data_are_rejected(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    message = "checkpoint '.*fit' .* got one with other data"
    changed = [
        x[:-1],
        x + 1e-12,
        x.flip(0),
        x.flip(1),
        torch.where(torch.arange(80)[:, None] == 7, torch.nan, x),
        Evidence.interval(x - 1e-9, x),
        Evidence.exact(x, [1, 0]),
    ]
    for data in changed:
        rejected(path, small(x), data, message)
    weight = torch.ones(80).index_fill(0, torch.tensor([3, 5, 8, 13]), 0.5)
    rejected(path, small(x), x, message, sample_weight=weight)


def test_other_sets_and_validation_rows_are_rejected(tmp_path: Path) -> None:
    x = mixed_rows(80)
    x[:, 2] = torch.nan
    allowed = torch.ones(80, 3, dtype=torch.bool)
    fewer = allowed.index_fill(1, torch.tensor([1]), False)
    evidence, other = (Evidence((0, 1, 2), x, x, {2: sets}) for sets in (allowed, fewer))
    model, held = small(x, categories={2: 3}), x[:20]
    path = kept(tmp_path / "fit", evidence, model, validation=held)
    rejected(path, model, other, "got one with other data.", validation=held)
    message = "got one with other validation."
    rejected(path, model, evidence, message, validation=x[20:40])
    weight = torch.arange(20)
    rejected(path, model, evidence, message, validation=held, validation_weight=weight)


def test_other_settings_are_rejected_and_named(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    message = r"other settings \(learning_rate 0.02, now 0.03, noise 0.0, now 0.1\)\. Use another"
    rejected(path, small(x), x, message, learning_rate=0.03, noise=0.1)
    message = r"other data and validation and settings \(seed 0, now 2\) and model\. Use another"
    rejected(path, small(x, width=2), x + 1, message, seed=2)
    changed = {"batch_size": 16, "weight_decay": 0.1, "clip_norm": None, "evaluate_every": None}
    changed |= {"patience": 4, "factor": 0.6, "max_cuts": 7, "min_gain": 1e-3, "averaging": 0.5}
    for name, setting in changed.items():
        rejected(path, small(x), x, rf"settings \({name} ", **{name: setting})
    free = {"max_seconds": 100.0, "checkpoint_seconds": 0.0, "progress": False}
    assert fit(small(x), x, max_steps=9, checkpoint=str(path), **free, **SETTINGS).resumed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: small(x), lambda x: small(x, width=4)),
        (lambda x: small(x), lambda x: small(x, tensor="cp")),
        (lambda x: small(x), lambda x: small(x, hidden=2)),
        (lambda x: small(x), lambda x: small(x).float()),
        # The same parameters with another meaning.
        (lambda x: small(x, tree=Tree(((0, 1), 2))), lambda x: small(x, tree=Tree(((0, 2), 1)))),
        (lambda x: NMDMA(small(x)), lambda x: NMDMA(small(x), order=(2, 1, 0))),
        (lambda x: small(x), lambda x: small(x * 2)),
        (lambda x: Mixture([small(x)]), lambda x: Mixture([small(x, init="paper")])),
    ],
    ids=["width", "tensor", "hidden", "dtype", "tree", "order", "scale", "parametrisation"],
)
def test_another_model_is_rejected(
    tmp_path: Path, one: Callable[[Tensor], Density], other: Callable[[Tensor], Density]
) -> None:
    x = rows(80, 3)
    rejected(kept(tmp_path / "fit", x, one(x)), other(x), x, "got one with other model")


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


def test_a_damaged_checkpoint_is_rejected(tmp_path: Path) -> None:
    x = rows(80)
    path = kept(tmp_path / "fit", x)
    data = path.read_bytes()
    damaged = [
        data[:-1],
        data[: len(data) // 2],
        b"",
        data[:200] + bytes([data[200] ^ 1]) + data[201:],
        data[:-9] + bytes([data[-9] ^ 128]) + data[-8:],
        b"something else",
    ]
    for content in damaged:
        path.write_bytes(content)
        rejected(path, small(x), x, "Expected `path` to be a marginals checkpoint")
    save(small(x), path)
    with pytest.raises(FileError, match=r"checkpoint; got .* a marginals model"):
        fit(small(x), x, checkpoint=path)
