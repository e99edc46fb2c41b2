"""Maximum likelihood by AdamW, with validation, plateau schedule, best weights and checkpoints."""

import dataclasses
import time
from typing import Any

import torch
from torch import Tensor

from marginals.model.density import Density
from marginals.model.evidence import Evidence
from marginals.training.batches import (
    Rows,
    batch_at,
    make_rows,
    noise_scale,
    split,
    with_noise,
)
from marginals.training.config import FitConfig
from marginals.training.progress import FitProgress
from marginals.training.result import FitError, FitResult, Record
from marginals.training.state import (
    copy_weights,
    fingerprint,
    load_checkpoint,
    load_weights,
    new_state,
    save_checkpoint,
)


def fit(
    model: Density,
    data: Evidence | Tensor,
    *,
    validation: Evidence | Tensor | None = None,
    sample_weight: Tensor | None = None,
    validation_weight: Tensor | None = None,
    config: FitConfig | None = None,
    **settings: Any,
) -> FitResult:
    """Train a model by maximum likelihood and leave the best weights in it.

    Cells may be exact, intervals or missing, in any pattern. The data are moved to the model's
    device once and batched there.

    Args:
        model: any density; it is changed in place.
        data: rows, (N, D) with NaN for missing cells, or evidence.
        validation: rows to judge by; a random share of `data` if None.
        sample_weight: a weight for each row of `data`.
        validation_weight: a weight for each row of `validation`.
        config: the settings; see `FitConfig`.
        settings: single settings, which take precedence over `config`.

    >>> from marginals.model.build import build
    >>> x = torch.randn(200, 2)
    >>> result = fit(build(x, width=4), x, max_steps=20)
    >>> result.stopped
    'max_steps'
    """
    config = dataclasses.replace(config or FitConfig(), **_known(settings))
    train = make_rows(model.checked(data), sample_weight, "data")
    held: Rows | None = None
    if validation is not None:
        held = make_rows(model.checked(validation), validation_weight, "validation")
    else:
        train, held = split(train, config.validation_fraction, config.seed)
    return _Fit(model, train, held, config).run()


