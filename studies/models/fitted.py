"""What a fitted density offers, and how settings are chosen on validation rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
import torch
from scipy.special import logsumexp

from marginals.numerics.scoring_rules import mass_crps
from studies.data.density import Rows

CELL_POINTS = 32  # points of each cell over which a density is averaged
ANSWER_POINTS = 401  # values of a hidden cell at which a density is evaluated
Setting = TypeVar("Setting")
LogDensity = Callable[[Rows, Sequence[int], Mapping[int, float] | None], Rows]


@final
@dataclass(frozen=True)
class Fitted:
    """A fitted density.

    Args:
        score: Rows (N, D) to log densities (N,), as a user would call it; this one is timed.
        sample: A number of rows to rows.
        settings: What was chosen, and what else one needs to know of the fit.
        exact: `score` in float64 where `score` has less; its figures are reported.
        logpdf: Points, their columns and values of other columns to conditional log densities;
            None for models without marginals.
        model: The estimator or the module itself.
    """

    score: Callable[[Rows], Rows]
    sample: Callable[[int], Any]
    settings: dict[str, Any]
    exact: Callable[[Rows], Rows]
    logpdf: LogDensity | None = None
    model: Any = None

    @property
    def told(self) -> dict[str, Any]:
        """The settings, with only the number of an ensemble's members."""
        members = self.settings.get("members")
        return self.settings if members is None else {**self.settings, "members": len(members)}


def merit(scores: Rows) -> tuple[int, float]:
    """Order candidates by validation scores: fewest impossible rows first, then the mean.

    The plain mean would be -inf for each candidate that finds one row impossible.
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


def over_cells(score: Callable[[Rows], Rows], rows: Rows, widths: Rows, seed: int) -> float:
    """Return the mean log of the density averaged over each row's cell, from random points.

    This is the cell's mass in the density's unit, so that a spike on a grid's value gains nothing.

    Args:
        score: Rows to log densities.
        rows: Rows on the grid.
        widths: The step of each column, 0 for columns without a grid.
        seed: Seed of the points.
    """
    random = np.random.default_rng(seed)
    spread = random.uniform(-0.5, 0.5, size=(CELL_POINTS, *rows.shape)) * widths
    scores = score((rows + spread).reshape(-1, rows.shape[1])).reshape(CELL_POINTS, -1)
    return float((logsumexp(scores, axis=0) - np.log(CELL_POINTS)).mean())


def answers(score: Callable[[Rows], Rows], train: Rows, rows: Rows, seed: int) -> float:
    """Hide a random cell of each row and return the mean CRPS of its conditional given the others.

    The conditional is the joint density along the column, normalised over quantiles of the training
    rows and a margin beyond their ends. That serves every model with a density, in the same way; an
    answer is no finer than the distance between two quantiles.

    Args:
        score: Rows to log densities.
        train: Training rows; NaN is a missing cell.
        rows: Complete rows to hide cells of.
        seed: Seed of the hidden cells.

    Returns:
        The mean over rows, in standard deviations of the columns.
    """
    hidden = np.random.default_rng(seed).integers(rows.shape[1], size=len(rows))
    found = []
    for j in np.unique(hidden):
        own, unit = rows[hidden == j], np.nanstd(train[:, j])
        inner = np.nanquantile(train[:, j], np.linspace(0, 1, ANSWER_POINTS - 20))
        ends = np.linspace(0.05, 0.5, 10) * unit
        values = np.unique(np.r_[inner[0] - ends, inner, inner[-1] + ends])  # (V,)
        asked = np.repeat(own[None], len(values), 0)  # (V, B, D)
        asked[:, :, j] = values[:, None]
        logs = score(asked.reshape(-1, rows.shape[1])).reshape(len(values), -1)
        logs += np.log(np.gradient(values))[:, None]
        masses = np.exp(logs - logsumexp(logs, axis=0))
        given = (values / unit, masses, own[:, j] / unit)
        found.append(mass_crps(*(torch.as_tensor(x, dtype=torch.float64) for x in given)))
    return float(torch.cat(found).mean())


def summary(scores: Rows) -> dict[str, Any]:
    """Describe the scores of test rows; every row counts in every figure."""
    undefined = np.isnan(scores)
    # A row without a score is one that the model failed on: it counts as impossible.
    scores = np.where(undefined, -np.inf, scores)
    return {
        "test_mean": float(scores.mean()),
        "test_median": float(np.median(scores)),
        "test_min": float(scores.min()),
        "test_rows": len(scores),
        "rows_minus_inf": int(np.isneginf(scores).sum()),
        "rows_undefined": int(undefined.sum()),
    }
