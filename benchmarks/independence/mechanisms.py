"""Rows in which X and Y are independent given Z, and alternatives in which they are not."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]


class Parts(NamedTuple):
    """What rows are made of: the noise of X, and X, Y and Z as they are under independence."""

    noise: Floats
    x: Floats
    y: Floats
    z: Floats | npt.NDArray[np.str_]


def linear(n: int, rng: np.random.Generator) -> Parts:
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, z + e, f - z, z)


def nonlinear(n: int, rng: np.random.Generator) -> Parts:
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, np.sin(2 * z) + 0.5 * e, z**2 + 0.5 * f, z)


def alike(n: int, rng: np.random.Generator) -> Parts:
    """The same curve on both sides: what a fit misses of one it misses of the other."""
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, z**2 + 0.5 * e, z**2 + 0.5 * f, z)


def heteroscedastic(n: int, rng: np.random.Generator) -> Parts:
    z, e, f = rng.normal(size=(3, n))
    return Parts(e, np.exp(0.7 * z) * e, z + (0.3 + np.abs(z)) * f, z)


def heavy_tailed(n: int, rng: np.random.Generator) -> Parts:
    z, (e, f) = rng.normal(size=n), rng.standard_t(2, size=(2, n))
    return Parts(e, z + e, np.tanh(2 * z) + 0.5 * f, z)


def discrete(n: int, rng: np.random.Generator) -> Parts:
    """Z of four categories, which move the mean of both and the spread of Y."""
    z, (e, f) = rng.integers(4, size=n), rng.normal(size=(2, n))
    y = np.array([0.0, 2.0, -1.0, 1.0])[z] + (1 + z / 3) * f
    return Parts(e, z + e, y, np.array(list("abcd"))[z])


NULL: dict[str, Callable[[int, np.random.Generator], Parts]] = {
    "linear": linear,
    "nonlinear": nonlinear,
    "alike": alike,
    "heteroscedastic": heteroscedastic,
    "heavy-tailed": heavy_tailed,
    "discrete Z": discrete,
}

# What Y takes from the noise of X: a dependence that all tests should see, and two that only some
# can: one without correlation, and one of spread alone.
STRENGTH = 0.15
ALTERNATIVES: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "additive": lambda e, y, s: y + STRENGTH * s * e,
    "even": lambda e, y, s: y + STRENGTH * s * (np.abs(e) - np.abs(e).mean()) * 2,
}


def null_rows(name: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Make rows in which x and y are independent given z."""
    parts = NULL[name](n, rng)
    return pd.DataFrame({"x": parts.x, "y": parts.y, "z": parts.z})


def alternative_rows(name: str, kind: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Make rows of the same mechanism in which y also depends on the noise of x."""
    parts = NULL[name](n, rng)
    scale = np.subtract(*np.quantile(parts.y, [0.75, 0.25])) / 1.35
    y = ALTERNATIVES[kind](parts.noise, parts.y, scale)
    return pd.DataFrame({"x": parts.x, "y": y, "z": parts.z})
