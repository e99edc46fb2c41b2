"""Densities without gradients: Gaussian mixture, kernel density, vine copula."""

import warnings
from functools import cache
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from studies.data.density import Rows, Split, some
from studies.harness.available import installed
from studies.models.fitted import Fitted, best_of, climb

FLOORS = (1e-6, 1e-4, 1e-3, 1e-2)  # added to the variances of the mixture
FEW = tuple(range(1, 11))
MANY = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 56, 80)
FEW_ROWS = 2_000  # up to here every number of components is tried with every floor
SEARCH_ROWS = 20_000  # on which settings are chosen; the chosen one is then fitted on all rows
KERNELS = 20_000  # of the kernel density: its queries cost as much as it has rows
JUDGED = 10_000  # validation rows by which the bandwidth is chosen
BANDWIDTHS = tuple(float(b) for b in np.geomspace(1.5, 0.01, 20))  # the wide ones first
VINE_ROWS = 20_000  # of the vine: from 200,000 rows it had not ended after eight minutes
SMOOTHING = (0.5, 1.0, 2.0)  # of the vine's pair copulas, times its own choice


def fit_gmm(split: Split, seed: int) -> Fitted:
    """Fit a full-covariance Gaussian mixture; components and floor are chosen on validation."""
    rows = some(split.train, SEARCH_ROWS, seed)

    @cache
    def tried(components: int, floor: float) -> GaussianMixture:
        return _mixture(rows, components, floor, seed)

    def judge(setting: tuple[int, float]) -> Rows:
        return tried(*setting).score_samples(split.val)

    if len(split.train) <= FEW_ROWS:
        most = len(split.train) // 2
        chosen = best_of([(k, f) for k in FEW if k <= most for f in FLOORS], judge)
    else:
        chosen = climb([(k, FLOORS[2]) for k in MANY], judge)
        chosen = best_of([(chosen[0], floor) for floor in FLOORS], judge)
    model = tried(*chosen)
    if len(rows) < len(split.train):
        model = _mixture(split.train, *chosen, seed, start=model)
    settings = {"components": chosen[0], "reg_covar": chosen[1], "search_rows": len(rows)}
    return Fitted(model.score_samples, model.sample, settings, model.score_samples, model=model)


def _mixture(
    rows: Rows, components: int, floor: float, seed: int, start: GaussianMixture | None = None
) -> GaussianMixture:
    model = GaussianMixture(components, reg_covar=floor, random_state=seed, max_iter=200)
    if start is not None:
        model.set_params(
            weights_init=start.weights_, means_init=start.means_, precisions_init=start.precisions_
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # validation judges what came out
        return model.fit(rows)


def fit_kde(split: Split, seed: int) -> Fitted:
    """Fit a Gaussian kernel density; its bandwidth is chosen on validation."""
    rows, judged = some(split.train, KERNELS, seed), some(split.val, JUDGED, seed)

    def kernels(bandwidth: float) -> KernelDensity:
        return KernelDensity(bandwidth=bandwidth).fit(rows)

    chosen = climb(BANDWIDTHS, lambda bandwidth: kernels(bandwidth).score_samples(judged))
    model = kernels(chosen)
    settings = {"bandwidth": chosen, "kernels": len(rows), "of_rows": len(split.train)}

    def sample(count: int) -> Any:
        return model.sample(count, random_state=seed)

    return Fitted(model.score_samples, sample, settings, model.score_samples)


def fit_vine(split: Split, seed: int) -> Fitted:
    """Fit a vine of nonparametric pair copulas; their smoothing is chosen on validation."""
    package = installed("pyvinecopulib")
    rows = some(split.train, VINE_ROWS, seed)

    @cache
    def tried(smoothing: float) -> Any:
        controls = package.FitControlsVinecop(
            family_set=[package.BicopFamily.tll], nonparametric_mult=smoothing, num_threads=1
        )
        return package.Vinedist.from_data(rows, controls=controls)

    chosen = best_of(SMOOTHING, lambda smoothing: tried(smoothing).logpdf(split.val))
    model = tried(chosen)
    settings = {"family": "tll", "nonparametric_mult": chosen, "rows": len(rows)}

    def sample(count: int) -> Any:
        return model.sample(count, seeds=[seed + 1])

    return Fitted(model.logpdf, sample, settings, model.logpdf)
