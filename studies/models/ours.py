"""Our estimator, and single models such as the paper's, fitted to continuous rows."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from marginals import MDMA, NMDMA, Continuous, build, fit
from studies.data.density import Rows
from studies.harness.machine import processor_seconds
from studies.harness.study import Settings
from studies.models.fitted import Fitted

EFFORTS = ("fast", "balanced", "best")
PAPER: dict[str, Any] = {
    "tree": "balanced",
    "init": "paper",
}  # on a tree that knows nothing of the data
SIZES = ("width", "depth", "hidden", "batch", "steps")
CHUNK = 5_000  # rows scored at a time


def sizes_of(settings: Settings) -> dict[str, Any]:
    """Return the settings of a study that say how large a model is and how it is trained."""
    return {name: getattr(settings, name) for name in SIZES}


def own_options(settings: Settings) -> dict[str, Any]:
    """Return the options of our estimator in studies that run it on one core, for so many seconds.

    With a limit on the steps, as in tests, one small model is fitted.
    """
    few = {"max_steps": settings.max_steps, "width": 4} if settings.max_steps else {}
    return {"n_jobs": 1, "max_seconds": settings.seconds, **few}


def fit_default(
    train: Rows, val: Rows, *, seed: int, device: str, alone: bool = True, **options: Any
) -> Fitted:
    """Fit `MDMA` to continuous columns; NaN is a missing cell.

    Args:
        train, val: Rows to learn from and to choose by.
        seed: Seed of the estimator.
        device: "cpu" or "cuda".
        alone: On a CPU, use one thread and let time limits count processor seconds.
        options: Options of the estimator, such as `effort`.
    """
    # Declared, not guessed: a mass on a point or a lattice has no density to compare with.
    columns = {column: Continuous() for column in range(train.shape[1])}
    options = {**({"n_jobs": 1} if alone else {}), **options}
    model = MDMA(columns=columns, device=device, progress=False, random_state=seed, **options)
    with processor_seconds(device) if alone else nullcontext():
        model.fit(train, validation=val)
    module = model.module_
    settings = {
        **options,
        "parameters": sum(p.numel() for p in module.parameters()),
        "members": [member for member in model.members_ if member["weight"] > 0],
    }

    def score(rows: Rows) -> Rows:
        return np.asarray(model.score_samples(rows), dtype=np.float64)

    def logpdf(points: Rows, chosen: Sequence[int], given: Mapping[int, float] | None) -> Rows:
        frame = pd.DataFrame(points, columns=list(chosen))
        return np.asarray(model.logpdf(frame, given=given), dtype=np.float64)

    def sample(count: int) -> Any:
        return model.sample(count, random_state=seed)

    return Fitted(score, sample, settings, in_double(module, score), logpdf, model)


def fit_tensor(
    train: Rows,
    val: Rows,
    *,
    seed: int,
    device: str,
    batch: int = 500,
    steps: int = 200_000,
    seconds: float | None = None,
    nmdma: bool = False,
    before: Callable[[Any], None] | None = None,
    **built: Any,
) -> Fitted:
    """Build one model and train it; the weights kept are those best on validation rows.

    Args:
        train, val: Rows; NaN is a missing cell.
        seed: Seed of the start and of the batches.
        device: "cpu" or "cuda".
        batch, steps, seconds: Rows of a step, and the most steps and seconds.
        nmdma: Put the normalised shift of columns of nMDMA in front.
        before: Called with the model before training.
        built: Options of `build`; those of the paper's model are `PAPER`.
    """
    rows, held = (torch.as_tensor(x, dtype=torch.float32, device=device) for x in (train, val))
    model: Any = build(rows, seed=seed, **built).to(device)
    if nmdma:
        model = NMDMA(model).to(device)
    if before is not None:
        before(model)
    result = fit(
        model,
        rows,
        validation=held,
        batch_size=min(batch, len(rows)),
        max_steps=steps,
        max_seconds=seconds,
        seed=seed,
        progress=False,
    )
    sizes = {name: value for name, value in built.items() if isinstance(value, int)}
    settings = {
        **sizes,
        "steps": result.steps,
        "stopped": result.stopped,
        "parameters": sum(p.numel() for p in model.parameters()),
    }

    def logpdf(points: Rows, chosen: Sequence[int], given: Mapping[int, float] | None) -> Rows:
        return in_parts(lambda x: model.logpdf(x, chosen, given), points, model)

    def score(points: Rows) -> Rows:
        return in_parts(model.logpdf, points, model)

    def sample(count: int) -> Any:
        return model.sample(count, generator=torch.Generator(device).manual_seed(seed)).cpu()

    return Fitted(score, sample, settings, in_double(model, score), logpdf, model)


def in_parts(score: Callable[[Tensor], Tensor], rows: Rows, module: Any) -> Rows:
    """Score rows some at a time, with the type and the device of a module's weights."""
    weight = next(module.parameters())
    x = torch.as_tensor(rows, dtype=weight.dtype, device=weight.device)
    with torch.no_grad():
        found: Rows = torch.cat([score(part) for part in x.split(CHUNK)]).double().cpu().numpy()
    return found


def in_double(module: Any, score: Callable[[Rows], Rows]) -> Callable[[Rows], Rows]:
    """Return a score that is computed in float64, whatever type the module has."""

    def exact(rows: Rows) -> Rows:
        dtype = next(module.parameters()).dtype
        module.double()
        try:
            return score(rows)
        finally:
            module.to(dtype)

    return exact
