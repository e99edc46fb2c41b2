"""Estimates of a copula from ranks: ours, the paper's model, a Gaussian copula, a vine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from scipy.special import ndtri
from scipy.stats import rankdata

from benchmarks.likelihood.classical import installed
from experiments.copulas.truth import Known, Rows, counted, gaussian_known, gaussian_logpdf, pairs
from experiments.default_model import fit_default
from experiments.paper_model import Training, fit_paper
from marginals.queries import Copula

DRAWS = 100_000  # of a vine, whose rank correlations and tails have no closed form


@final
@dataclass(frozen=True)
class Estimated:
    """An estimate of a copula: levels to log densities, if any, and what it says of pairs."""

    logpdf: Callable[[Rows], Rows] | None
    known: Known
    told: dict[str, Any]


def ranks(rows: Rows) -> Rows:
    """Return levels by ranks: margins are then no matter."""
    return (rankdata(rows, axis=0) - 0.5) / len(rows)


def ours(
    train: Rows, val: Rows, q: tuple[float, ...], seconds: float, seed: int, device: str
) -> Estimated:
    """Fit the default of `MDMA` to normal scores."""
    scores = (ndtri(ranks(rows)) for rows in (train, val))
    model, told = fit_default(*scores, seed=seed, device=device, max_seconds=seconds)
    return _asked(model.copula(), q, told)


def paper(train: Rows, val: Rows, q: tuple[float, ...], how: Training) -> Estimated:
    """Fit the paper's model to normal scores."""
    model, told = fit_paper(ndtri(ranks(train)), ndtri(ranks(val)), how)
    return _asked(Copula(model), q, told)


def gaussian(train: Rows, q: tuple[float, ...]) -> Estimated:
    """Fit a Gaussian copula: the correlations of normal scores."""
    correlation = np.corrcoef(ndtri(ranks(train)).T)
    return Estimated(
        lambda levels: gaussian_logpdf(levels, correlation), gaussian_known(correlation, q), {}
    )


def vine(train: Rows, q: tuple[float, ...], seed: int) -> Estimated:
    """Fit a vine of pair copulas, their families chosen by the package."""
    package = installed("pyvinecopulib")
    controls = package.FitControlsVinecop(num_threads=1)
    model = package.Vinecop.from_data(ranks(train), controls=controls)
    drawn = model.sample(DRAWS, seeds=[seed + 1])
    chosen = [each.family.name for tree in model.pair_copulas for each in tree]
    return Estimated(
        lambda levels: np.log(model.pdf(levels)), counted(drawn, q), {"families": chosen}
    )


def _asked(copula: Copula, q: tuple[float, ...], told: dict[str, Any]) -> Estimated:
    thresholds = torch.tensor(q, dtype=torch.float64)
    tau, rho, lower, upper = [], [], [], []
    for a, b in pairs(len(copula.names)):
        both = copula.rank_correlations(a, b)
        tau.append(both.kendall_tau.value)
        rho.append(both.spearman_rho.value)
        lower.append(copula.lower_tail(a, b, thresholds).tolist())
        upper.append(copula.upper_tail(a, b, thresholds).tolist())

    def logpdf(levels: Rows) -> Rows:
        found: Rows = copula.logpdf(torch.as_tensor(levels, dtype=torch.float64)).cpu().numpy()
        return found

    return Estimated(logpdf, Known(tau, rho, lower, upper), told)
