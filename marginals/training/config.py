"""The settings of a fit."""

import dataclasses
import math
import os
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, get_args

from marginals.runtime.kernels.products import Precision

# Numbers of numpy are accepted too, and become Python's: a checkpoint holds them as JSON.
_NUMBERS: dict[Any, tuple[Any, str]] = {int: (Integral, "an integer"), float: (Real, "a number")}


def rate_for_batch(size: int, rate: float = 0.01, usual: int = 500) -> float:
    """Return the learning rate for large batches: it grows with the root of the batch.

    The noise of a gradient falls with the root of the batch, and AdamW divides by the gradient's
    own size: so many fewer steps then go as far. Beyond sixteen times the usual batch it stays.

    >>> rate_for_batch(500), rate_for_batch(2000)
    (0.01, 0.02)
    """
    return rate * math.sqrt(min(max(1.0, size / usual), 16.0))


@dataclass(frozen=True)
class FitConfig:
    """The settings of a fit, checked where they are made.

    Args:
        batch_size: rows per step.
        learning_rate: of AdamW, at the start; for large batches see `rate_for_batch`.
        weight_decay: decoupled, on all parameters but biases and the logits of categories and of
            mixtures.
        clip_norm: the largest norm of the gradient, None for no clipping.
        max_steps: the most steps.
        max_seconds: the most seconds, None for no limit. A fit stopped by the clock is not
            reproducible to the digit.
        validation_fraction: the share of rows held out if no validation data are given; 0 judges by
            the loss of (at most 65536) training rows.
        evaluate_every: steps between evaluations; None for once per epoch, within 50 and 400.
        patience: evaluations without gain before going back to the best weights at a lower rate.
        factor: by which the rate is then multiplied.
        max_cuts: after this many cuts, the next plateau ends the fit.
        min_gain: the smallest change of the validation loss, in nats per row, that counts as gain.
        noise: standard deviation of the noise added to exact cells of continuous columns at each
            step, in units of the column's standard deviation.
        averaging: decay of an exponential average of the weights, which is then what is evaluated
            and kept; 0 for none.
        products: precision of the contraction's matrix products in steps on a CUDA device: "tf32",
            "bf16x3" or "full". Evaluations are always full.
        compile: compile the leaves of steps on a CPU; None for only in fits so long that it pays.
        seed: of the split, the batches and the noise.
        checkpoint: a file from which the fit resumes if it exists, and which it keeps up to date.
        checkpoint_seconds: seconds between writes of the checkpoint.
        progress: show a progress bar; None for only on a terminal.
    """

    batch_size: int = 500
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    clip_norm: float | None = 10.0
    max_steps: int = 20_000
    max_seconds: float | None = None
    validation_fraction: float = 0.1
    evaluate_every: int | None = None
    patience: int = 5
    factor: float = 0.5
    max_cuts: int = 6
    min_gain: float = 1e-4
    noise: float = 0.0
    averaging: float = 0.0
    products: Precision = "tf32"
    compile: bool | None = None
    seed: int = 0
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 30.0
    progress: bool | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            self._make_number(field.name, get_args(field.type) or (field.type,))
        self._expect(self.batch_size >= 1, "batch_size", "at least 1")
        self._expect(self.learning_rate > 0, "learning_rate", "positive")
        self._expect(self.weight_decay >= 0, "weight_decay", "at least 0")
        self._expect(self.clip_norm is None or self.clip_norm > 0, "clip_norm", "positive or None")
        self._expect(self.max_steps >= 0, "max_steps", "at least 0")
        limit = self.max_seconds
        self._expect(limit is None or limit >= 0, "max_seconds", "at least 0 or None")
        self._expect(0 <= self.validation_fraction < 1, "validation_fraction", "in [0, 1)")
        every = self.evaluate_every
        self._expect(every is None or every >= 1, "evaluate_every", "at least 1 or None")
        self._expect(self.patience >= 1, "patience", "at least 1")
        self._expect(0 < self.factor < 1, "factor", "between 0 and 1")
        self._expect(self.max_cuts >= 0, "max_cuts", "at least 0")
        self._expect(self.min_gain >= 0, "min_gain", "at least 0")
        self._expect(self.noise >= 0, "noise", "at least 0")
        self._expect(0 <= self.averaging < 1, "averaging", "in [0, 1)")
        names = get_args(Precision)
        self._expect(self.products in names, "products", f"one of {list(names)}")
        self._expect(self.compile in (None, True, False), "compile", "True, False or None")
        self._expect(self.checkpoint_seconds >= 0, "checkpoint_seconds", "at least 0")

    def _make_number(self, name: str, kinds: tuple[Any, ...]) -> None:
        setting = getattr(self, name)
        number = next((kind for kind in kinds if kind in _NUMBERS), None)
        if number is None or (setting is None and type(None) in kinds):
            return
        kind, what = _NUMBERS[number]
        if not isinstance(setting, kind):
            raise TypeError(f"Expected `{name}` to be {what}; got {setting!r}.")
        object.__setattr__(self, name, number(setting))

    def _expect(self, fine: bool, name: str, what: str) -> None:
        if not fine:
            raise ValueError(f"Expected `{name}` to be {what}; got {getattr(self, name)!r}.")

    def numbers(self) -> dict[str, Any]:
        """Return the settings that decide the course of the fit, as JSON."""
        aside = {
            "checkpoint",
            "checkpoint_seconds",
            "progress",
            "max_steps",
            "max_seconds",
            "compile",
        }
        every = dataclasses.asdict(self)
        return {name: setting for name, setting in every.items() if name not in aside}
