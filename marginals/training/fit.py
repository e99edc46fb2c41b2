"""Maximum likelihood by AdamW, with validation, plateau schedule, best weights and checkpoints."""

import dataclasses
import math
import time
import warnings
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.runtime.backend import Backend
from marginals.runtime.kernels.compiled import has_compiler, worth_compiling
from marginals.runtime.memory import kept_memory
from marginals.runtime.threads import threads_for
from marginals.training.batches import Rows, batch_at, make_noise, make_rows, moved, sample, split
from marginals.training.checkpoint_identity import identify
from marginals.training.config import FitConfig
from marginals.training.fit_progress import FitProgress
from marginals.training.graphed import GraphedStep, own_stream
from marginals.training.result import FitError, FitResult, Record
from marginals.training.state import (
    Weights,
    copy_weights,
    load_checkpoint,
    load_weights,
    new_state,
    save_checkpoint,
    set_aside,
)

# Training rows that judge the weights where none are held out: enough to tell 0.01 nats, and few
# enough not to outweigh the steps in between.
_MOST_JUDGING = 1 << 16
# Training rows that show the loss before the first step.
_MOST_AT_FIRST = 1 << 13
# What a model says that a row costs, by leaf and hidden unit.
_FLOATS_PER_UNIT = 8
# One compiled loop is worth the threads of several single operations.
_COMPILED_SHARE = 4


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

    >>> from marginals.densities.build import build
    >>> x = torch.randn(200, 2)
    >>> result = fit(build(x, width=4), x, max_steps=20)
    >>> result.stopped
    'max_steps'
    """
    config = dataclasses.replace(config or FitConfig(), **_known(settings))
    train = make_rows(model.checked(data), sample_weight, "data")
    held: Rows | None = None
    if validation is None and validation_weight is not None:
        raise ValueError("Expected `validation_weight` only beside `validation`; got it alone.")
    if validation is not None:
        held = make_rows(model.checked(validation), validation_weight, "validation")
    else:
        train, held = split(train, config.validation_fraction, config.seed)
    model.check_rows(train.evidence)
    return _Fit(model, train, held, config).run()


class _Fit:
    """One run of `fit`: its data, settings and state."""

    def __init__(self, model: Density, train: Rows, held: Rows | None, config: FitConfig) -> None:
        self.model, self.train, self.config = model, train, config
        self.judging = sample(train, _MOST_JUDGING, config.seed) if held is None else held
        per_epoch = max(1, len(train) // config.batch_size)
        self.per_epoch = per_epoch
        self.every = config.evaluate_every or min(400, max(50, per_epoch))
        self.noise = make_noise(train.evidence, model.categories, model.atoms, config.noise)
        self.mean_weight = float(train.weight.mean())
        self.state = new_state(model, config)
        self.orders: dict[int, Tensor] = {}
        self.backend = Backend(precision=config.products)
        self.identity = {} if config.checkpoint is None else identify(model, train, held, config)
        self.graphed: GraphedStep | None = None
        self.may_record = train.weight.is_cuda and not train.evidence.sets
        self.torn = False  # while a change of the state is under way, half of it done

    def run(self) -> FitResult:
        """Step until a plateau or a limit; an interrupt leaves the best weights so far."""
        with own_stream(self.train.weight.device):
            return self._run()

    def _run(self) -> FitResult:
        resumed = self._resume()
        self.started = time.monotonic() - self.state.seconds
        # The first step is checkpointed at once: a file that cannot be written shows early.
        self.written = -math.inf
        try:
            floats = self.model.row_cost() * min(self.config.batch_size, len(self.train))
            long = self._is_long(floats)
            self.backend = dataclasses.replace(self.backend, compiled=long and has_compiler())
            with (
                FitProgress(self.config.max_steps, self.config.progress) as bar,
                threads_for(floats * _COMPILED_SHARE if long else floats),
                kept_memory(not self.train.weight.is_cuda),
            ):
                self._go(bar)
        except FitError:
            raise
        except BaseException:
            # What was learnt must not be lost to an interrupt; of half a step nothing can be kept.
            if not self.torn:
                self._checkpoint(0.0)
            raise
        finally:
            load_weights(self.model, self.state.best)
        return self._result(resumed)

    def _is_long(self, floats: int) -> bool:
        """Say whether compiling for the CPU pays; a step works on about so many floats."""
        if self.train.weight.is_cuda:
            return False
        if self.config.compile is not None:
            return self.config.compile
        steps = self.config.max_steps - self.state.step
        return worth_compiling(floats // _FLOATS_PER_UNIT, steps, self.config.max_seconds)

    def _go(self, bar: FitProgress) -> None:
        self._evaluate_if_due(bar)
        while not self._finished():
            self._step()
            self._evaluate_if_due(bar)
            self._checkpoint(self.config.checkpoint_seconds)
            bar.step(self.state.step)
        self._checkpoint(0.0)
        if self.state.since_evaluation:
            # Beside the schedule, so not for the checkpoint: a fit allowed more steps goes on as
            # if it had never stopped here.
            self._keep_if_best(self._evaluate(bar))

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
        index = batch_at(self.train, state.step, config.batch_size, config.seed, self.orders)
        change = self.noise.draw(len(index), config.seed, state.step) if config.noise else None
        if self.graphed is None and self.may_record:
            self.may_record = False
            self.graphed = self._record(len(index))
        if self.graphed is not None:
            self.torn = True
            state.loss_sum += self.graphed(index, change)
        else:
            batch = self.train.take(index)
            batch = batch if change is None else moved(batch, self.noise, change)
            state.loss_sum += self._learn(batch, self.backend)
        state.step += 1
        state.since_evaluation += 1
        if config.averaging:
            self._average()
        self.torn = False

    def _learn(self, batch: Rows, backend: Backend) -> Tensor:
        """Go down the gradient of one batch; return the sums of its losses and weights, (2,)."""
        optimiser = self.state.optimiser
        optimiser.zero_grad(set_to_none=True)
        log_value = self.model.contract(batch.evidence, backend)
        weight = batch.weight.to(log_value.dtype)
        # The loss is the mean of -log p. Weights are relative to the mean of all, so that a batch
        # counts by what it holds.
        # In this thread: another one would bring a workspace of its own for matrix products.
        with torch.autograd.set_multithreading_enabled(False):
            log_value.backward(weight * (-1 / (len(batch) * self.mean_weight)))
        self._clip()
        self.torn = True
        optimiser.step()
        return torch.stack([-weight * log_value.detach(), weight]).sum(1)

    def _clip(self) -> None:
        """Limit the gradient's norm; a fused optimiser does so as it reads the gradient."""
        optimiser, limit = self.state.optimiser, self.config.clip_norm
        if limit is None:
            return
        if not optimiser.defaults["fused"]:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
            return
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        scale = (norm / limit).clamp_min(1.0)
        optimiser.grad_scale = scale.float()  # type: ignore[attr-defined]

    def _record(self, size: int) -> GraphedStep | None:
        restore = set_aside(self.model, self.state.optimiser)
        noise = self.noise if self.config.noise else None
        recorded = dataclasses.replace(self.backend, host_free=True)
        try:
            return GraphedStep(
                lambda batch: self._learn(batch, recorded), self.train, size, noise, restore
            )
        except RuntimeError as cause:
            # Some part of this model's step needs the host.
            torch.cuda.synchronize()
            restore()
            warnings.warn(
                "Expected to record a training step as a CUDA graph; steps are taken kernel by "
                f"kernel, which is slower: {str(cause).strip().splitlines()[0]}",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    @torch.no_grad()
    def _average(self) -> None:
        # The early average follows the weights closely, so that the start is forgotten.
        decay = min(self.config.averaging, (1 + self.state.step) / (10 + self.state.step))
        present = dict(self.model.named_parameters())
        means = [self.state.average[name] for name in present]
        torch._foreach_lerp_(means, [p.detach() for p in present.values()], 1 - decay)

    def _evaluate_if_due(self, bar: FitProgress) -> None:
        """Keep the weights if best, and on a plateau go back and cut the rate."""
        if self.state.history and self.state.since_evaluation < self.every:
            return
        loss = self._evaluate(bar)
        gained = loss < self.state.best_loss - self.config.min_gain
        self._keep_if_best(loss)
        self.state.stale = 0 if gained else self.state.stale + 1
        if self.state.stale >= self.config.patience:
            self._cut_rate()
        self.torn = False

    def _evaluate(self, bar: FitProgress) -> float:
        """Record the losses and return the one that judges; the caller acts on it."""
        state = self.state
        train_loss, validation_loss = self._train_loss(), self._validation_loss()
        self._check_finite(train_loss, validation_loss)
        self.torn = True
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
        return validation_loss

    @torch.no_grad()
    def _keep_if_best(self, loss: float) -> None:
        state = self.state
        if loss < state.best_loss:
            state.best_loss, state.best_step = loss, state.step
            averaged = self.config.averaging > 0
            present = state.average if averaged else dict(self.model.named_parameters())
            for name, kept in state.best.items():
                kept.copy_(present[name])

    def _cut_rate(self) -> None:
        state, config = self.state, self.config
        state.stale = 0
        state.cuts += 1
        if state.cuts > config.max_cuts:
            state.stopped = "plateau"
            return
        state.set_rate(state.rate * config.factor)
        load_weights(self.model, state.best)
        if config.averaging:
            state.average = _copied(state.best)

    def _train_loss(self) -> float:
        total, weight = self.state.loss_sum.tolist()
        if weight == 0:  # before the first step
            return self._loss(sample(self.train, _MOST_AT_FIRST, self.config.seed))
        return total / weight

    def _validation_loss(self) -> float:
        if not self.config.averaging:
            return self._loss(self.judging)
        present = copy_weights(self.model)
        self.torn = True
        load_weights(self.model, self.state.average)
        loss = self._loss(self.judging)
        load_weights(self.model, present)
        self.torn = False
        return loss

    @torch.no_grad()
    def _loss(self, rows: Rows) -> float:
        value = self.model.log_value(rows.evidence).double()
        weight = rows.weight.double()
        return -float((weight * value).sum() / weight.sum())

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


def _copied(weights: Weights) -> Weights:
    return {name: tensor.clone() for name, tensor in weights.items()}


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(FitConfig)}
    for name in settings:
        if name not in names:
            raise TypeError(
                f"Expected settings of `FitConfig`; got {name!r}. Known: {sorted(names)}."
            )
    return settings
