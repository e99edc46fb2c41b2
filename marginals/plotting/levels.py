"""Numbers read off a grid of densities: regions of highest density, and correlation."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["check_shares", "correlation", "density_levels", "likely_set"]

Floats = npt.NDArray[np.float64]


def check_shares(shares: Sequence[float]) -> None:
    """Refuse what is no list of shares."""
    wrong = [share for share in shares if not 0 < share < 1]
    if wrong or not len(shares):
        raise ValueError(
            f"Expected `levels` to be shares of mass between 0 and 1; got {list(shares)}. Give for "
            "example [0.5, 0.9]."
        )


def density_levels(density: Floats, shares: Sequence[float]) -> Floats:
    """Return for each share the density above which that share of the grid's mass lies.

    The cells of the grid have equal areas. Levels fall as shares rise: {density >= level} is the
    smallest region with at least the share.

    >>> density_levels(np.array([[4.0, 3.0], [2.0, 1.0]]), [0.4, 0.7, 0.9])
    array([4., 3., 2.])
    """
    check_shares(shares)
    falling = np.sort(density, axis=None)[::-1]
    mass = np.cumsum(falling / falling[0])  # relative, so that no sum overflows
    # A share that is met but for rounding is met: 0.3 + 0.4 is no less than 0.7.
    first = np.searchsorted(mass, np.asarray(shares) * mass[-1] * (1 - 1e-12))
    return falling[first]


def likely_set(mass: Floats, share: float) -> npt.NDArray[np.bool_]:
    """Say which values form the smallest set that holds a share of the mass.

    >>> likely_set(np.array([0.1, 0.6, 0.3]), 0.8).tolist()
    [False, True, True]
    """
    order = np.argsort(-mass, kind="stable")
    before = np.cumsum(mass[order]) - mass[order]
    chosen = np.zeros(len(mass), dtype=bool)
    chosen[order[before < share * mass.sum() * (1 - 1e-12)]] = True
    return chosen


def correlation(x: Floats, y: Floats, density: Floats) -> float:
    """Return the correlation under a density (y, x) on a grid; NaN if a side does not vary."""
    mass = density / density.sum()
    across, up = mass.sum(0), mass.sum(1)
    x, y = x - across @ x, y - up @ y
    spread = np.sqrt((across @ x**2) * (up @ y**2))
    return float(y @ mass @ x / spread) if spread > 0 else float("nan")