class _Fit:
    """One run of `fit`: its data, settings and state."""

    def __init__(self, model: Density, train: Rows, held: Rows | None, config: FitConfig) -> None:
        self.model, self.train, self.held, self.config = model, train, held, config
        per_epoch = max(1, len(train) // config.batch_size)
        self.per_epoch = per_epoch
        self.every = config.evaluate_every or min(400, max(50, per_epoch))
        self.noise = noise_scale(train.evidence, model.categories, config.noise)
        self.mean_weight = train.weight.mean()
        self.state = new_state(model, config)
        self.orders: dict[int, Tensor] = {}
        self.identity = {
            "data": fingerprint(train.evidence, train.weight),
            "settings": config.numbers(),
            "model": {name: list(p.shape) for name, p in model.named_parameters()},
        }

    def run(self) -> FitResult:
        """Step until a plateau or a limit; an interrupt leaves the best weights so far."""
        resumed = self._resume()
        self.started = time.monotonic() - self.state.seconds
        self.written = time.monotonic()
        try:
            with FitProgress(self.config.max_steps, self.config.progress) as bar:
                if not self.state.history:
                    self._evaluate(bar)
                while not self._finished():
                    self._step()
                    if self.state.since_evaluation >= self.every:
                        self._evaluate(bar)
                    self._checkpoint(self.config.checkpoint_seconds)
                    bar.step(self.state.step)
                if self.state.since_evaluation:
                    self._evaluate(bar)
        except FitError:
            load_weights(self.model, self.state.best)
            raise
        except BaseException:
            # What was learnt must not be lost to an interrupt.
            self._checkpoint(0.0)
            load_weights(self.model, self.state.best)
            raise
        self._checkpoint(0.0)
        load_weights(self.model, self.state.best)
        return self._result(resumed)

    def _resume(self) -> bool:
        if self.config.checkpoint is None:
            return False
        found = load_checkpoint(self.config.checkpoint, self.model, self.state, self.identity)
        if found and self.state.stopped in ("max_steps", "max_seconds"):
            self.state.stopped = ""  # a limit may have been raised since
        return found

    def _finished(self) -> bool:
        state, config = self.state, self.config
        if state.stopped:
            return True
        if state.step >= config.max_steps:
            state.stopped = "max_steps"
        elif config.max_seconds is not None and self._seconds() >= config.max_seconds:
            state.stopped = "max_seconds"
        return bool(state.stopped)

    def _step(self) -> None:
        config, state = self.config, self.state
        batch = batch_at(self.train, state.step, config.batch_size, config.seed, self.orders)
        if config.noise:
            batch = with_noise(batch, self.noise, config.seed, state.step)
        state.optimiser.zero_grad(set_to_none=True)
        log_value = self.model.contract(batch.evidence)
        weight = batch.weight.to(log_value.dtype)
        # A zero weight silences a row even where its log value is -inf.
        total = -torch.where(weight > 0, weight * log_value, 0.0).sum()
        # Weights are relative to the mean of all, so that a batch counts by what it holds.
        loss = total / (len(batch) * self.mean_weight)
        loss.backward()
        if config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm)
        state.optimiser.step()
        state.loss_sum += torch.stack([total.detach(), weight.sum()])
        state.step += 1
        state.since_evaluation += 1
        if config.averaging:
            self._average()

    @torch.no_grad()
    def _average(self) -> None:
        # The early average follows the weights closely, so that the start is forgotten.
        decay = min(self.config.averaging, (1 + self.state.step) / (10 + self.state.step))
        for name, parameter in self.model.named_parameters():
            self.state.average[name].lerp_(parameter.detach(), 1 - decay)

    def _evaluate(self, bar: FitProgress) -> None:
        """Judge the weights, keep them if best, and on a plateau go back and cut the rate."""
        state = self.state
        train_loss = self._train_loss()
        validation_loss = self._validation_loss() if self.held is not None else train_loss
        self._check_finite(train_loss, validation_loss)
        last = state.history[-1].seconds if state.history else 0.0
        rate = state.since_evaluation / max(self._seconds() - last, 1e-9)
        bar.evaluated(rate, train_loss, validation_loss)
        state.history.append(
            Record(
                step=state.step,
                epoch=state.step / self.per_epoch,
                train_loss=train_loss,
                validation_loss=validation_loss,
                learning_rate=state.rate,
                seconds=self._seconds(),
            )
        )
        state.since_evaluation = 0
        state.loss_sum = torch.zeros_like(state.loss_sum)
        self._judge(validation_loss)

    def _judge(self, loss: float) -> None:
        state, config = self.state, self.config
        gained = loss < state.best_loss - config.min_gain
        if loss < state.best_loss:
            state.best_loss, state.best_step = loss, state.step
            state.best = dict(state.average) if config.averaging else copy_weights(self.model)
            if config.averaging:
                state.best = {name: t.clone() for name, t in state.best.items()}
        state.stale = 0 if gained else state.stale + 1
        if state.stale < config.patience:
            return
        state.stale = 0
        state.cuts += 1
        if state.cuts > config.max_cuts:
            state.stopped = "plateau"
            return
        state.set_rate(state.rate * config.factor)
        load_weights(self.model, state.best)
        if config.averaging:
            state.average = {name: t.clone() for name, t in state.best.items()}

    def _train_loss(self) -> float:
        total, weight = self.state.loss_sum.tolist()
        if weight == 0:  # before the first step
            return self._loss(self.train)
        return total / weight

    def _validation_loss(self) -> float:
        assert self.held is not None
        if not self.config.averaging:
            return self._loss(self.held)
        present = copy_weights(self.model)
        load_weights(self.model, self.state.average)
        loss = self._loss(self.held)
        load_weights(self.model, present)
        return loss

    @torch.no_grad()
    def _loss(self, rows: Rows) -> float:
        value = self.model.log_value(rows.evidence).double()
        used = rows.weight > 0
        total = (rows.weight[used] * value[used]).sum()
        return -float(total / rows.weight.sum())

    def _check_finite(self, train_loss: float, validation_loss: float) -> None:
        for name, loss in [("training", train_loss), ("validation", validation_loss)]:
            if loss != loss or loss in (float("inf"), float("-inf")):
                raise FitError(
                    f"Expected a finite {name} loss; got {loss} at step {self.state.step}. The "
                    f"model holds the weights of step {self.state.best_step}. Lower "
                    "`learning_rate` or `clip_norm`, or look for rows the model finds impossible."
                )

    def _checkpoint(self, after: float) -> None:
        now = time.monotonic()
        if self.config.checkpoint is None or now - self.written < after:
            return
        self.state.seconds = self._seconds()
        save_checkpoint(self.config.checkpoint, self.model, self.state, self.identity)
        self.written = time.monotonic()

    def _seconds(self) -> float:
        return time.monotonic() - self.started

    def _result(self, resumed: bool) -> FitResult:
        state = self.state
        return FitResult(
            tuple(state.history),
            state.best_step,
            state.best_loss,
            state.stopped,
            self._seconds(),
            resumed,
        )


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(FitConfig)}
    for name in settings:
        if name not in names:
            raise TypeError(
                f"Expected settings of `FitConfig`; got {name!r}. Known: {sorted(names)}."
            )
    return settings
