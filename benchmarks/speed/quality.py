"""Whether speed costs quality: held-out likelihood with plain and fused kernels, by precision.

    python -m benchmarks.speed.quality --device cuda --data DATA

The same models, starts, batches and steps; what differs is how a step is computed. A last variant
takes batches eight times as large, an eighth of the steps, and the rate of `rate_for_batch`.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.data import data_folder, load_density
from benchmarks.pages import command
from benchmarks.records import merged, origin, read, write
from benchmarks.speed.record import KEY, PACKAGES
from marginals import build
from marginals.training import fit
from marginals.training.config import rate_for_batch

SETS = ("gas", "protein", "power")
MOST_ROWS = 50_000
LARGE = 8  # times the batch
# By name: whether Triton's kernels are used, and settings.
VARIANTS: dict[str, tuple[bool, dict[str, Any]]] = {
    "plain kernels": (False, {"products": "full"}),
    "fused, full": (True, {"products": "full"}),
    "fused, bf16x3": (True, {"products": "bf16x3"}),
    "fused, tf32": (True, {"products": "tf32"}),
    "fused, tf32, large batches": (True, {"products": "tf32"}),
}


def measure(folder: Path, name: str, variant: str, seed: int, asked: argparse.Namespace) -> Any:
    """Fit once; return the mean log-likelihood of test rows and what it took."""
    parts = {key: x.float().to(asked.device) for key, x in load_density(folder, name).items()}
    train = parts["train"][:MOST_ROWS]
    fused, settings = VARIANTS[variant]
    batch, steps = 500, asked.steps
    if "large" in variant:
        batch, steps = batch * LARGE, steps // LARGE
    model = build(train, tensor="ht", width=asked.width, seed=seed)
    started = time.perf_counter()
    with mock.patch.dict(os.environ, MARGINALS_KERNELS="fused" if fused else "plain"):
        result = fit(
            model,
            train,
            validation=parts["val"],
            batch_size=batch,
            learning_rate=rate_for_batch(batch),
            max_steps=steps,
            evaluate_every=max(1, steps // 20),
            seed=seed,
            progress=False,
            **settings,
        )
        seconds = time.perf_counter() - started
        score = float(model.logpdf(parts["test"]).detach().double().mean())
    return {
        **{"held_out": round(score, 4), "validation": round(-result.best_loss, 4)},
        **{"seconds": round(seconds, 2), "steps": steps, "batch": batch, "width": asked.width},
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--width", type=int, default=250)
    parser.add_argument("--steps", type=int, default=2000)
    asked = parser.parse_args(words)
    every = read(asked.out) if asked.out.exists() else []
    told = ["--device", asked.device, "--width", str(asked.width), "--steps", str(asked.steps)]
    about = {"command": command("benchmarks.speed.quality", told)}
    for name in asked.sets:
        for seed in asked.seeds:
            for variant in VARIANTS:
                found = measure(data_folder(asked.data), name, variant, seed, asked)
                first = {"part": "quality", "who": variant, "device": asked.device, "case": name}
                record = {**first, "what": f"seed {seed}", **found, **about, **origin(PACKAGES)}
                every = merged([*every, record], KEY)
                write(asked.out, every)
                print(f"{name} {seed} {variant}: {found}", flush=True)


if __name__ == "__main__":
    main()
