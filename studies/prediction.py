"""Prediction: a column given the others, with its distribution, complete and with gaps.

Every model learns from the same rows, and test rows are predicted once.
"""

import time
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from studies.data.density import Rows
from studies.data.tables import complete_table
from studies.harness.available import check_choice
from studies.harness.drawing import legend, open_frame, panels, rows_of_names
from studies.harness.machine import processor_seconds
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import present, ranked, spread, table
from studies.models.ours import own_options
from studies.models.predictors import LEVELS, PREDICTORS, Task

TARGETS = {"concrete": "strength", "airfoil": "level", "diamonds": "price", "diabetes": "target"}
CLASSES = {"breast-cancer": "target", "yeast": "site"}
TEST = 0.3
LABELS = {"mdma": "ours", "boosting": "gradient boosting", "linear": "linear, normal errors"}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit a model to a task and score what it predicts."""
    model = check_choice("`models`", job["model"], PREDICTORS)
    task = make_task(job["table"], context, job["missing"], seed, settings.rows)
    options = own_options(settings) if model == "mdma" else {}
    started = time.process_time()
    with processor_seconds():
        answer, other = PREDICTORS[model](task, seed, **options)
    seconds = time.process_time() - started
    if task.is_class:
        found = of_classes(answer, other, task.y_test)
    else:
        found = of_numbers(answer, other, LEVELS, task.y_test.to_numpy(dtype=float))
    sizes = {"rows": len(task.y), "test_rows": len(task.y_test), "features": task.x.shape[1]}
    return {**found, **sizes, "seconds": round(seconds, 3)}


def make_task(name: str, context: Context, missing: float, seed: int, rows: int) -> Task:
    """Split a table, and hide a share of the features' cells in both parts, each by itself."""
    target = {**TARGETS, **CLASSES}[check_choice("`tables`", name, (*TARGETS, *CLASSES))]
    frame = complete_table(name, context, rows)
    rng = np.random.default_rng([seed, round(1000 * missing)])
    x, y = frame.drop(columns=target), frame[target]
    # The same rows are tested with and without gaps.
    order = np.random.default_rng(seed).permutation(len(frame))
    x = x.mask(rng.random(x.shape) < missing) if missing else x
    cut = round(TEST * len(frame))
    if name in CLASSES:
        # A class that is not seen in training has no probability to be compared.
        seen = set(y.iloc[order[cut:]])
        order = order[[i >= cut or y.iloc[r] in seen for i, r in enumerate(order)]]
        cut = int(len(order) - (len(frame) - cut))
    parts = [part.iloc[rows] for rows in (order[cut:], order[:cut]) for part in (x, y)]
    x, y, x_test, y_test = (part.reset_index(drop=True) for part in parts)
    return Task(x, y, x_test, y_test, name in CLASSES)


# How good predicted distributions are -----------------------------------------------------------


def pinball_crps(quantiles: Rows, levels: Rows, truth: Rows) -> float:
    """Return twice the mean pinball loss of quantiles (N, Q), the CRPS seen at these levels.

    >>> pinball_crps(np.array([[1.0]]), np.array([0.5]), np.array([3.0]))
    2.0
    """
    away = truth[:, None] - quantiles
    return float(2 * np.maximum(levels * away, (levels - 1) * away).mean())


def of_numbers(quantiles: Rows, mean: Rows, levels: Rows, truth: Rows) -> Record:
    """Compare quantiles and means with the truth, in standard deviations of the truth."""
    deviation = float(truth.std())
    low, high = quantiles[:, 0], quantiles[:, -1]
    return {
        "crps": pinball_crps(quantiles, levels, truth) / deviation,
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "width": float((high - low).mean() / deviation),
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2)) / deviation),
    }


def of_classes(shares: Rows, classes: Any, truth: Any) -> Record:
    """Compare probabilities (N, C) of classes with the truth."""
    own = np.array([list(classes).index(value) for value in truth])
    given = shares[np.arange(len(own)), own]
    with np.errstate(divide="ignore"):
        loss = float(-np.log(given).mean())
    return {"log_loss": loss, "accuracy": float((shares.argmax(1) == own).mean())}


# Tables -----------------------------------------------------------------------------------------

NUMBERS = {"crps": "CRPS", "rmse": "RMSE", "coverage": "coverage of 90 %", "width": "width"}
SHARES = {"log_loss": "log loss", "accuracy": "accuracy"}
SMALLER = {"crps": True, "rmse": True, "log_loss": True, "accuracy": False}
Place = tuple[str, float, str]


