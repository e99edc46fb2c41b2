"""The settings of a fit."""

import dataclasses
import math
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, get_args

from marginals.runtime.kernels.products import Precision

# NumPy's numbers are accepted and converted to Python's, because a checkpoint stores them as JSON.
_NUMBERS: dict[Any, tuple[Any, str]] = {int: (Integral, "an integer"), float: (Real, "a number")}
_RANGES: dict[str, tuple[Callable[[float], bool], tuple[str, ...]]] = {
    "at least 1": (lambda n: n >= 1, ("batch_size", "evaluate_every", "patience")),
    "at least 0": (
        lambda n: n >= 0,
        (
            *("weight_decay", "max_steps", "max_seconds", "max_cuts", "min_gain", "noise"),
            *("checkpoint_seconds", "focus_weight"),
        ),
    ),
    "positive": (lambda n: n > 0, ("learning_rate", "clip_norm")),
    "in [0, 1)": (lambda n: 0 <= n < 1, ("validation_fraction", "averaging", "annealing")),
    "between 0 and 1": (lambda n: 0 < n < 1, ("factor",)),
}
# Settings that a resumed fit may change.
_FREE = {
    *("checkpoint", "checkpoint_seconds", "progress"),
    *("max_steps", "max_seconds", "compile"),
}


def rate_for_batch(size: int, rate: float = 0.01, usual: int = 500) -> float:
    """Return the learning rate for a large batch: it grows with the square root of the size.

    Gradient noise falls with the root of the batch size, and AdamW normalises the gradient, so
    correspondingly fewer steps cover the same distance. Growth stops at 16 times the usual batch.

    >>> rate_for_batch(500), rate_for_batch(2000)
    (0.01, 0.02)
    """
    return rate * math.sqrt(min(max(1.0, size / usual), 16.0))


@dataclass(frozen=True)
class FitConfig:
    """The settings of a fit, validated on construction.

    Args:
        batch_size: Rows per step.
        learning_rate: Initial rate of AdamW; for large batches see `rate_for_batch`.
        weight_decay: Decoupled decay of all parameters except biases and the logits of
            categories and mixtures.
        amsgrad: Use AMSGrad's step, as the paper's authors do: the second moment never falls.
        clip_norm: Largest norm of the gradient; None disables clipping.
        max_steps: Largest number of steps.
        max_seconds: Time limit, None for none. A fit stopped by the clock is not reproducible
            to the last digit. On a GPU the clock starts once the first step has been recorded.
        validation_fraction: Share of rows to hold out if no validation rows are given. With 0, the
            model is evaluated on at most 65536 training rows.
        evaluate_every: Steps between evaluations; None means once per epoch, but every 50 to 400.
        patience: Evaluations without gain before the fit returns to the best weights and lowers
            the rate.
        factor: Factor by which the rate is lowered.
        annealing: Last share of the steps or seconds, whichever end first, over which the rate
            falls linearly to zero.
        max_cuts: Number of rate cuts after which the next plateau ends the fit.
        min_gain: Smallest decrease of the validation loss, in nats per row, that counts as gain.
        noise: Standard deviation of the noise added to exact continuous cells at each step,
            relative to each column's.
        noisy_judges: If no rows are held out, evaluate training rows with this noise; otherwise an
            initialisation sharper than the noise would look better than any step.
        focus: Columns whose conditionals count in addition to the joint; see `Focus`.
        focus_weight: Weight of log p(a column in focus | a random part of the others) next to
            log p(x).
        averaging: Decay of an exponential moving average of the weights, which is then evaluated
            and kept; 0 disables it.
        products: Precision of the contraction's matrix products in steps on a CUDA device:
            "tf32", "bf16x3" or "full". Evaluations are always full.
        compile: Compile the leaves for steps on a CPU; None does so only if the fit is long enough.
        seed: Seed for split, batching and noise.
        checkpoint: File that the fit resumes from if it exists, and keeps up to date.
        checkpoint_seconds: Seconds between writes of the checkpoint.
        progress: Show a progress bar; None shows it only on a terminal.
    """

    batch_size: int = 500
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    amsgrad: bool = False
    clip_norm: float | None = 10.0
    max_steps: int = 20_000
    max_seconds: float | None = None
    validation_fraction: float = 0.1
    evaluate_every: int | None = None
    patience: int = 5
    factor: float = 0.5
    annealing: float = 0.0
    max_cuts: int = 6
    min_gain: float = 1e-4
    noise: float = 0.0
    noisy_judges: bool = False
    focus: tuple[int, ...] = ()
    focus_weight: float = 0.0
    averaging: float = 0.0
    products: Precision = "tf32"
    compile: bool | None = None
    seed: int = 0
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 30.0
    progress: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "focus", tuple(map(operator.index, self.focus)))
        fields = [f for f in dataclasses.fields(self) if f.name != "focus"]
        kinds = {f.name: get_args(f.type) or (f.type,) for f in fields}
        for name in kinds:
            self._make_number(name, kinds[name])
        for what, (within, names) in _RANGES.items():
            for name in names:
                setting, optional = getattr(self, name), type(None) in kinds[name]
                fine = setting is None or within(setting)
                self._expect(fine, name, f"{what} or None" if optional else what)
        precisions = get_args(Precision)
        self._expect(self.products in precisions, "products", f"one of {list(precisions)}")
        for name in ("amsgrad", "noisy_judges"):
            self._expect(getattr(self, name) in (True, False), name, "True or False")
        self._expect(self.compile in (None, True, False), "compile", "True, False or None")

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

    def replaced(self, settings: dict[str, Any]) -> "FitConfig":
        """Return a copy with some settings replaced; reject unknown names.

        Args:
            settings: new values by name.
        """
        names = {field.name for field in dataclasses.fields(self)}
        for name in settings:
            if name not in names:
                raise TypeError(
                    f"Expected settings of `FitConfig`; got {name!r}. Known: {sorted(names)}."
                )
        return dataclasses.replace(self, **settings)

    def numbers(self) -> dict[str, Any]:
        """Return the settings that a resumed fit may not change, as JSON."""
        every = dataclasses.asdict(self)
        return {name: setting for name, setting in every.items() if name not in _FREE}
