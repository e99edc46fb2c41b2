"""What one process of the likelihood benchmark does."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import load_density
from marginals.densities import build
from marginals.training import fit

BUILD = ("tensor", "leaves", "width", "rank", "common", "tree", "seed")


def parts_of(folder: Path, name: str, rows: int | None = None) -> dict[str, torch.Tensor]:
    """Load a data set; if told so, the first rows of its training part."""
    parts = load_density(folder, name)
    limits = {"train": rows, "val": 10_000, "test": None}
    return {part: parts[part][:limit] for part, limit in limits.items()}


def explore_one(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    """Fit one model; return the job, how it went, and the scores of the validation rows."""
    if job["device"] != "cpu":
        torch.cuda.set_stream(torch.cuda.Stream())
    parts = parts_of(Path(job["folder"]), job["name"])
    train, val = (parts[p].to(job["device"]) for p in ("train", "val"))
    started = time.perf_counter()
    model = build(train, **{key: job[key] for key in BUILD if key in job})
    result = fit(
        model,
        train,
        validation=val,
        noise=job["noise"],
        learning_rate=job.get("rate", 0.01),
        averaging=job.get("averaging", 0.0),
        weight_decay=job.get("decay", 0.0),
        max_seconds=job["seconds"],
        max_steps=200_000,
        seed=job["seed"],
        progress=False,
    )
    seconds = time.perf_counter() - started
    with torch.no_grad():
        scores = model.logpdf(val).cpu().numpy()
    line = {
        "val": round(-result.best_loss, 3),
        "steps": result.steps,
        "stopped": result.stopped,
        "seconds": round(seconds, 1),
        "ms": round(1000 * seconds / max(1, result.steps), 2),
    }
    return job, line, scores
