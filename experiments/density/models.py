"""The models of the table: the paper's, nMDMA, HT from data, our default, and peers."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, final

import torch

from benchmarks.clock import cpu_seconds
from benchmarks.likelihood.classical import fit_gmm, fit_vine
from benchmarks.likelihood.fitted import Fitted
from benchmarks.likelihood.neural import fit_einet, fit_nsf
from benchmarks.likelihood.ours import fit_default, training_rows
from benchmarks.likelihood.sets import Rows, Split
from marginals import build, fit
from marginals.densities.nmdma import NMDMA

CHUNK = 2_000  # rows scored at a time: 4000 components of GAS take gigabytes
BATCH = 500
RATE = 0.01
OWN = ("paper", "nmdma", "ht")  # trained alike, for the same steps and seconds


@final
@dataclass(frozen=True)
class Size:
    """The paper's m, l and r; by the authors' code l layers have l - 1 hidden ones."""

    width: int = 1000
    layers: int = 2
    hidden: int = 3


SIZES = {"gas": Size(4000, 4, 5)}  # of the other sets, as above


@final
@dataclass(frozen=True)
class Budget:
    """What a fit may take.

    Args:
        width: the most components.
        steps, seconds: the most of a fit of a model of ours.
        effort, ours_seconds: of the default.
        einet_seconds, nsf_seconds: of an Einsum network and of a flow.
    """

    width: int
    steps: int
    seconds: float
    effort: str
    ours_seconds: float
    einet_seconds: float
    nsf_seconds: float


def fit_model(model: str, split: Split, budget: Budget, seed: int, device: str) -> Fitted:
    """Fit a model by its name; rows with missing cells go to those that take them."""
    if model in OWN:
        return _fit_own(model, split, budget, seed, device)
    if model == "ours":
        return _fit_ours(split, budget, seed, device)
    whole = replace(split, partial=None)
    if model == "gmm":
        return fit_gmm(whole, seed=seed)
    if model == "vine":
        return fit_vine(whole, seed=seed)
    if model == "einet":
        return fit_einet(whole, seed=seed, device=device, seconds=budget.einet_seconds)
    if model == "nsf":
        return fit_nsf(whole, seed=seed, device=device, seconds=budget.nsf_seconds)
    raise SystemExit(
        f"Expected `models` to be among {', '.join((*OWN, 'ours'))}, gmm, vine, einet and nsf; "
        f"got {model!r}."
    )


def _fit_ours(split: Split, budget: Budget, seed: int, device: str) -> Fitted:
    """Fit the default; on a CPU its limit is in seconds of the process, not of the wall."""
    with nullcontext() if device == "cuda" else cpu_seconds():
        return fit_default(
            split,
            seed=seed,
            device=device,
            effort=budget.effort,
            max_seconds=budget.ours_seconds,
            n_jobs=1,
        )


def takes_gaps(model: str) -> bool:
    """Return whether a model learns from rows with missing cells."""
    return model in ("paper", "ht", "ours")


def _fit_own(model: str, split: Split, budget: Budget, seed: int, device: str) -> Fitted:
    """Fit hierarchical Tucker by Adam, batches of 500 and rate 0.01.

    "paper" starts as the paper does, on a tree that knows nothing of data, as the authors' script;
    "nmdma" has the shift of columns in front of that; "ht" starts from data on the coupled tree.
    """
    size = SIZES.get(split.name, Size())
    chosen = training_rows(split) if takes_gaps(model) else split.train
    rows = torch.as_tensor(chosen, dtype=torch.float32, device=device)
    width = min(size.width, budget.width)
    from_data = model == "ht"
    inner = build(
        rows,
        width=width,
        depth=size.layers - 1,
        hidden=size.hidden,
        tree="coupled" if from_data else "balanced",
        init="data" if from_data else "paper",
        seed=seed,
    )
    module = NMDMA(inner).to(device) if model == "nmdma" else inner
    result = fit(
        module,
        rows,
        validation=torch.as_tensor(split.val, dtype=torch.float32, device=device),
        batch_size=min(BATCH, len(rows)),
        learning_rate=RATE,
        max_steps=budget.steps,
        max_seconds=budget.seconds,
        seed=seed,
        progress=False,
    )

    def exact(found: Rows) -> Rows:
        x = torch.as_tensor(found, dtype=torch.float64, device=device)
        module.double()
        with torch.no_grad():
            parts = [module.logpdf(part) for part in x.split(CHUNK)]
        scores: Rows = torch.cat(parts).cpu().numpy()
        return scores

    def sample(count: int) -> Any:
        return module.sample(count, generator=torch.Generator(device).manual_seed(seed)).cpu()

    told = {"width": width, "steps": result.steps, "stopped": result.stopped}
    return Fitted(exact, sample, told)
