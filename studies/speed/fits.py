"""Whole fits: the default estimator, a very wide table, the way to a score, and quality."""

import math
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from marginals import MDMA, build, fit
from marginals.training.config import rate_for_batch
from studies.data.density import splits
from studies.harness.available import Unavailable, installed
from studies.harness.study import Context, Record
from studies.speed import authors
from studies.speed.floor import synchronise
from studies.speed.shapes import Shape, table
from studies.speed.steps_and_queries import course, made
from studies.speed.timing import PeakMemory

HELD = 5000  # validation rows by which the way to a score is judged
LOOK = 50  # steps between two looks
HELD_DEFAULT = 10_000  # rows that the default estimator did not see
MOST_ROWS = 50_000  # of fits whose quality is compared
LARGE = 8  # times the batch
# By name: whether Triton's kernels are used, and the precision of products.
VARIANTS: dict[str, tuple[bool, str]] = {
    "plain kernels": (False, "full"),
    "fused, full": (True, "full"),
    "fused, bf16x3": (True, "bf16x3"),
    "fused, tf32": (True, "tf32"),
    "fused, tf32, large batches": (True, "tf32"),
}


def default(shape: Shape, device: str, *, target_s: float, **settings: Any) -> Record:
    """Time `MDMA().fit` with its defaults, and score rows it has not seen."""
    rows = table(shape.rows + HELD_DEFAULT, shape.columns, "cpu").numpy()
    model = MDMA(device=device, progress=False, random_state=0, **settings)
    started = time.perf_counter()
    model.fit(rows[: shape.rows])
    synchronise(device)
    seconds = time.perf_counter() - started
    held = float(model.score(rows[shape.rows :]))
    return {"seconds": round(seconds, 2), "target_s": target_s, "held_out": round(held, 4)}


def wide(shape: Shape, device: str, *, steps: int) -> Record:
    """Train a model of very many columns and say whether its loss fell."""
    meter = PeakMemory(device)
    x = table(shape.rows, shape.columns, device)
    model = made(shape, x, "data")
    started = time.perf_counter()
    history = course(model, x, shape, steps, steps).history
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "steps": steps,
        "loss_before": round(history[0].validation_loss, 3),
        "loss_after": round(history[-1].validation_loss, 3),
        "peak_mib": meter.mib(),
    }


def way(who: str, shape: Shape, context: Context, *, data: str, seconds: float) -> Record:
    """Train on a table and tell the held-out log-likelihood by seconds."""
    split, device = splits(data, context)[0], context.device
    train, held = (
        torch.as_tensor(rows, dtype=torch.float32, device=device)
        for rows in (split.train, split.val[:HELD])
    )
    if who == "ours":
        found = _ours(shape, train, held, seconds)
    elif who == "nsf":
        found = _flow(train, held, device, seconds, shape.batch)
    else:
        folder = Path(reference_of(context))
        found = authors.course(folder, shape, train, held, device, seconds)
    finite = [(round(t, 3), round(score, 4)) for t, score in found if math.isfinite(score)]
    if not finite:
        raise ValueError(f"Expected a finite held-out score; got none in {len(found)} looks.")
    return {"way": finite, "looks": len(found), "limit_s": seconds}


def reference_of(context: Context) -> str:
    """Return the folder of the authors' code."""
    if context.reference is None:
        raise Unavailable("Expected the folder of the authors' code; give it with --reference.")
    return context.reference


def _ours(shape: Shape, train: Tensor, held: Tensor, seconds: float) -> list[tuple[float, float]]:
    """Fit as a user would; the time to build the model counts too."""
    started = time.perf_counter()
    model = build(train, tensor="ht", width=shape.width, init="data")
    built = time.perf_counter() - started
    result = fit(
        model,
        train,
        validation=held,
        batch_size=shape.batch,
        max_steps=1_000_000,
        max_seconds=seconds,
        evaluate_every=LOOK,
        progress=False,
    )
    return [(built + record.seconds, -record.validation_loss) for record in result.history]


def _flow(
    train: Tensor, held: Tensor, device: str, seconds: float, batch: int
) -> list[tuple[float, float]]:
    """Train zuko's spline flow with Adam; the looks do not count."""
    flows = installed("zuko.flows")
    torch.manual_seed(0)
    flow = flows.NSF(train.shape[1], transforms=3, hidden_features=(128, 128)).to(device)
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-3)
    spent, found = 0.0, []
    while spent < seconds:
        started = time.perf_counter()
        for _ in range(LOOK):
            rows = torch.randint(len(train), (batch,), device=device)
            loss = -flow().log_prob(train[rows]).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
            optimiser.step()
        synchronise(device)
        spent += time.perf_counter() - started
        with torch.no_grad():
            found.append((spent, float(flow().log_prob(held).mean())))
    return found


def quality(variant: str, name: str, seed: int, context: Context, width: int, steps: int) -> Record:
    """Compare held-out likelihood by the way that steps are computed.

    Models, starts, batches and steps are the same. A last variant takes batches eight times as
    large, an eighth of the steps, and the rate of `rate_for_batch`.
    """
    split, device = splits(name, context)[0], context.device
    train, val, test = (
        torch.as_tensor(rows, dtype=torch.float32, device=device)
        for rows in (split.train[:MOST_ROWS], split.val, split.test)
    )
    fused, products = VARIANTS[variant]
    batch = 500
    if "large" in variant:
        batch, steps = batch * LARGE, max(1, steps // LARGE)
    model = build(train, tensor="ht", width=width, seed=seed)
    started = time.perf_counter()
    # Read by each contraction: the kernels are off for as long as the variable is set.
    with patch.dict(os.environ, {} if fused else {"MARGINALS_KERNELS": "plain"}):
        result = fit(
            model,
            train,
            validation=val,
            batch_size=batch,
            learning_rate=rate_for_batch(batch),
            max_steps=steps,
            evaluate_every=max(1, steps // 20),
            seed=seed,
            progress=False,
            products=products,
        )
        seconds = time.perf_counter() - started
        score = float(model.logpdf(test).detach().double().mean())
    figures = {"held_out": round(score, 4), "validation": round(-result.best_loss, 4)}
    sizes = {"steps": steps, "batch": batch, "width": width}
    return {**figures, "seconds": round(seconds, 2), **sizes}