def by_place(records: Records, metric: str) -> dict[Place, list[float]]:
    """Return a figure of all seeds by table, share of gaps and model."""
    found: dict[Place, list[float]] = {}
    for r in sorted(records, key=lambda r: r["seed"]):
        if metric in r:
            found.setdefault((r["table"], r["missing"], r["model"]), []).append(r[metric])
    return found


def facts(records: Records) -> dict[str, str]:
    """Return mean scores over tables and gaps, best first, and the range of coverages."""
    found = {}
    for metric, smaller in SMALLER.items():
        means = by_place(records, metric)
        by_model = {
            label.split(",")[0]: fmean(scores)
            for model, label in LABELS.items()
            if (scores := [fmean(own) for place, own in means.items() if place[2] == model])
        }
        found[metric] = ranked(by_model, 3, smaller=smaller)
    for model in LABELS:
        shares = [r["coverage"] for r in records if r["model"] == model and "coverage" in r]
        if shares:
            found[f"coverage.{model}"] = f"{min(shares):.3f} to {max(shares):.3f}"
    return found


def tables(records: Records, paper: Paper) -> str:
    """Return a table of numbers and one of classes."""
    parts = [
        "Means over seeds, ± their standard deviation. CRPS, RMSE and width are in standard "
        "deviations of the target. Gaps are feature cells hidden completely at random, in both "
        "training and test rows. Seconds are on one thread."
    ]
    for title, metrics in (("Numbers", NUMBERS), ("Classes", SHARES)):
        parts += [f"### {title}", _table(records, metrics)]
    return "\n\n".join(parts)


def _table(records: Records, metrics: Mapping[str, str]) -> str:
    found = {metric: by_place(records, metric) for metric in (*metrics, "seconds")}
    first = found[next(iter(metrics))]
    rows = []
    for name, missing in dict.fromkeys((n, m) for n, m, _ in first):
        here = [(name, missing, m) for m in LABELS if (name, missing, m) in first]
        for place in here:
            cells = [_cell(found[metric], place, here, metric) for metric in metrics]
            seconds = found["seconds"][place]
            last = [f"{fmean(seconds):.1f}", str(len(seconds))]
            rows.append([name, f"{missing:.0%}", LABELS[place[2]], *cells, *last])
    return table(["table", "gaps", "model", *metrics.values(), "seconds", "seeds"], rows)


def _cell(found: dict[Place, list[float]], place: Place, here: list[Place], metric: str) -> str:
    shown, means = spread(found[place]), [fmean(found[each]) for each in here]
    if metric not in SMALLER:
        return shown
    best = min(means) if SMALLER[metric] else max(means)
    return f"**{shown}**" if fmean(found[place]) == best else shown


# The picture ------------------------------------------------------------------------------------

MARKS = {"mdma": ("o", "#08306b"), "boosting": ("D", "#d55e00"), "linear": ("s", "#7f7f7f")}
PANELS = {
    "crps": "CRPS, standard deviations",
    "coverage": "coverage of 90 % intervals",
    "log_loss": "log loss of classes, nats",
}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw each seed's figures, a line for each table and share of gaps."""
    shown = {metric: found for metric in PANELS if (found := by_place(records, metric))}
    figure, axes = panels(2.7 * len(shown), 2.8, len(shown))
    models = present(LABELS, (r["model"] for r in records))
    for panel, (metric, found) in zip(axes[0], shown.items(), strict=True):
        lines = sorted({(name, missing) for name, missing, _ in found})
        for model in models:
            for place in [place for place in found if place[2] == model]:
                y = lines.index(place[:2]) + 0.2 * (list(LABELS).index(model) - 1)
                shape, colour = MARKS[model]
                panel.plot(found[place], [y] * len(found[place]), "|", color=colour, markersize=4)
                style = {"color": colour, "markersize": 5, "label": LABELS[model]}
                style |= {"markerfacecolor": colour if model == "mdma" else "white"}
                panel.plot(fmean(found[place]), y, shape, **style)
        rows_of_names(panel, [f"{name}, {missing:.0%} gaps" for name, missing in lines])
        panel.set_xlabel(PANELS[metric])
        open_frame(panel, ("top", "right", "left"))
        if metric == "coverage":
            panel.axvspan(0.87, 0.93, color="0.9", zorder=0)
    legend(figure, axes[0, 0], place="upper")
    return {"": figure}


STUDIES = (
    Study(
        "prediction",
        "Prediction",
        measure,
        tables,
        figures,
        facts,
        grid={"missing": "missing", "table": "tables", "model": "models"},
        page="prediction",
    ),
)
