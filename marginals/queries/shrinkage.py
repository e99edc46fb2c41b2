"""Noisy values of many groups, shrunk towards a linear model of all groups."""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class LinearPrior:
    """A linear model of values, and their variance around it without noise.

    Args:
        weights: the weights of the features, (features, views).
        between: the variance of the values around the model, (views,).
    """

    weights: Floats
    between: Floats

    def shrunk(self, values: Floats, noise: Floats, features: Floats) -> tuple[Floats, Floats]:
        """Shrink values (P, views) with noise of known variances towards the model.

        Returns:
            The shrunk values, and the weight of the values in them.

        >>> prior = LinearPrior(np.zeros((1, 1)), np.ones(1))
        >>> prior.shrunk(np.array([[4.0]]), np.array([[3.0]]), np.ones((1, 1)))[0]
        array([[1.]])
        """
        expected = features @ self.weights
        own = self.between / np.maximum(self.between + noise, np.finfo(float).tiny)
        return expected + own * (values - expected), own


def fit_prior(values: Floats, noise: Floats, features: Floats) -> LinearPrior:
    """Fit the model by least squares; variance beyond the noise lies between the groups."""
    weights = np.asarray(np.linalg.lstsq(features, values, rcond=None)[0], dtype=np.float64)
    left = max(1, len(values) - features.shape[1])
    around: Floats = ((values - features @ weights) ** 2).sum(0) / left
    return LinearPrior(weights, np.maximum(around - noise.mean(0), 0.0))
