"""Level and power of tests of conditional independence, cell by cell."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.independence.mechanisms import ALTERNATIVES, NULL, alternative_rows, null_rows
from benchmarks.independence.tests_of import METHODS
from benchmarks.machine import describe_machine
from benchmarks.pages import command as told_command
from benchmarks.records import replace_text


def measure(
    method: str, mechanism: str, kind: str, n: int, repetitions: int, seed: int
) -> dict[str, Any]:
    """Repeat one test on rows of one mechanism; count rejections at 0.05 and 0.01."""
    found: dict[str, list[float]] = {}
    started = time.process_time()
    for repetition in range(repetitions):
        rng = np.random.default_rng([seed, n, repetition])
        if kind == "null":
            rows = null_rows(mechanism, n, rng)
        else:
            rows = alternative_rows(mechanism, kind, n, rng)
        for name, pvalue in METHODS[method](rows, seed + repetition).items():
            found.setdefault(name, []).append(pvalue)
    seconds = (time.process_time() - started) / repetitions
    return {
        "method": method,
        "mechanism": mechanism,
        "kind": kind,
        "n": n,
        "repetitions": repetitions,
        "seed": seed,
        "cpu_seconds": round(seconds, 4),
        "rejected": {
            name: {str(level): float(np.mean(np.array(values) < level)) for level in (0.05, 0.01)}
            for name, values in found.items()
        },
        "quantiles": {
            name: np.quantile(values, np.arange(1, 10) / 10).round(4).tolist()
            for name, values in found.items()
        },
    }


def main(arguments: list[str]) -> None:
    """Measure the cells asked for, and write the file after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.independence", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--kinds", nargs="+", default=["null", *ALTERNATIVES])
    parser.add_argument("--mechanisms", nargs="+", default=list(NULL), choices=list(NULL))
    parser.add_argument("--sizes", nargs="+", type=int, default=[300, 1000, 3000])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cells = json.loads(asked.out.read_text())["cells"] if asked.out.exists() else []
    keys = ("method", "mechanism", "kind", "n", "repetitions", "seed")
    done = {tuple(cell[key] for key in keys) for cell in cells}
    command = told_command("benchmarks.independence", arguments)
    for n in asked.sizes:
        for kind in asked.kinds:
            for mechanism in asked.mechanisms:
                for method in asked.methods:
                    key = (method, mechanism, kind, n, asked.repetitions, asked.seed)
                    if key in done:
                        continue
                    cell = measure(method, mechanism, kind, n, asked.repetitions, asked.seed)
                    cells.append({**cell, "command": command, **describe_machine()})
                    print(n, kind, mechanism, cell["rejected"], cell["cpu_seconds"], flush=True)
                    replace_text(asked.out, json.dumps({"cells": cells}, indent=1))
