"""Whole fits: the default estimator, a table of a thousand columns, and the way to a score."""

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.data import load_density
from benchmarks.speed import ours, reference
from benchmarks.speed.floor import synchronise
from benchmarks.speed.shapes import Shape, table
from benchmarks.speed.timing import PeakMemory
from marginals.training import fit

HELD = 5000  # validation rows by which the way to a score is judged
LOOK = 50  # steps between two looks
HELD_DEFAULT = 10_000  # rows that the default estimator did not see


def default(shape: Shape, device: str, *, target_s: float, **settings: Any) -> dict[str, Any]:
    """Time `MDMA().fit` with its defaults, and score rows it has not seen."""
    from marginals import MDMA

    rows = table(shape.rows + HELD_DEFAULT, shape.columns, "cpu").numpy()
    model = MDMA(device=device, progress=False, random_state=0, **settings)
    started = time.perf_counter()
    model.fit(rows[: shape.rows])
    synchronise(device)
    seconds = time.perf_counter() - started
    held = float(model.score(rows[shape.rows :]))
    return {"seconds": round(seconds, 2), "target_s": target_s, "held_out": round(held, 4)}


def wide(shape: Shape, device: str, *, steps: int) -> dict[str, Any]:
    """Train a model of very many columns and say whether its loss fell."""
    meter = PeakMemory(device)
    x = table(shape.rows, shape.columns, device)
    model = ours.made(shape, x, "data")
    started = time.perf_counter()
    history = ours.course(model, x, shape, steps, steps).history
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "steps": steps,
        "loss_before": round(history[0].validation_loss, 3),
        "loss_after": round(history[-1].validation_loss, 3),
        "peak_mib": meter.mib(),
    }


def course(
    who: str, shape: Shape, device: str, folder: Path | None, *, data: str, seconds: float
) -> dict[str, Any]:
    """Train on the gas table and tell the held-out log-likelihood by seconds."""
    parts = load_density(Path(data), "gas")
    train, held = parts["train"].float().to(device), parts["val"][:HELD].float().to(device)
    if who == "ours":
        way = _ours(shape, train, held, seconds)
    elif who == "nsf":
        way = _flow(train, held, device, seconds, shape.batch)
    elif folder is not None:
        way = reference.course(folder, shape, train, held, device, seconds)
    else:
        raise ValueError("Expected the folder of the authors' code with `--reference`; got none.")
    finite = [(round(t, 3), round(score, 4)) for t, score in way if math.isfinite(score)]
    if not finite:
        raise ValueError(f"Expected a finite held-out score; got none in {len(way)} looks.")
    return {"way": finite, "looks": len(way), "limit_s": seconds}


def _ours(shape: Shape, train: Tensor, held: Tensor, seconds: float) -> list[tuple[float, float]]:
    """Fit as a user would; what building the model took counts too."""
    started = time.perf_counter()
    model = ours.build(train, tensor="ht", width=shape.width, init="data")
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
    from zuko.flows import NSF

    torch.manual_seed(0)
    flow = NSF(train.shape[1], transforms=3, hidden_features=(128, 128)).to(device)
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-3)
    spent, way = 0.0, []
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
            way.append((spent, float(flow().log_prob(held).mean())))
    return way
