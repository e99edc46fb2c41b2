"""How good predicted distributions are."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def pinball_crps(quantiles: Array, levels: Array, truth: Array) -> float:
    """Return twice the mean pinball loss of quantiles (N, Q), the CRPS seen at these levels.

    >>> pinball_crps(np.array([[1.0]]), np.array([0.5]), np.array([3.0]))
    2.0
    """
    away = truth[:, None] - quantiles
    return float(2 * np.maximum(levels * away, (levels - 1) * away).mean())


def of_numbers(quantiles: Array, mean: Array, levels: Array, truth: Array) -> dict[str, Any]:
    """Compare quantiles and means with the truth, in standard deviations of the truth."""
    spread = float(truth.std())
    low, high = quantiles[:, 0], quantiles[:, -1]
    return {
        "crps": pinball_crps(quantiles, levels, truth) / spread,
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "width": float((high - low).mean() / spread),
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2)) / spread),
    }


def of_classes(shares: Array, classes: Any, truth: Any) -> dict[str, Any]:
    """Compare probabilities (N, C) of classes with the truth."""
    own = np.array([list(classes).index(value) for value in truth])
    given = shares[np.arange(len(own)), own]
    with np.errstate(divide="ignore"):
        return {
            "log_loss": float(-np.log(given).mean()),
            "accuracy": float((shares.argmax(1) == own).mean()),
        }
