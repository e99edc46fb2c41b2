"""Tables and picture of estimates of mutual information."""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from matplotlib import pyplot as plt

from benchmarks.pages import report

LABELS = {"fast": "cross_fit(MDMA())", "quick": "cross_fit", "ksg": "KSG"}
STYLE = {"fast": ("o", "#0072B2"), "quick": ("s", "#56B4E9"), "ksg": ("X", "#D55E00")}

_HEADING = (
    "# Mutual information, measured\n\nWritten by `python -m benchmarks.information report`; see "
    "[dependence.md](dependence.md) for how to read it."
)


def read(paths: list[Path]) -> dict[str, list[dict[str, Any]]]:
    """Join result files."""
    files = [json.loads(path.read_text()) for path in paths]
    return {key: [line for f in files for line in f[key]] for key in ("tasks", "gaussian")}


def by_task(told: dict[str, list[dict[str, Any]]], what: str) -> pd.DataFrame:
    """Return one figure of each task and method."""
    frame = pd.DataFrame(told["tasks"])
    order = list(dict.fromkeys(frame["task"]))
    wide = frame.pivot(index="task", columns="method", values=what)
    return wide.reindex(index=order, columns=[m for m in LABELS if m in wide])


def tables(told: dict[str, list[dict[str, Any]]]) -> str:
    """Return everything as Markdown."""
    values, solved = by_task(told, "value"), by_task(told, "solved")
    seconds = by_task(told, "cpu_seconds")
    exact = pd.DataFrame(told["tasks"]).groupby("task")["exact"].first()
    lines = ["## Tasks solved", ""]
    for method in values:
        known = solved[method].dropna()
        lines.append(
            f"- {LABELS[method]}: {int(known.sum())} of {len(known)}, "
            f"{seconds[method].mean():.3g} CPU seconds each"
        )
    lines += ["", "| task | exact | " + " | ".join(LABELS[m] for m in values) + " |"]
    lines.append("|---" * (len(values.columns) + 2) + "|")
    for task, row in values.iterrows():
        cells = [
            "" if value != value else f"{value:.3f}" + ("" if solved.loc[task, m] else " (no)")
            for m, value in row.items()
        ]
        lines.append(f"| {task} | {exact[task]:.3f} | " + " | ".join(cells) + " |")
    gaussian = pd.DataFrame(told["gaussian"])
    if len(gaussian):
        lines += [
            "",
            "## The paper's Gaussian of 16 columns",
            "",
            "| rows | seeds | largest error |",
        ]
        lines.append("|---|---|---|")
        for rows, part in gaussian.groupby("rows"):
            worst = (part["value"] - part["exact"]).abs().max()
            lines.append(f"| {rows} | {part['seed'].nunique()} | {worst:.4f} nats |")
    every = told["tasks"] + told["gaussian"]
    commits = sorted({line["commit"] for line in every})
    lines += ["", f"Commit {', '.join(commits)}, {min(line['date'] for line in every)[:10]}."]
    return "\n".join(lines)


def draw(told: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw estimates less the exact values by task, and those of the Gaussian by k."""
    values = by_task(told, "value")
    exact = pd.DataFrame(told["tasks"]).groupby("task")["exact"].first().reindex(values.index)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 6.5), layout="constrained", gridspec_kw={"width_ratios": [1.6, 1]}
    )
    allowed = (0.1 * exact).clip(lower=0.1)
    places = range(len(values))
    left.barh(places, 2 * allowed, left=-allowed, color="0.92", height=0.9)
    for method in values:
        marker, colour = STYLE[method]
        error = (values[method] - exact).clip(-1, 1)
        left.plot(error, places, marker, color=colour, ms=4, alpha=0.8, label=LABELS[method])
    left.set_yticks(places, values.index, fontsize=6)
    left.set(xlim=(-1.05, 0.4), ylim=(len(values) - 0.5, -0.5))
    left.set_title("estimate - exact, nats (cut at 1); grey: solved", fontsize=8, loc="left")
    left.legend(fontsize=7, loc="lower right")
    gaussian = pd.DataFrame(told["gaussian"])
    if len(gaussian):
        first = gaussian[gaussian["seed"] == gaussian["seed"].min()]
        line = first[first["rows"] == first["rows"].max()]
        right.plot(line["k"], line["exact"], color="0.4", lw=1, label="exact")
        for (rows, part), marker in zip(first.groupby("rows"), "so", strict=False):
            right.plot(part["k"], part["value"], marker, ms=4, label=f"{rows} rows")
        right.set_xlabel("k", fontsize=8)
        right.set_title("I(first k; others), Gaussian of 16, nats", fontsize=8, loc="left")
        right.legend(fontsize=7)
    for ax in (left, right):
        ax.tick_params(axis="x", labelsize=7)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: list[str]) -> None:
    """Write the tables and the picture."""
    report("benchmarks.information", arguments, read, tables, draw, heading=_HEADING)
