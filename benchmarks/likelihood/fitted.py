"""What a fitted model must offer to be put on the scoreboard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np

from benchmarks.likelihood.sets import Rows

Setting = TypeVar("Setting")


@final
@dataclass(frozen=True)
class Fitted:
    """A fitted model.

    Args:
        score: rows (N, D) to log densities (N,), as a user would call it; this one is timed.
        sample: a number of rows to rows.
        settings: what was chosen, and what else one needs to know of the fit.
        exact: `score` in float64 where `score` has less; its figures are reported.
    """

    score: Callable[[Rows], Rows]
    sample: Callable[[int], Any]
    settings: dict[str, Any]
    exact: Callable[[Rows], Rows] | None = None


@final
class MissingPackageError(ImportError):
    """A peer is not installed."""


def merit(scores: Rows) -> tuple[int, float]:
    """Order candidates by their validation scores: fewest impossible rows first, then the mean.

    The plain mean would be -inf for each candidate that finds one row impossible, and could not
    tell them apart.
    """
    finite = scores[np.isfinite(scores)]
    return len(finite) - len(scores), float(finite.mean()) if len(finite) else -np.inf


def best_of(candidates: Sequence[Setting], judge: Callable[[Setting], Rows]) -> Setting:
    """Return the candidate with the best validation scores; the first of equals."""
    return max(candidates, key=lambda candidate: merit(judge(candidate)))


def climb(ladder: Sequence[Setting], judge: Callable[[Setting], Rows]) -> Setting:
    """Return the best candidate of a ladder, climbed until two more rungs bring no gain."""
    merits: list[tuple[int, float]] = []
    for candidate in ladder:
        merits.append(merit(judge(candidate)))
        if max(merits) not in merits[-2:]:
            break
    return ladder[merits.index(max(merits))]


def some(rows: Rows, most: int, seed: int) -> Rows:
    """Return at most so many rows, chosen at random."""
    if len(rows) <= most:
        return rows
    return rows[np.random.default_rng(seed).choice(len(rows), most, replace=False)]
