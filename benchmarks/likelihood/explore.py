"""Fit many single models and keep their validation scores, to choose what the default is made of.

    python -m benchmarks.likelihood.explore --data DATA --out explore --seconds 50 --workers 8

Writes one file of scores for each fit and a table; mixtures of them are then looked at without
fitting anything again. Test scores are neither computed nor kept here.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import data_folder, load_density
from benchmarks.likelihood.worker import explore_one
from marginals.numerics import logsumexp
from marginals.selection.ensemble import mixture_weights, warm_up

SMALL = [
    {"tensor": "ht", "leaves": "normal", "width": 32},
    {"tensor": "ht", "leaves": "normal", "width": 128},
    {"tensor": "ht", "leaves": "neural", "width": 64},
    {"tensor": "copula", "width": 8, "rank": 2, "common": 20},
    {"tensor": "copula", "width": 32, "rank": 2, "common": 20},
    {"tensor": "copula", "width": 100, "rank": 1, "common": 10},
    {"tensor": "copula", "width": 32, "rank": 5, "common": 0},
]
LARGE = [
    {"tensor": "ht", "leaves": "normal", "width": 128},
    {"tensor": "ht", "leaves": "normal", "width": 512},
    {"tensor": "ht", "leaves": "neural", "width": 256},
    {"tensor": "copula", "width": 100, "rank": 1, "common": 10},
    {"tensor": "copula", "width": 400, "rank": 1, "common": 4},
    {"tensor": "copula", "width": 1000, "rank": 1, "common": 4},
    {"tensor": "copula", "width": 1000, "rank": 3, "common": 0},
]
SWEEP_SMALL = [
    {"tensor": "copula", "width": 32, "rank": 2, "common": 20, "noise": 0.06},
    {"tensor": "copula", "width": 32, "rank": 2, "common": 20, "noise": 0.12},
    {"tensor": "copula", "width": 32, "rank": 2, "common": 20, "averaging": 0.99},
    {"tensor": "copula", "width": 32, "rank": 1, "common": 32, "noise": 0.06},
    {"tensor": "copula", "width": 64, "rank": 2, "common": 20, "noise": 0.06},
    {"tensor": "ht", "leaves": "normal", "width": 32, "noise": 0.06},
    {"tensor": "ht", "leaves": "normal", "width": 32, "averaging": 0.99},
    {"tensor": "ht", "leaves": "neural", "width": 64, "noise": 0.1},
    {"tensor": "ht", "leaves": "neural", "width": 32, "noise": 0.06, "averaging": 0.99},
    {"tensor": "copula", "width": 32, "rank": 2, "common": 20, "decay": 0.3},
]
SWEEP_LARGE = [
    {"tensor": "copula", "width": 1000, "rank": 1, "common": 4, "averaging": 0.99},
    {"tensor": "copula", "width": 1000, "rank": 1, "common": 4, "noise": 0.003},
    {"tensor": "copula", "width": 1000, "rank": 1, "common": 4, "noise": 0.03},
    {"tensor": "copula", "width": 600, "rank": 1, "common": 8},
    {"tensor": "copula", "width": 2000, "rank": 1, "common": 4},
    {"tensor": "ht", "leaves": "normal", "width": 256, "averaging": 0.99},
    {"tensor": "ht", "leaves": "neural", "width": 500, "averaging": 0.99},
]
SETS = {
    "miniboone": (SMALL, 0.03),
    "hepmass": (SMALL, 0.03),
    "sachs": (SMALL, 0.03),
    "gas": (LARGE, 0.01),
    "protein": (LARGE, 0.01),
    "power": (LARGE, 0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets, default MARGINALS_DATA")
    parser.add_argument("--out", required=True, help="folder of results")
    parser.add_argument("--name", nargs="+", default=list(SETS))
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--sweep", action="store_true", help="noise, averaging and ranks instead")
    parser.add_argument("--extra", default="[]", help="further settings as a JSON list")
    arguments = parser.parse_args()
    folder = data_folder(arguments.data)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    jobs: list[dict[str, Any]] = []
    for name in arguments.name:
        load_density(folder, name)  # says so at once if it is not there
        chosen, noise = SETS[name]
        if arguments.sweep:
            chosen = SWEEP_SMALL if chosen is SMALL else SWEEP_LARGE
        for number, settings in enumerate(json.loads(arguments.extra) or chosen):
            jobs.append(
                {"noise": noise, **settings, "name": name, "folder": str(folder), "seed": number}
                | {"seconds": arguments.seconds, "device": device}
            )
    warm_up(device)
    started = time.perf_counter()
    with ThreadPoolExecutor(arguments.workers) as pool:
        for done, (job, line, scores) in enumerate(pool.map(explore_one, jobs), 1):
            np.save(out / f"{job['name']}_{job['seed']}.npy", scores)
            with open(out / "table.jsonl", "a") as table:
                table.write(json.dumps({**job, **line}) + "\n")
            shown = {k: job[k] for k in ("tensor", "width", "leaves", "rank", "common") if k in job}
            label = f"{job['name']} {shown} noise={job['noise']}"
            print(f"{done}/{len(jobs)} {label} {line}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s")
    for name in arguments.name:
        report(out, name)


def report(out: Path, name: str) -> None:
    """Print what the members would weigh in a mixture, and its score."""
    files = sorted(out.glob(f"{name}_*.npy"), key=lambda p: int(p.stem.rpartition("_")[2]))
    scores = torch.from_numpy(np.stack([np.load(f) for f in files], -1)).double()
    weights = mixture_weights(scores)
    mixed = float(logsumexp(scores + weights.log()).mean())
    single = [round(float(s), 2) for s in scores.mean(0)]
    print(name, "mixture", round(mixed, 3), [round(float(w), 2) for w in weights], single)


if __name__ == "__main__":
    main()
