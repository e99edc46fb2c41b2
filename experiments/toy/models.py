"""The models of the toy densities: the paper's, our default, and a spline flow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
import torch

from benchmarks.likelihood.neural import fit_nsf
from benchmarks.likelihood.sets import Rows, Split
from experiments import paper_model
from experiments.default_model import fit_default
from experiments.paper_model import Training

DEPTH, HIDDEN = 1, 3  # of the paper's networks
CHUNK = 5_000  # rows evaluated at a time
Density = Callable[[Rows, Sequence[int], float | None], Rows]


@final
@dataclass(frozen=True)
class Model:
    """A fitted model.

    Args:
        logpdf: rows (N, 3) to log densities (N,), in float64.
        sample: a number of rows to rows.
        density: points, their columns and a value of the third column, or None, to densities; None
            for a model without marginals.
        settings: what else one needs to know of the fit.
    """

    logpdf: Callable[[Rows], Rows]
    sample: Callable[[int], Any]
    density: Density | None
    settings: dict[str, Any]


def fit_paper(
    split: Split, *, width: int, batch: int, epochs: int, seed: int, device: str
) -> Model:
    """Fit the paper's model by the paper's start and rate, on a tree that knows nothing of data."""
    shape = {"width": width, "depth": DEPTH, "hidden": HIDDEN}
    how = {"batch": batch, "steps": epochs * len(split.train) // batch, "seed": seed}
    model, told = paper_model.fit_paper(
        split.train, split.val, Training(**shape, **how, device=device)
    )
    model.double()

    def density(points: Rows, columns: Sequence[int], third: float | None) -> Rows:
        x = torch.as_tensor(points, dtype=torch.float64, device=device)
        given = None if third is None else {2: third}
        with torch.no_grad():
            parts = [model.logpdf(part, columns, given) for part in x.split(CHUNK)]
        found: Rows = torch.cat(parts).exp().cpu().numpy()
        return found

    def sample(count: int) -> Any:
        return model.sample(count, generator=torch.Generator(device).manual_seed(seed)).cpu()

    return Model(lambda points: paper_model.logpdf(model, points), sample, density, told)


def fit_ours(split: Split, *, effort: str, seconds: float, seed: int, device: str) -> Model:
    """Fit the default of `MDMA`."""
    options = {"effort": effort, "max_seconds": seconds}
    model, told = fit_default(split.train, split.val, seed=seed, device=device, **options)
    model.module_.double()

    def density(points: Rows, columns: Sequence[int], third: float | None) -> Rows:
        frame = pd.DataFrame(points, columns=list(columns))
        return np.asarray(model.pdf(frame, given=None if third is None else {2: third}))

    def logpdf(points: Rows) -> Rows:
        return np.asarray(model.score_samples(points), dtype=np.float64)

    settings = {"effort": effort, **told}
    return Model(logpdf, lambda count: model.sample(count, random_state=seed), density, settings)


def fit_flow(split: Split, *, seconds: float, seed: int, device: str) -> Model:
    """Fit a neural spline flow, which has no marginals."""
    fitted = fit_nsf(split, seed=seed, device=device, seconds=seconds)
    assert fitted.exact is not None
    return Model(fitted.exact, fitted.sample, None, fitted.settings)
