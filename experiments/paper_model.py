"""The paper's model: its tree, its start and its rate, for experiments that need no more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from marginals import Density, build, fit

CHUNK = 10_000  # rows scored at a time
Rows = np.ndarray[Any, np.dtype[np.float64]]


@final
@dataclass(frozen=True)
class Training:
    """How the paper's model is built and trained.

    Args:
        width: components m.
        depth, hidden: hidden layers, l - 1 in the authors' code, and units r of the networks.
        batch: rows of a step.
        steps: at most.
        seed: of the start and the batches.
        device: where.
    """

    width: int
    depth: int
    hidden: int
    batch: int
    steps: int
    seed: int
    device: str


def fit_paper(train: Rows, validation: Rows, how: Training) -> tuple[Density, dict[str, Any]]:
    """Fit to rows, in which NaN is a missing cell; return the model and the settings.

    The weights kept are those best on validation rows, and the rate falls when these stop gaining.
    """
    rows = torch.as_tensor(train, dtype=torch.float32, device=how.device)
    model = build(
        rows,
        width=how.width,
        depth=how.depth,
        hidden=how.hidden,
        tree="balanced",
        init="paper",
        seed=how.seed,
    )
    result = fit(
        model,
        rows,
        validation=torch.as_tensor(validation, dtype=torch.float32, device=how.device),
        batch_size=how.batch,
        max_steps=how.steps,
        seed=how.seed,
        progress=False,
    )
    told = {
        "width": how.width,
        "depth": how.depth,
        "hidden": how.hidden,
        "steps": result.steps,
        "stopped": result.stopped,
    }
    return model, told


def logpdf(model: Density, rows: Rows, columns: Sequence[int] | None = None) -> Rows:
    """Return log densities of rows (N, n), of these columns alone if they are given."""
    some = next(model.parameters())
    x = torch.as_tensor(rows, dtype=some.dtype, device=some.device)
    with torch.no_grad():
        parts = [model.logpdf(part, columns) for part in x.split(CHUNK)]
    found: Rows = torch.cat(parts).double().cpu().numpy()
    return found
