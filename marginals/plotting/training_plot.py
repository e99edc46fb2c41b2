"""The scores of a fit over its steps."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from marginals.plotting.canvas import BLUE, DATA, GREY, SIZE, Axes, axes_or_new, dress
from marginals.training import FitResult


def training(result: Any, *, ax: Axes = None) -> Axes:
    """Draw the scores of a fit over its steps: mean log density per row, on the model's scale.

    The dot marks the step whose weights were kept; dotted lines mark cuts of the learning rate. The
    initial rise may lie outside the axes, to keep later scores readable. Training scores include
    the noise added to rows, if any, and are therefore lower.

    Args:
        result: a `FitResult`, or a fitted estimator with a `result_`.
        ax: axes to draw on; by default a new figure.
    """
    result = getattr(result, "result_", result)
    if not isinstance(result, FitResult):
        raise TypeError(
            "Expected `result` to be a FitResult or a fitted estimator; got "
            f"{type(result).__name__}. Give the result of `fit`, or `model.result_`."
        )
    history = result.history
    if not history:
        raise ValueError(
            "Expected `result` to hold an evaluation; got none. Fit for at least one step."
        )
    ax = axes_or_new(ax)
    steps = [record.step for record in history]
    held_out = [-record.validation_loss for record in history]
    seen = [-record.train_loss for record in history]
    ax.plot(steps, seen, color=GREY, lw=1, label="training")
    ax.plot(steps, held_out, color=BLUE, lw=1.3, label="validation")
    kept = {"color": DATA, "ms": 4.5, "zorder": 4, "label": "kept"}
    ax.plot(result.best_step, -result.best_loss, "o", **kept)
    for before, after in pairwise(history):
        if after.learning_rate < before.learning_rate:
            _mark_cut(ax, before.step, after.learning_rate)
    ax.set_ylim(*window(held_out, seen))
    ax.set(xlabel="step", ylabel="log density per row (nats)")
    dress(ax)
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 3, "borderaxespad": 0.2}
    ax.legend(frameon=False, fontsize=SIZE - 1, **above)
    return ax


def window(held_out: Sequence[float], seen: Sequence[float]) -> tuple[float, float]:
    """Return limits that show all but the first held-out score, and the last half of training.

    >>> window([-90.0, 1.0, 2.0, 2.0], [-95.0, -8.0, 2.5, 3.0])
    (0.9, 3.1)
    """
    scores = [*(held_out[1:] or held_out), *seen[len(seen) // 2 :]]
    low, high = min(scores), max(scores)
    pad = 0.05 * (high - low) if high > low else 0.5
    return low - pad, high + pad


def _mark_cut(ax: Axes, step: int, rate: float) -> None:
    ax.axvline(step, color=GREY, lw=0.8, ls=":", zorder=0)
    spot = {"xytext": (1.5, 2), "textcoords": "offset points", "rotation": 90}
    where = {"xycoords": ("data", "axes fraction"), "va": "bottom", "color": GREY}
    ax.annotate(f"rate {rate:.2g}", (step, 0), fontsize=SIZE - 2, **spot, **where)
