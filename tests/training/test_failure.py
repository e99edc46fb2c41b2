"""A loss that is not finite stops the fit, and the model keeps the last good weights."""

import sys
from pathlib import Path

import pytest
import torch

from marginals import Evidence, FitConfig, fit
from marginals.densities.density import Density
from marginals.training import FitError
from marginals.training.batches import make_rows
from marginals.training.fit import FitRun
from tests.training.helpers import (
    at_step,
    loss_of,
    mixed_rows,
    parts,
    rows,
    same,
    small,
    weights,
)

SETTINGS = {"batch_size": 20, "evaluate_every": 5}


def corrupt(model: Density, value: float) -> None:
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = value


@pytest.mark.parametrize(("averaging", "holding_out"), [(0.0, 0.2), (0.9, 0.0)])
def test_an_exploding_rate_leaves_the_start(averaging: float, holding_out: float) -> None:
    x = rows(60)
    model = small(x)
    before = weights(model)
    settings = {"learning_rate": 1e300, "clip_norm": None, "averaging": averaging, **SETTINGS}
    with pytest.raises(FitError, match=r"Expected a finite training loss; got .* at step 5"):
        fit(model, x, validation_fraction=holding_out, max_steps=50, **settings)
    assert same(weights(model), before)
    assert bool(model.log_value(x).isfinite().all())


@pytest.mark.parametrize(("step", "averaging"), [(10, 0.0), (12, 0.5), (14, 0.0)])
def test_a_corrupted_parameter_leaves_the_last_good_weights(step: int, averaging: float) -> None:
    x, held = rows(60), rows(40, seed=1)
    settings = {**SETTINGS, "averaging": averaging, "validation": held}
    good = small(x)
    result = fit(good, x, max_steps=10, **settings)
    assert result.best_step == 10
    model = small(x)
    at_step(model, step, lambda: corrupt(model, torch.nan))
    with pytest.raises(FitError, match=r"at step 15\. The model holds the weights of step 10"):
        fit(model, x, max_steps=100, **settings)
    assert same(weights(model), weights(good))
    assert loss_of(model, held) == pytest.approx(result.best_loss, rel=1e-12)


def test_a_broken_last_step_is_found_by_the_validation() -> None:
    x = rows(60)
    model = small(x)
    at_step(model, 4, lambda: next(model.parameters()).register_hook(lambda g: g * torch.nan))
    with pytest.raises(FitError, match="Expected a finite validation loss; got nan at step 5"):
        fit(model, x, max_steps=5, **SETTINGS)
    assert bool(model.log_value(x).isfinite().all())


def test_impossible_rows_are_found_before_training() -> None:
    x = mixed_rows(60)
    model = small(x, categories={2: 3})
    before = weights(model)
    lower, upper = x.clone(), x.clone()
    lower[3, 2], upper[3, 2] = 0.2, 0.8
    with pytest.raises(FitError, match=r"got inf at step 0.* rows the model finds impossible"):
        fit(model, Evidence.interval(lower, upper), max_steps=5, validation_fraction=0)
    with pytest.raises(FitError, match="finite validation loss; got inf at step 0"):
        fit(model, x, validation=Evidence.interval(lower, upper), max_steps=5)
    assert same(weights(model), before)


def test_the_checkpoint_of_a_failed_fit_still_holds_the_good_weights(tmp_path: Path) -> None:
    x = rows(60)
    model = small(x)
    at_step(model, 12, lambda: corrupt(model, torch.nan))
    settings = {**SETTINGS, "checkpoint": tmp_path / "fit", "checkpoint_seconds": 0}
    with pytest.raises(FitError):
        fit(model, x, max_steps=100, **settings)
    assert same(parts(tmp_path / "fit", "best"), weights(model))
    again = small(x)
    with pytest.raises(FitError, match="at step 15"):
        fit(again, x, max_steps=100, **settings)
    assert same(weights(again), weights(model))


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_in_a_step_leaves_the_best_weights(error: type[BaseException]) -> None:
    x, held = rows(60), rows(40, seed=1)
    model, good = small(x), small(x)

    def fail() -> None:
        raise error("no more")

    at_step(model, 12, fail)
    with pytest.raises(error, match="no more"):
        fit(model, x, validation=held, max_steps=100, **SETTINGS)
    fit(good, x, validation=held, max_steps=10, **SETTINGS)
    assert same(weights(model), weights(good))


def test_a_checkpoint_that_cannot_be_written_fails_at_once(tmp_path: Path) -> None:
    x = rows(60)
    model = small(x)
    before = weights(model)
    steps = []
    at_step(model, 0, lambda: steps.append(0))
    at_step(model, 1, lambda: steps.append(1))
    with pytest.raises(FileNotFoundError, match="in a folder that exists"):
        fit(model, x, checkpoint=tmp_path / "absent" / "fit", max_steps=100, **SETTINGS)
    assert steps == [0]
    assert same(weights(model), before)


def test_a_step_that_cannot_be_recorded_gives_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nand so on")

    # By its name, because the package's `fit` is the function.
    monkeypatch.setattr(sys.modules["marginals.training.fit"], "GraphedStep", refuse)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    x = rows(60)
    model, twin = small(x), small(x)
    train = make_rows(model.checked(x), None, "data")
    run, again = (FitRun(m, train, None, FitConfig(**SETTINGS)) for m in (model, twin))
    run.may_record = True
    with pytest.warns(RuntimeWarning, match=r"kernel by kernel.*: operation not permitted .*ing$"):
        run.step()
    run.step()  # is not recorded again
    again.step()
    again.step()
    assert same(weights(model), weights(twin))
