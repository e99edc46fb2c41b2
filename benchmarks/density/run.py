"""Held-out likelihood of the hierarchical model, from data and as the paper starts it.

One configuration serves all data sets. Several values of an option make a grid, from which the best
is chosen by validation; only the chosen one's test figure should be quoted.
"""

import argparse
import itertools
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import data_folder, load_density
from benchmarks.machine import describe_machine
from marginals.densities import build
from marginals.training import fit

GRID = ("name", "init", "tensor", "width", "noise", "rate", "batch", "decay", "seed")


def run_one(job: dict[str, Any]) -> dict[str, Any]:
    """Fit one model and score it."""
    torch.set_num_threads(job["threads"])
    parts = load_density(Path(job["folder"]), job["name"])
    train, val, test = (parts[p].to(job["device"]) for p in ("train", "val", "test"))
    started = time.perf_counter()
    model = build(
        train, tensor=job["tensor"], width=job["width"], init=job["init"], seed=job["seed"]
    )
    result = fit(
        model,
        train,
        validation=val,
        batch_size=job["batch"],
        learning_rate=job["rate"],
        noise=job["noise"],
        weight_decay=job["decay"],
        max_seconds=job["seconds"],
        max_steps=job["steps"],
        seed=job["seed"],
        progress=False,
    )
    seconds = time.perf_counter() - started
    with torch.no_grad():
        # Scored in float64, so that the figure is the model's and not the rounding's.
        scores = model.double().logpdf(test.double())
    return {
        **{key: job[key] for key in GRID},
        "val": -result.best_loss,
        "test": float(scores.mean()),
        "test_min": float(scores.min()),
        "test_median": float(scores.median()),
        "steps": result.steps,
        "best_step": result.best_step,
        "stopped": result.stopped,
        "fit_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.density")
    parser.add_argument("--data", help="folder of data sets, default MARGINALS_DATA")
    parser.add_argument("--out", required=True, help="result file, JSON")
    parser.add_argument("--name", nargs="+", default=["gas", "protein", "sachs"])
    parser.add_argument("--init", nargs="+", default=["data", "paper"])
    parser.add_argument("--tensor", nargs="+", default=["ht"])
    parser.add_argument("--width", nargs="+", type=int, default=[500])
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0])
    parser.add_argument("--rate", nargs="+", type=float, default=[0.01])
    parser.add_argument("--batch", nargs="+", type=int, default=[500])
    parser.add_argument("--decay", nargs="+", type=float, default=[0.0])
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1, help="fits at a time")
    args = parser.parse_args()
    common = {
        "folder": str(data_folder(args.data)),
        "device": args.device,
        "seconds": args.seconds,
        "steps": args.steps,
        "threads": max(1, torch.get_num_threads() // args.workers),
    }
    grid = itertools.product(*(getattr(args, key) for key in GRID))
    jobs = [{**common, **dict(zip(GRID, values, strict=True))} for values in grid]
    runs = []
    context = multiprocessing.get_context("spawn")
    with context.Pool(args.workers) as pool:
        for run in pool.imap_unordered(run_one, jobs):
            runs.append(run)
            print(json.dumps(run), flush=True)
            write(Path(args.out), runs, args)
    for line in table(runs):
        print(line)


def write(path: Path, runs: list[dict[str, Any]], args: argparse.Namespace) -> None:
    command = {key: value for key, value in vars(args).items() if key not in ("data", "out")}
    content = {"command": command, "machine": describe_machine(), "runs": runs}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def table(runs: list[dict[str, Any]]) -> list[str]:
    """Average over seeds."""
    keys = [key for key in GRID if key != "seed"]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(tuple(run[key] for key in keys), []).append(run)
    lines = ["  ".join([*keys, "val", "test", "test_min", "seconds", "steps", "runs"])]
    for values, some in sorted(groups.items()):
        mean = {
            key: sum(run[key] for run in some) / len(some)
            for key in ("val", "test", "test_min", "fit_seconds", "steps")
        }
        numbers = [f"{number:.3f}" for number in mean.values()]
        lines.append("  ".join([*map(str, values), *numbers, str(len(some))]))
    return lines
