"""Densities by name, fitted to a split; a model that takes gaps learns from rows with gaps too."""

from dataclasses import replace
from typing import Any

from studies.data.density import Split
from studies.harness.available import check_choice
from studies.models.classical import fit_gmm, fit_kde, fit_vine
from studies.models.fitted import Fitted
from studies.models.neural import fit_einet, fit_nsf
from studies.models.ours import EFFORTS, PAPER, fit_default, fit_tensor

PEERS = ("gmm", "kde", "vine", "einet", "nsf")
OURS = ("ours", *EFFORTS)
TENSORS = ("paper", "nmdma", "ht")
TAKE_GAPS = (*OURS, "paper", "ht")


def fit_density(
    model: str, split: Split, *, seed: int, device: str, options: dict[str, Any]
) -> Fitted:
    """Fit a density by its name.

    Args:
        model: "ours" or an effort of ours; "paper", "nmdma" (normalised) or "ht" (from data, on the
            coupled tree); or one of `PEERS`.
        split: Rows to learn from and to choose by.
        seed: Seed of the fit.
        device: "cpu" or "cuda".
        options: Options of the fit, such as `seconds` or the sizes of a tensor.
    """
    check_choice("`models`", model, (*OURS, *TENSORS, *PEERS))
    if model not in TAKE_GAPS:
        split = replace(split, partial=None)
    shared = {"seed": seed, "device": device, **options}
    if model in OURS:
        effort = {} if model == "ours" else {"effort": model}
        return fit_default(split.all_train, split.val, **effort, **shared)
    if model in TENSORS:
        built = {} if model == "ht" else PAPER
        return fit_tensor(split.all_train, split.val, nmdma=model == "nmdma", **{**built, **shared})
    if model in ("einet", "nsf"):
        return (fit_einet if model == "einet" else fit_nsf)(split, **shared)
    fits = {"gmm": fit_gmm, "kde": fit_kde, "vine": fit_vine}
    return fits[model](split, seed)
