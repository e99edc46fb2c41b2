"""The tables of the prediction benchmark, from its result files."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.imputation.report import origins
from benchmarks.pages import report
from benchmarks.records import Record, joined

KEY = ("table", "model", "missing", "seed")
ORDER = ("mdma", "boosting", "linear")
LABELS = {"mdma": "ours", "boosting": "gradient boosting", "linear": "linear, normal errors"}
NUMBERS = {"crps": "CRPS", "rmse": "RMSE", "coverage": "coverage of 90 %", "width": "width"}
SHARES = {"log_loss": "log loss", "accuracy": "accuracy"}
SMALLER = {"crps": True, "rmse": True, "log_loss": True, "accuracy": False}


def figures(records: Sequence[Record], metric: str) -> dict[tuple[str, float, str], list[float]]:
    """Return the figures of all seeds by table, share of gaps and model."""
    found: dict[tuple[str, float, str], list[float]] = {}
    for r in sorted(records, key=lambda r: r["seed"]):
        if "error" not in r and metric in r:
            found.setdefault((r["table"], r["missing"], r["model"]), []).append(r[metric])
    return found


def table(records: Sequence[Record], metrics: dict[str, str]) -> list[str]:
    """Return a table with a line for each data table and share of gaps, the best in bold."""
    models = [m for m in ORDER if any(r["model"] == m for r in records)]
    by_metric = {metric: figures(records, metric) for metric in [*metrics, "seconds"]}
    heads = ["table", "gaps", "model", *metrics.values(), "seconds", "seeds"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    first = by_metric[next(iter(metrics))]
    for name, missing in dict.fromkeys((n, m) for n, m, _ in first):
        for model in models:
            if (name, missing, model) not in first:
                continue
            cells = [name, f"{missing:.0%}", LABELS[model]]
            for metric in metrics:
                found = by_metric[metric]
                rivals = {
                    m: fmean(found[name, missing, m]) for m in models if (name, missing, m) in found
                }
                cells.append(_cell(found[name, missing, model], rivals, metric))
            seconds = by_metric["seconds"][name, missing, model]
            cells += [f"{fmean(seconds):.1f}", str(len(seconds))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cell(own: list[float], rivals: dict[str, float], metric: str) -> str:
    spread = f" ± {stdev(own):.3f}" if len(own) > 1 else ""
    shown = f"{fmean(own):.3f}{spread}"
    if metric not in SMALLER:
        return shown
    best = min(rivals.values()) if SMALLER[metric] else max(rivals.values())
    return f"**{shown}**" if fmean(own) == best else shown


def page(records: Sequence[Record]) -> str:
    """Return the whole report as Markdown."""
    lines = [
        "Means over seeds, ± their standard deviation. CRPS, RMSE and width are in standard "
        "deviations of the target. Gaps are",
        "cells of features hidden completely at random, in training and in test rows. Seconds are "
        "those of one thread.",
        "",
        "### Numbers",
        "",
        *table(records, NUMBERS),
        "",
        "### Classes",
        "",
        *table(records, SHARES),
    ]
    errors = [
        f"- {r['table']} {r['model']} seed {r['seed']}: {r['error']}"
        for r in records
        if "error" in r
    ]
    lines += ["", "Failed:", "", *errors] if errors else []
    return "\n".join([*lines, *origins(records)]) + "\n"


def main(words: Sequence[str]) -> None:
    """Merge result files, print or write the tables, and draw the picture."""
    report("benchmarks.prediction", words, partial(joined, names=KEY), page, _draw, page="--page")


def _draw(records: Sequence[Record], path: Path) -> None:
    from benchmarks.prediction.picture import draw  # needs matplotlib, the tables do not

    draw(records, path)
