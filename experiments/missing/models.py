"""The paper's model and our default on the marginal likelihood; a flow on filled rows."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from sklearn.impute import KNNImputer, SimpleImputer

from benchmarks.likelihood.classical import installed
from benchmarks.likelihood.neural import Runner
from benchmarks.likelihood.sets import Rows, Split
from experiments.default_model import fit_default
from experiments.missing.data import complete, known
from experiments.paper_model import Training, fit_paper, logpdf

NEIGHBOURS = 3
BLOCK = 5_000  # rows among which neighbours are looked for, as the authors do in blocks
Score = Callable[[Rows], Rows]
Fitted = tuple[Score, dict[str, Any]]


def paper(split: Split, how: Training) -> Fitted:
    """Fit the paper's model to the cells there are."""
    model, told = fit_paper(known(split.train), known(split.val), how)
    model.double()
    return (lambda rows: logpdf(model, rows)), told


def ours(split: Split, seconds: float, seed: int, device: str) -> Fitted:
    """Fit the default of `MDMA` to the cells there are."""
    rows = (known(split.train), known(split.val))
    model, told = fit_default(*rows, seed=seed, device=device, max_seconds=seconds)
    model.module_.double()
    return (lambda rows: np.asarray(model.score_samples(rows))), told


def flow(split: Split, transforms: int, hidden: int, seconds: float, device: str) -> Fitted:
    """Fit a neural spline flow to complete rows, judged by complete validation rows."""
    module = installed("zuko.flows").NSF(
        split.train.shape[1], transforms=transforms, hidden_features=(hidden, hidden)
    )
    settings = {"transforms": transforms, "rate": 1e-3, "decay": 0.0}
    runner = Runner(module, lambda rows: module().log_prob(rows), settings, split, device)
    runner.advance(seconds)
    module.double()

    def score(rows: Rows) -> Rows:
        x = torch.as_tensor(rows, dtype=torch.float64, device=device)
        with torch.no_grad():
            parts = [module().log_prob(part) for part in x.split(BLOCK)]
        found: Rows = torch.cat(parts).cpu().numpy()
        return found

    return score, {**settings, "hidden": hidden, "steps": runner.steps}


# Filling gaps -----------------------------------------------------------------------------------


def filled(split: Split, how: str, seed: int) -> Split:
    """Fill the gaps of training and validation rows, the latter by the former except for "knn"."""
    if how == "drop":
        return replace(split, train=complete(split.train), val=complete(split.val))
    train, val = known(split.train), known(split.val)
    if how == "knn":
        train, val = (_by_neighbours(rows) for rows in (train, val))
        return replace(split, train=train, val=val)
    if how not in ("mean", "mice"):
        raise SystemExit(f"Expected a flow on mice, knn, mean or drop; got {how!r}.")
    imputer = SimpleImputer() if how == "mean" else _mice(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on most tables, that it has not converged
        train = imputer.fit_transform(train)
        return replace(split, train=train, val=imputer.transform(val))


def _by_neighbours(rows: Rows) -> Rows:
    blocks = np.array_split(rows, max(1, round(len(rows) / BLOCK)))
    return np.concatenate([KNNImputer(n_neighbors=NEIGHBOURS).fit_transform(b) for b in blocks])


def _mice(seed: int) -> Any:
    """Return chained regressions that draw what they fill in, as MICE does."""
    import_module("sklearn.experimental.enable_iterative_imputer")
    from sklearn.impute import IterativeImputer

    return IterativeImputer(sample_posterior=True, random_state=seed)
