"""Maximum likelihood by AdamW: validation, plateau schedule, best weights and checkpoints."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.runtime.backend import Backend
from marginals.runtime.kernels.compiled import has_compiler, worth_compiling
from marginals.runtime.memory import kept_memory
from marginals.runtime.threads import threads_for
from marginals.training import ranks
from marginals.training.batches import Rows, batch_at, make_noise, make_rows, moved, sample, split
from marginals.training.checkpoint import identify, load_checkpoint, save_checkpoint
from marginals.training.config import FitConfig
from marginals.training.graphed import GraphedStep, own_stream
from marginals.training.objective import make_focus
from marginals.training.progress_bar import ProgressBar
from marginals.training.ranks import SharedContraction
from marginals.training.result import FitError, FitResult, Record
from marginals.training.state import copy_weights, load_weights, new_state, set_aside

# Training rows that judge the weights if none are held out: enough to resolve 0.01 nats, and few
# enough not to cost more than the steps in between.
_MOST_JUDGING = 1 << 16
# Training rows for the loss before the first step.
_MOST_AT_FIRST = 1 << 10
# Distinct cells of a column up to which each is evaluated once per step rather than every row's:
# about as many as a batch has rows.
_MOST_DISTINCT = 1024
# Floats per leaf and hidden unit in a model's `row_cost`.
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
    stream: Callable[[int], Rows] | None = None,
    **settings: Any,
) -> FitResult:
    """Train a model by maximum likelihood and leave the best weights in it.

    Cells may be exact, intervals or missing, in any pattern. The data are moved to the model's
    device once and batched there. With `focus`, the loss includes the conditionals of some columns.

    Args:
        model: Any density; it is changed in place.
        data: Rows, (N, D) with NaN for missing cells, or evidence.
        validation: Held-out rows; None holds out a random share of `data`.
        sample_weight: One weight per row of `data`.
        validation_weight: One weight per row of `validation`.
        config: The settings; see `FitConfig`.
        stream: If `data` are only a sample, a function from a step's number to its rows. It must
            depend on the number alone, so that a fit can resume.
        settings: Individual settings, which take precedence over `config`.

    >>> from marginals.densities.build import build
    >>> x = torch.randn(200, 2)
    >>> result = fit(build(x, width=4), x, max_steps=20)
    >>> result.stopped
    'max_steps'
    """
    config = (config or FitConfig()).replaced(settings)
    train = make_rows(model.checked(data), sample_weight, "data")
    held: Rows | None = None
    if validation is None and validation_weight is not None:
        raise ValueError("Expected `validation_weight` only with `validation`; got it alone.")
    if validation is not None:
        held = make_rows(model.checked(validation), validation_weight, "validation")
    else:
        train, held = split(train, config.validation_fraction, config.seed)
    model.check_rows(train.evidence)
    train, held = train.settled(model), None if held is None else held.settled(model)
    run = FitRun(model, train, held, config, stream)
    with own_stream(train.weight.device):
        return run.run()


class FitRun:
    """One run of `fit`: its data, settings and state."""

    def __init__(
        self,
        model: Density,
        train: Rows,
        held: Rows | None,
        config: FitConfig,
        stream: Callable[[int], Rows] | None = None,
    ) -> None:
        self.model, self.config, self.stream = model, config, stream
        self.focus = make_focus(model, config.focus, config.focus_weight, config.seed)
        if self.focus is not None and ranks.is_shared():
            raise ValueError(
                "Expected no `focus` in a fit by several processes, which share the gradients of "
                "one contraction; got one. Fit in one process."
            )
        self.contract = SharedContraction(model) if ranks.is_shared() else model.contract
        self.per_epoch = max(1, len(train) // config.batch_size)
        self.every = config.evaluate_every or min(400, max(50, self.per_epoch))
        self.noise = make_noise(train.evidence, model.categories, model.atoms, config.noise)
        still = self.noise.still(train.evidence)
        self.train = train.with_distinct(_MOST_DISTINCT, still)
        judging = self._judging_rows(train) if held is None else held
        self.judging = judging.with_distinct(_MOST_DISTINCT, still)
        self.mean_weight = float(train.weight.mean())
        self.state = new_state(model, config)
        self.orders: dict[int, Tensor] = {}
        self.backend = Backend(precision=config.products)
        self.identity = {} if config.checkpoint is None else identify(model, train, held, config)
        self.graphed: GraphedStep | None = None
        self.may_record = train.weight.is_cuda and not train.evidence.sets and stream is None
        # With a focus, the columns of a step differ from those of the last.
        self.may_record = self.may_record and not ranks.is_shared() and self.focus is None
        self.clock: float | None = None  # seconds that all processes agree on
        self.torn = False  # True while the state is only partly updated
        self.progress = ""

    def _judging_rows(self, train: Rows) -> Rows:
        """Return training rows to judge by, with the noise of training if the judges are noisy."""
        config, rows = self.config, sample(train, _MOST_JUDGING, self.config.seed)
        if not (config.noise and config.noisy_judges):
            return rows
        return moved(rows, self.noise, self.noise.draw(len(rows), config.seed, -1))

    def run(self) -> FitResult:
        """Step until a plateau or a limit; an interrupt leaves the best weights so far."""
        config, on_gpu = self.config, self.train.weight.is_cuda
        resumed = self._resume()
        self.started = time.monotonic() - self.state.seconds
        # The first step writes a checkpoint at once, so that a bad path fails early.
        self.written = -math.inf
        try:
            floats = self.model.row_cost() * min(config.batch_size, len(self.train))
            long = self._is_long(floats)
            self.backend = dataclasses.replace(self.backend, compiled=long and has_compiler())
            with (
                ProgressBar(config.progress) as bar,
                threads_for(floats * _COMPILED_SHARE if long else floats),
                kept_memory(not on_gpu),
            ):
                self._loop(bar)
        except FitError:
            raise
        except BaseException:
            # Keep what was learnt before an interrupt; half a step cannot be kept.
            if not self.torn:
                self._checkpoint(0.0)
            raise
        finally:
            load_weights(self.model, self.state.best)
        state = self.state
        history, seconds = tuple(state.history), self._seconds()
        return FitResult(history, state.best_step, state.best_loss, state.stopped, seconds, resumed)

    def _is_long(self, floats: int) -> bool:
        """Return whether compiling for the CPU pays if a step works on about so many floats."""
        if self.train.weight.is_cuda:
            return False
        if self.config.compile is not None:
            return self.config.compile
        steps = self.config.max_steps - self.state.step
        return worth_compiling(floats // _FLOATS_PER_UNIT, steps, self.config.max_seconds)

    def _loop(self, bar: ProgressBar) -> None:
        most = self.config.max_steps
        self._evaluate_if_due()
        while not self._finished():
            self.step()
            self._evaluate_if_due()
            self._checkpoint(self.config.checkpoint_seconds)
            bar.update(self.state.step, most, f"{self.state.step}/{most} steps {self.progress}")
        self._checkpoint(0.0)
        if self.state.since_evaluation:
            # Off schedule, and therefore not in the checkpoint: a fit that is allowed more steps
            # continues as if it had never stopped here.
            self._keep_if_best(self._evaluate())
            bar.update(self.state.step, most, f"{self.state.step}/{most} steps {self.progress}")

    def _resume(self) -> bool:
        if self.config.checkpoint is None:
            return False
        found = load_checkpoint(self.config.checkpoint, self.model, self.state, self.identity)
        ranks.wait()  # the first process will write the file again
        if found and self.state.stopped in ("max_steps", "max_seconds"):
            self.state.stopped = ""  # the limit may have been raised since
        return found

    def _finished(self) -> bool:
        state, config = self.state, self.config
        if state.stopped:
            return True
        if state.step >= config.max_steps:
            state.stopped = "max_steps"
        elif (
            config.max_seconds is not None
            and not self.may_record  # the seconds begin when a step has been recorded
            and self._seconds() >= config.max_seconds
        ):
            state.stopped = "max_seconds"
        return bool(state.stopped)

    def step(self) -> None:
        """Take one optimiser step on the next batch."""
        config, state = self.config, self.state
        if config.annealing:
            state.set_rate(state.rate, min(1.0, (1 - self._progress()) / config.annealing))
        if ranks.is_shared():
            self.clock = None
            self.clock = ranks.agreed(self._seconds())
        if self.stream is not None:
            rows = self.stream(state.step)
            known = self.model.checked(rows.evidence)
            self._step_on(dataclasses.replace(rows, evidence=known).settled(self.model))
            return
        index = batch_at(self.train, state.step, config.batch_size, config.seed, self.orders)
        change = self._change(len(index))
        if self.graphed is None and self.may_record:
            self.may_record = False
            self.graphed = self.record(len(index))
            # Seconds are for training: the first use of kernels compiles them, which is done now.
            self.started = time.monotonic() - state.seconds
        if self.graphed is not None:
            self.torn = True
            state.loss_sum += self.graphed(index, change)
        else:
            batch = self.train.take(index)
            batch = batch if change is None else moved(batch, self.noise, change)
            state.loss_sum += self._learn(batch, self.backend)
        self._stepped()

    def _step_on(self, batch: Rows) -> None:
        """Take one step on rows of a stream."""
        change = self._change(len(batch))
        batch = batch if change is None else moved(batch, self.noise, change)
        self.state.loss_sum += self._learn(batch, self.backend)
        self._stepped()

    def _change(self, rows: int) -> Tensor | None:
        """Draw the noise of a step; processes that train together have their own."""
        config, step = self.config, self.state.step * ranks.world() + ranks.rank()
        return self.noise.draw(rows, config.seed, step) if config.noise else None

    def _stepped(self) -> None:
        self.state.step += 1
        self.state.since_evaluation += 1
        if self.config.averaging:
            self._average()
        self.torn = False

    def _progress(self) -> float:
        """Return which share of the steps or seconds allowed has passed, whichever is larger."""
        config = self.config
        steps = self.state.step / config.max_steps
        if not config.max_seconds:
            return steps
        return min(1.0, max(steps, self._seconds() / config.max_seconds))

    def _learn(self, batch: Rows, backend: Backend) -> Tensor:
        """Descend the gradient of one batch; return its summed losses and weights, (2,)."""
        optimiser = self.state.optimiser
        optimiser.zero_grad()
        log_value = self.contract(batch.evidence, backend)
        if self.focus is not None:

            def contract(evidence: Evidence) -> Tensor:
                return self.contract(evidence, backend)

            step = self.state.step
            log_value = log_value + self.focus.step_value(contract, batch.evidence, log_value, step)
        weight = batch.weight.to(log_value.dtype)
        # The loss is the mean of -log p, with weights relative to the mean over all rows, so that
        # batches count by the weight they hold. Backward runs in this thread, since another would
        # allocate its own workspace for matrix products.
        with torch.autograd.set_multithreading_enabled(False):
            log_value.backward(weight * (-1 / (len(batch) * self.mean_weight)))
        scale = self._clip()
        self.torn = True
        optimiser.step(scale)
        return torch.stack([-weight * batch.add_width(log_value.detach()), weight]).sum(1)

    def _clip(self) -> Tensor | None:
        """Return by what to divide the gradient to limit its norm, None for no limit."""
        limit = self.config.clip_norm
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        if limit is None or not grads:
            return None
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        return (norm / limit).clamp_min(1.0).float()

    def record(self, size: int) -> GraphedStep | None:
        """Record a step as a CUDA graph; warn and return None if the step needs the host."""
        restore = set_aside(self.model, self.state.optimiser)
        noise = self.noise if self.config.noise else None
        recorded = dataclasses.replace(self.backend, host_free=True)
        try:
            return GraphedStep(
                lambda batch: self._learn(batch, recorded), self.train, size, noise, restore
            )
        except RuntimeError as cause:
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

    def _evaluate_if_due(self) -> None:
        """Keep the weights if best; on a plateau return to the best and cut the rate."""
        if self.state.history and self.state.since_evaluation < self.every:
            return
        loss = self._evaluate()
        gained = loss < self.state.best_loss - self.config.min_gain
        self._keep_if_best(loss)
        self.state.stale = 0 if gained else self.state.stale + 1
        if self.state.stale >= self.config.patience:
            self._cut_rate()
        self.torn = False

    def _evaluate(self) -> float:
        """Record the losses and return the validation loss; the caller acts on it."""
        state = self.state
        train_loss, validation_loss = self._train_loss(), self._validation_loss()
        self._check_finite(train_loss, validation_loss)
        self.torn = True
        seconds = self._seconds()
        last = state.history[-1].seconds if state.history else 0.0
        speed = state.since_evaluation / max(seconds - last, 1e-9)
        self.progress = f"{speed:.0f}/s train {train_loss:.3f} val {validation_loss:.3f}"
        epoch = state.step / self.per_epoch
        state.history.append(
            Record(state.step, epoch, train_loss, validation_loss, state.rate, seconds)
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
            for name, best in state.best.items():
                best.copy_(present[name])

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
            state.average = {name: best.clone() for name, best in state.best.items()}

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
        log_value = self.model.log_value(rows.evidence)
        value = rows.add_width(log_value).double()
        if self.focus is not None:
            value += self.focus.mean_value(self.model.log_value, rows.evidence, log_value).double()
        weight = rows.weight.double()
        return -float((weight * value).sum() / weight.sum())

    def _check_finite(self, train_loss: float, validation_loss: float) -> None:
        for name, loss in [("training", train_loss), ("validation", validation_loss)]:
            if not math.isfinite(loss):
                raise FitError(
                    f"Expected a finite {name} loss; got {loss} at step {self.state.step}. The "
                    f"model holds the weights of step {self.state.best_step}. Lower "
                    "`learning_rate` or `clip_norm`, or look for rows the model finds impossible."
                )

    def _checkpoint(self, after: float) -> None:
        if self.config.checkpoint is None or time.monotonic() - self.written < after:
            return
        if ranks.rank() > 0:  # all processes hold the same state
            return
        self.state.seconds = self._seconds()
        save_checkpoint(self.config.checkpoint, self.model, self.state, self.identity)
        self.written = time.monotonic()

    def _seconds(self) -> float:
        return time.monotonic() - self.started if self.clock is None else self.clock
