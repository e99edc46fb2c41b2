"""Fit many single models and keep their validation scores, to choose what the default is made of.

    python -m benchmarks.likelihood.explore --data DATA --out explore --seconds 50 --workers 8

Writes one file of scores for each fit and a table; mixtures of them are then looked at without
fitting anything again. Test scores are neither computed nor kept here.
"""

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import data_folder, load_density
from benchmarks.likelihood.worker import explore_one

SMALL = [
    {"tensor": "ht", "leaves": "normal", "width": 32},
    {"tensor": "ht", "leaves": "normal", "width": 64},
    {"tensor": "ht", "leaves": "normal", "width": 32, "noise": 0.1},
    {"tensor": "ht", "leaves": "neural", "width": 64},
    {"tensor": "copula", "width": 8, "rank": 5, "common": 0},
    {"tensor": "copula", "width": 24, "rank": 5, "common": 0},
    {"tensor": "copula", "width": 8, "rank": 2, "common": 20},
    {"tensor": "copula", "width": 32, "rank": 2, "common": 20},
    {"tensor": "copula", "width": 32, "rank": 2, "common": 10},
    {"tensor": "copula", "width": 64, "rank": 1, "common": 5},
    {"tensor": "copula", "width": 128, "rank": 1, "common": 10},
]
LARGE = [
    {"tensor": "ht", "leaves": "normal", "width": 128},
    {"tensor": "ht", "leaves": "normal", "width": 512},
    {"tensor": "ht", "leaves": "neural", "width": 256},
    {"tensor": "copula", "width": 100, "rank": 3, "common": 0},
    {"tensor": "copula", "width": 400, "rank": 3, "common": 0},
    {"tensor": "copula", "width": 800, "rank": 3, "common": 0},
    {"tensor": "copula", "width": 800, "rank": 1, "common": 3},
    {"tensor": "copula", "width": 400, "rank": 5, "common": 0},
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
        for number, settings in enumerate(json.loads(arguments.extra) or chosen):
            jobs.append(
                {"noise": noise, **settings, "name": name, "folder": str(folder), "seed": number}
                | {"seconds": arguments.seconds, "device": device}
            )
    started = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.workers) as pool:
        for done, (job, line, scores) in enumerate(pool.imap_unordered(explore_one, jobs), 1):
            np.save(out / f"{job['name']}_{job['seed']}.npy", scores)
            with open(out / "table.jsonl", "a") as table:
                table.write(json.dumps({**job, **line}) + "\n")
            shown = {k: job[k] for k in ("tensor", "width", "leaves", "rank", "common") if k in job}
            label = f"{job['name']} {shown} noise={job['noise']}"
            print(f"{done}/{len(jobs)} {label} {line}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
