"""PC after one fit: how long it takes, and what it finds.

Rows of a random DAG with the paper's sigmoidal mechanism are cross-fitted, or one model is fitted
to them; then PC searches with their tests. `pc_s` is the search alone, `pc_cpu_s` the processor
time in it; a transform is one column given one set of others.
"""

import os
import time

import numpy as np
import pandas as pd

from marginals import MDMA, cross_fit
from marginals.causal import causal_graph, shd
from studies.causal.dags import random_dag, sigmoidal
from studies.harness.available import check_choice
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import shown, table

SHOWN = {
    **{"fit_s": "fit s", "pc_s": "search s", "pc_cpu_s": "processor s", "tests": "tests"},
    **{"transforms": "transforms", "edges": "edges", "shd": "SHD", "shd_cdt": "SHD(D)"},
}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit what tests to rows of a random DAG; then run PC."""
    by = check_choice("`by`", job["by"], ("cross_fit", "MDMA"))
    rng = np.random.default_rng(seed)
    dag = random_dag(settings.columns, settings.parents, rng)
    frame = sigmoidal(dag, settings.rows, rng)
    truth = pd.DataFrame(dag, index=list(frame), columns=list(frame))
    limit = {"max_steps": settings.max_steps, "width": 2} if settings.max_steps else {}
    started = time.perf_counter()
    if by == "cross_fit":
        tester = cross_fit(frame, random_state=seed)
    else:
        tester = MDMA(random_state=seed, progress=False, **limit).fit(frame)
    fit_s = time.perf_counter() - started
    worked = time.process_time()
    found = causal_graph(tester, alpha=settings.alpha)
    cpu_s = time.process_time() - worked
    # Each set conditioned on is one pass for all the columns that are tested given it.
    asked = found.tests[["x", "y", "given"]].itertuples(index=False, name=None)
    columns_given = {(column, z) for x, y, z in asked for column in (x, y)}
    return {
        "columns": settings.columns,
        "rows": settings.rows,
        "edges": int(dag.sum()),
        "alpha": settings.alpha,
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
        "load": round(os.getloadavg()[0], 2),
    }


def tables(records: Records, paper: Paper) -> str:
    """Return a line for each graph."""
    rows = [
        [str(r["seed"]), r["by"], f"{r['rows']:,}", str(r["columns"])]
        + [shown(r[name], 1) if name.endswith("_s") else str(r[name]) for name in SHOWN]
        for r in records
    ]
    return table(["graph", "fitted by", "rows", "columns", *SHOWN.values()], rows)


STUDY = Study(
    "causal-speed",
    "Time of a causal search after one fit",
    measure,
    tables,
    grid={"by": "by"},
    page="causal",
)
