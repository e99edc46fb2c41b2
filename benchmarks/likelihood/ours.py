"""Our models: the default at each effort, and the paper's."""

from typing import Any

import numpy as np
import torch

from benchmarks.likelihood.fitted import Fitted
from benchmarks.likelihood.sets import Rows, Split
from marginals import MDMA, Continuous, build, fit

EFFORTS = ("fast", "balanced", "best")
PAPER_WIDTH = {"cuda": 500, "cpu": 100}
CHUNK = 10_000  # rows scored at a time


def fit_default(split: Split, *, seed: int, device: str, **settings: Any) -> Fitted:
    """Fit the estimator; `settings` are its own, of which `effort` is the usual one."""
    rows = training_rows(split)
    # Declared, not guessed: a mass on a point or a lattice is no density to compare with.
    columns = {column: Continuous() for column in range(rows.shape[1])}
    model = MDMA(columns=columns, device=device, progress=False, random_state=seed, **settings)
    model.fit(rows, validation=split.val)
    module = model.module_
    told = {
        **settings,
        "parameters": sum(p.numel() for p in module.parameters()),
        "members": [member for member in model.members_ if member["weight"] > 0],
    }

    def score(found: Rows) -> Rows:
        return np.asarray(model.score_samples(found), dtype=np.float64)

    def exact(found: Rows) -> Rows:
        dtype = next(module.parameters()).dtype
        module.double()
        try:
            return score(found)
        finally:
            module.to(dtype)

    return Fitted(score, lambda count: model.sample(count, random_state=seed), told, exact)


def fit_paper(
    split: Split, *, seed: int, device: str, seconds: float, width: int | None = None
) -> Fitted:
    """Fit the paper's model as the paper starts and trains it; the time limit binds."""
    rows = torch.as_tensor(training_rows(split), dtype=torch.float32, device=device)
    val = torch.as_tensor(split.val, dtype=torch.float32, device=device)
    width = width or PAPER_WIDTH[torch.device(device).type]
    model = build(rows, tensor="ht", leaves="neural", init="paper", width=width, seed=seed)
    model = model.to(device)
    result = fit(
        model,
        rows,
        validation=val,
        learning_rate=0.01,
        batch_size=500,
        max_seconds=seconds,
        max_steps=200_000,
        seed=seed,
        progress=False,
    )
    settings = {
        "width": width,
        "steps": result.steps,
        "stopped": result.stopped,
        "parameters": sum(p.numel() for p in model.parameters()),
    }

    def score(found: Rows) -> Rows:
        x = torch.as_tensor(found, dtype=next(model.parameters()).dtype, device=device)
        with torch.no_grad():
            parts = [model.logpdf(part) for part in x.split(CHUNK)]
        return torch.cat(parts).double().cpu().numpy()

    def exact(found: Rows) -> Rows:
        model.double()
        try:
            return score(found)
        finally:
            model.float()

    def sample(count: int) -> Any:
        generator = torch.Generator(device).manual_seed(seed)
        return model.sample(count, generator=generator).cpu()

    return Fitted(score, sample, settings, exact)


def training_rows(split: Split) -> Rows:
    """Return the training rows, those with missing cells among them where there are any."""
    return split.train if split.partial is None else np.concatenate([split.train, split.partial])
