"""Mutual information: the 40 tasks of benchmark-mi, and the paper's Gaussian of 16 columns."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from benchmarks.data import data_folder
from benchmarks.machine import describe_machine
from benchmarks.pages import command as told_command
from benchmarks.records import replace_text
from marginals import MDMA, cross_fit

Rows = npt.NDArray[np.float64]
Found = dict[str, float]


def quick(x: Rows, y: Rows, seed: int) -> Found:
    """Ours: the default of `cross_fit`, Gaussian mixtures by EM."""
    return _ours(x, y, None, seed)


def fast(x: Rows, y: Rows, seed: int) -> Found:
    """Ours: `cross_fit` of the default `MDMA()`."""
    return _ours(x, y, MDMA(random_state=seed), seed)


def ksg(x: Rows, y: Rows, seed: int) -> Found:
    """Kraskov, Stögbauer and Grassberger's estimator with three neighbours, on all rows."""
    from npeet_plus import mi

    np.random.seed(seed)  # it adds noise to the rows  # noqa: NPY002
    return {"value": float(mi(_scaled(x), _scaled(y), k=3, base=np.e))}


METHODS: dict[str, Callable[[Rows, Rows, int], Found]] = {"quick": quick, "fast": fast, "ksg": ksg}


def _ours(x: Rows, y: Rows, model: MDMA | None, seed: int) -> Found:
    rows = np.concatenate([x, y], 1)
    a, b = list(range(x.shape[1])), list(range(x.shape[1], rows.shape[1]))
    found = cross_fit(rows, model, random_state=seed).mutual_information(a, b)
    return {"value": found.value, "stderr": found.stderr}


def _scaled(x: Rows) -> Rows:
    return (x - x.mean(0)) / x.std(0)


def solved(value: float, exact: float) -> bool:
    """Say whether an estimate lies within 0.1 nats or 10 %, whichever is larger."""
    return abs(value - exact) <= max(0.1, 0.1 * exact)


# The tasks ----------------------------------------------------------------------------------------


def bmi_tasks(folder: Path) -> list[tuple[str, Rows, Rows, float]]:
    """Read the tasks: name, x, y and the exact information."""
    path = folder / "bmi"
    if not path.is_dir():
        raise SystemExit(f"Expected the tasks in {path}; they are not there.")
    samples = np.load(path / "samples_n5000_seed0.npz")
    lines = pd.read_csv(path / "ground_truth_tasks.csv")
    return [
        (
            line.task_id,
            samples[f"{line.task_id}__x"].astype(np.float64),
            samples[f"{line.task_id}__y"].astype(np.float64),
            float(line.mutual_information_nats),
        )
        for line in lines.itertuples()
    ]


def gaussian_covariance(columns: int = 16) -> Rows:
    """The paper's: one on the diagonal, (i + j - 2) / (5 d) off it."""
    i = np.arange(1, columns + 1)
    covariance = (i[:, None] + i - 2) / (5 * columns)
    np.fill_diagonal(covariance, 1.0)
    return covariance


def gaussian(rows: int, seed: int) -> list[dict[str, Any]]:
    """Estimate I(first k; the rest) for every k from one fit."""
    covariance = gaussian_covariance()
    columns = len(covariance)
    x = np.random.default_rng(seed).multivariate_normal(np.zeros(columns), covariance, rows)
    started = time.process_time()
    folded = cross_fit(x, random_state=seed)
    found = []
    for k in range(1, columns):
        estimate = folded.mutual_information(list(range(k)), list(range(k, columns)))
        det = np.linalg.slogdet
        exact = 0.5 * (det(covariance[:k, :k])[1] + det(covariance[k:, k:])[1] - det(covariance)[1])
        line = {"k": k, "exact": exact, "value": estimate.value, "stderr": estimate.stderr}
        found.append({"rows": rows, "seed": seed, **line})
    seconds = time.process_time() - started
    return [{**line, "cpu_seconds": round(seconds, 2)} for line in found]


def main(arguments: list[str]) -> None:
    """Measure, and write the file after each task."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.information", description=__doc__)
    parser.add_argument("--data", help="the folder of data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--gaussian-rows", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--most", type=int, help="only the first tasks")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    command = told_command("benchmarks.information", arguments)
    told: dict[str, Any] = {"tasks": [], "gaussian": []}
    if asked.out.exists():
        told = json.loads(asked.out.read_text())
    done = {(line["task"], line["method"]) for line in told["tasks"]}
    for rows in asked.gaussian_rows:
        for seed in asked.seeds:
            if not any(g["rows"] == rows and g["seed"] == seed for g in told["gaussian"]):
                lines = gaussian(rows, seed)
                machine = {"command": command, **describe_machine()}
                told["gaussian"] += [{**line, **machine} for line in lines]
                worst = max(abs(line["value"] - line["exact"]) for line in lines)
                print("gaussian", rows, seed, f"largest error {worst:.4f}", flush=True)
                replace_text(asked.out, json.dumps(told, indent=1))
    for name, x, y, exact in bmi_tasks(data_folder(asked.data))[: asked.most]:
        for method in asked.methods:
            if (name, method) in done:
                continue
            started = time.process_time()
            found = METHODS[method](x, y, 0)
            line = {
                "task": name,
                "method": method,
                "exact": exact,
                **found,
                "solved": solved(found["value"], exact),
                "cpu_seconds": round(time.process_time() - started, 2),
            }
            told["tasks"].append({**line, "command": command, **describe_machine()})
            print(name, method, f"{exact:.3f} {found['value']:.3f}", line["solved"], flush=True)
            replace_text(asked.out, json.dumps(told, indent=1))
