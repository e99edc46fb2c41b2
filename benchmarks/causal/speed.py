"""PC after one fit: how long it takes, and what it finds."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.causal.dags import random_dag, sigmoidal
from benchmarks.machine import describe_machine
from benchmarks.pages import command
from marginals.causal import CausalGraph, causal_graph, shd
from marginals.estimators.cross_fit import cross_fit
from marginals.estimators.mdma import MDMA

Record = dict[str, Any]
PACKAGES = ("numpy", "pandas", "causal-learn", "networkx")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--parents", type=float, default=2.0)
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--by", choices=["cross_fit", "MDMA"], default="cross_fit")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where the first graph found is drawn")
    asked = parser.parse_args(words)
    torch.set_num_threads(asked.threads)
    typed = sys.argv[1:] if words is None else words
    records = []
    for seed in asked.seeds:
        record, found = measure(
            seed, asked.columns, asked.rows, asked.parents, asked.alpha, asked.by
        )
        if asked.picture is not None and not records:
            found.plot().figure.savefig(asked.picture, dpi=150)
        records.append(record)
        print(json.dumps(record), flush=True)
    result = {
        "command": command("benchmarks.causal", list(map(str, typed))),
        "machine": describe_machine(),
        "cores": os.cpu_count(),
        "load_average_at_end": round(os.getloadavg()[0], 2),
        "versions": {name: version(name) for name in PACKAGES},
        "target_s": 60,
        "runs": records,
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n")


def measure(
    seed: int, columns: int, rows: int, parents: float, alpha: float, by: str
) -> tuple[Record, CausalGraph]:
    """Fit what tests, the default of a table or one model, to rows of a random DAG; then run PC."""
    rng = np.random.default_rng(seed)
    dag = random_dag(columns, parents, rng)
    frame = sigmoidal(dag, rows, rng)
    truth = pd.DataFrame(dag, index=list(frame), columns=list(frame))
    started = time.perf_counter()
    tester = (
        cross_fit(frame, random_state=seed)
        if by == "cross_fit"
        else MDMA(random_state=seed, progress=False).fit(frame)
    )
    fit_s = time.perf_counter() - started
    worked = time.process_time()
    found = causal_graph(tester, alpha=alpha)
    cpu_s = time.process_time() - worked
    # Each set conditioned on is one pass for all the columns that are tested given it.
    columns_given = {(c, z) for x, y, z in _asked(found.tests) for c in (x, y)}
    record = {
        "by": by,
        "seed": seed,
        "columns": columns,
        "rows": rows,
        "edges": int(dag.sum()),
        "alpha": alpha,
        "fit_s": round(fit_s, 2),
        "pc_s": round(found.seconds, 2),
        "pc_cpu_s": round(cpu_s, 2),
        "tests": len(found.tests),
        "sets_conditioned_on": len({z for _, z in columns_given}),
        "transforms": len(columns_given),
        "most_conditioned_on": int(found.tests["given"].map(len).max()),
        "shd": shd(found, truth),
        "shd_cdt": shd(found, truth, "cdt"),
        "shd_of_no_edges": int(dag.sum()),
    }
    return record, found


def _asked(tests: pd.DataFrame) -> list[tuple[Any, Any, tuple[Any, ...]]]:
    return list(tests[["x", "y", "given"]].itertuples(index=False, name=None))
