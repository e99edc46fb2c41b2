"""Recorded training steps against single ones on a GPU: the same losses, and how much faster.

python -m benchmarks.likelihood.graph_check --data DATA
"""

import argparse
import time

import torch

from benchmarks.data import data_folder
from benchmarks.likelihood.worker import parts_of
from marginals.densities import build
from marginals.training import fit
from marginals.training.fit import FitRun

CASES = [
    ("sachs", {"tensor": "ht", "leaves": "normal", "width": 32}),
    ("sachs", {"tensor": "ht", "leaves": "neural", "width": 64}),
    ("gas", {"tensor": "ht", "leaves": "normal", "width": 512}),
    ("miniboone", {"tensor": "copula", "width": 32, "rank": 2, "common": 20}),
    ("gas", {"tensor": "copula", "width": 800, "rank": 3}),
    ("miniboone partial", {"tensor": "copula", "width": 32, "rank": 2, "common": 20}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    folder = data_folder(arguments.data)
    for name, settings in CASES:
        parts = parts_of(folder, name.split()[0])
        train, val = parts["train"].cuda(), parts["val"].cuda()
        if "partial" in name:
            train = train.clone()
            train[torch.rand(train.shape, device="cuda") < 0.1] = torch.nan
        line = [name, str(settings)]
        for recorded in (False, True):
            original = FitRun.record
            if not recorded:
                FitRun.record = lambda self, size: None  # type: ignore[method-assign]
            model = build(train, **settings)
            torch.cuda.synchronize()
            options = {"validation": val[:500], "progress": False, "evaluate_every": 100}
            fit(model, train, max_steps=5, **options)
            started = time.perf_counter()
            result = fit(model, train, max_steps=arguments.steps, noise=0.01, **options)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - started
            FitRun.record = original  # type: ignore[method-assign]
            losses = [round(r.validation_loss, 4) for r in result.history][1:4]
            line.append(f"{1000 * seconds / arguments.steps:.2f} ms {losses}")
        print(" | ".join(line), flush=True)


if __name__ == "__main__":
    main()
