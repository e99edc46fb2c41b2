"""The 40 tasks of benchmark-mi, and the paper's Gaussian cross-fitted."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from marginals import MDMA, cross_fit
from studies.data.density import Rows
from studies.harness.available import check_choice, installed
from studies.harness.drawing import open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, shown, table
from studies.information.gaussian import cross_fitted, draw

METHODS = {"fast": "cross_fit(MDMA())", "quick": "cross_fit", "ksg": "KSG"}
METHOD_MARKS = {"fast": ("o", "#0072B2"), "quick": ("s", "#56B4E9"), "ksg": ("X", "#D55E00")}
GAUSSIAN = "gaussian"  # the paper's Gaussian, cross-fitted


def jobs(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Return the Gaussian at each number of rows, and, with the first seed, each task."""
    for rows in settings.gaussian_rows:
        yield {"task": GAUSSIAN, "method": "quick", "rows": rows}
    if seed == 0 and settings.most:
        lines = pd.read_csv(context.file("bmi", "ground_truth_tasks.csv"))
        for task, method in itertools.product(lines["task_id"][: settings.most], settings.methods):
            yield {"task": task, "method": method}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return one estimate, or those of all k for the Gaussian."""
    if job["task"] == GAUSSIAN:
        return cross_fitted(draw((job["rows"], 0, 0), seed).train, seed)
    name, method = job["task"], check_choice("`methods`", job["method"], METHODS)
    lines = pd.read_csv(context.file("bmi", "ground_truth_tasks.csv")).set_index("task_id")
    exact = float(lines.loc[name, "mutual_information_nats"])
    with np.load(context.file("bmi", "samples_n5000_seed0.npz")) as samples:
        x, y = (samples[f"{name}__{side}"].astype(np.float64) for side in "xy")
    started = time.process_time()
    found = ksg(x, y, seed) if method == "ksg" else ours(x, y, method, seed)
    seconds = round(time.process_time() - started, 2)
    within = {"solved": solved(found["value"], exact), "cpu_seconds": seconds}
    return {"exact": exact, **found, **within}


def ours(x: Rows, y: Rows, method: str, seed: int) -> Record:
    """Estimate by `cross_fit`: its default, Gaussian mixtures by EM, or with `MDMA()`."""
    rows = np.concatenate([x, y], 1)
    a, b = list(range(x.shape[1])), list(range(x.shape[1], rows.shape[1]))
    model = MDMA(random_state=seed) if method == "fast" else None
    found = cross_fit(rows, model, random_state=seed).mutual_information(a, b)
    return {"value": found.value, "stderr": found.stderr}


def ksg(x: Rows, y: Rows, seed: int) -> Record:
    """Estimate by Kraskov, Stögbauer and Grassberger with three neighbours, on all rows."""
    estimator = installed("npeet_plus").mi
    np.random.seed(seed)  # it adds noise to the rows  # noqa: NPY002
    scaled = ((each - each.mean(0)) / each.std(0) for each in (x, y))
    return {"value": float(estimator(*scaled, k=3, base=np.e))}


def solved(value: float, exact: float) -> bool:
    """Say whether an estimate lies within 0.1 nats or 10 %, whichever is larger."""
    return abs(value - exact) <= max(0.1, 0.1 * exact)


def by_task(records: Records, figure: str) -> pd.DataFrame:
    """Return one figure of each task and method."""
    frame = pd.DataFrame([r for r in records if r["task"] != GAUSSIAN])
    wide = frame.pivot(index="task", columns="method", values=figure)
    return wide.reindex(index=frame["task"].unique(), columns=present(METHODS, wide))


def facts(records: Records) -> dict[str, str]:
    """Return the tasks that each method solves, and the largest error on the Gaussian by rows."""
    solved_by = by_task(records, "solved")
    found = {f"solved.{m}": _counted(solved_by[m]) for m in solved_by}
    sizes = sorted({r["rows"] for r in pick(records, task=GAUSSIAN)})
    return found | {f"error.{rows}": f"{largest_error(records, rows):.4f}" for rows in sizes}


def _counted(is_solved: "pd.Series[Any]") -> str:
    return f"{int(is_solved.dropna().sum())} of {is_solved.notna().sum()}"


def largest_error(records: Records, rows: int) -> float:
    """Return the largest error over all k and seeds on the Gaussian."""
    own = pick(records, task=GAUSSIAN, rows=rows)
    pairs = [pair for r in own for pair in zip(r["values"], r["exact"], strict=True)]
    return max(abs(value - exact) for value, exact in pairs)


def tables(records: Records, paper: Paper) -> str:
    """Return the tasks solved, all estimates, and the largest error on the Gaussian."""
    parts = []
    if any(r["task"] != GAUSSIAN for r in records):
        values, is_solved, seconds = (
            by_task(records, name) for name in ("value", "solved", "cpu_seconds")
        )
        exact = {r["task"]: r["exact"] for r in records}
        lines = [
            f"- {METHODS[method]}: {_counted(is_solved[method])}, "
            f"{seconds[method].mean():.3g} CPU seconds each"
            for method in values
        ]
        rows = []
        for task, row in values.iterrows():
            cells = [
                shown(value) + ("" if is_solved.loc[task, m] or value != value else " (no)")
                for m, value in row.items()
            ]
            rows.append([str(task), f"{exact[task]:.3f}", *cells])
        head = ["task", "exact", *(METHODS[m] for m in values)]
        parts += ["## Tasks solved", "\n".join(lines), table(head, rows)]
    gaussian = pick(records, task=GAUSSIAN)
    if gaussian:
        rows = []
        for count in sorted({r["rows"] for r in gaussian}):
            seeds = len(pick(gaussian, rows=count))
            rows.append([str(count), str(seeds), f"{largest_error(records, count):.4f} nats"])
        parts += [
            "## The paper's Gaussian of 16 columns",
            table(["rows", "seeds", "largest error"], rows),
        ]
    return "\n\n".join(parts)


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw estimates less the exact values by task, and those of the Gaussian by k."""
    figure, axes = panels(9.5, 6.5, 2, gridspec_kw={"width_ratios": [1.6, 1]})
    left, right = axes[0]
    if any(r["task"] != GAUSSIAN for r in records):
        _draw_tasks(left, records)
    gaussian = pick(records, task=GAUSSIAN)
    first = [r for r in gaussian if r["seed"] == min(r["seed"] for r in gaussian)]
    for place, record in enumerate(sorted(first, key=lambda r: r["rows"])):
        k = range(1, len(record["exact"]) + 1)
        if place == 0:
            right.plot(k, record["exact"], color="0.4", lw=1, label="exact")
        right.plot(k, record["values"], "so^v"[place % 4], ms=4, label=f"{record['rows']} rows")
    right.set_xlabel("k")
    right.set_title("I(first k; others), Gaussian of 16, nats", loc="left")
    if gaussian:
        right.legend(fontsize=7)
    for panel in (left, right):
        panel.tick_params(axis="x", labelsize=7)
        open_frame(panel)
    return {"": figure}


def _draw_tasks(axes: Any, records: Records) -> None:
    values = by_task(records, "value")
    known = {r["task"]: r["exact"] for r in records}
    exact = pd.Series(known).reindex(values.index).astype(float)
    allowed = (0.1 * exact).clip(lower=0.1)
    places = range(len(values))
    axes.barh(places, 2 * allowed, left=-allowed, color="0.92", height=0.9)
    for method in values:
        marker, colour = METHOD_MARKS[method]
        error = (values[method] - exact).clip(-1, 1)
        axes.plot(error, places, marker, color=colour, ms=4, alpha=0.8, label=METHODS[method])
    axes.set_yticks(places, values.index, fontsize=6)
    axes.set(xlim=(-1.05, 0.4), ylim=(len(values) - 0.5, -0.5))
    axes.set_title("estimate - exact, nats (cut at 1); grey: solved", loc="left")
    axes.legend(fontsize=7, loc="lower right")


STUDY = Study(
    "information-tasks",
    "Mutual information, measured",
    measure,
    tables,
    figures,
    facts,
    jobs=jobs,
    key=("task", "method", "rows"),
    parts=("methods", "gaussian_rows", "most"),
    page="information_scoreboard",
)
