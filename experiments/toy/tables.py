"""Held-out log-likelihood on the toy densities."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from experiments.registry import Record

COLUMNS = {
    "truth": "the density itself",
    "paper": "paper's model",
    "ours": "ours",
    "nsf": "NSF (zuko)",
}
LABELS = {"spirals": "two spirals", "gaussians": "8 Gaussians", "checkerboard": "checkerboard"}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return held-out log-likelihood and seconds of fitting of the models that were run."""
    shown = [model for model in COLUMNS if any(r["model"] == model for r in records)]
    names = list(dict.fromkeys(r["set"] for r in records))
    likelihood = (
        "Held-out log-likelihood, nats per row (mean over seeds, ± their standard deviation); in "
        "brackets what it lacks to that of the density itself."
    )
    fitted = [model for model in shown if model != "truth"]
    scores = {name: [_cell(records, name, model) for model in shown] for name in names}
    seconds = {name: [_seconds(records, name, model) for model in fitted] for name in names}
    parts = [likelihood, _table(shown, scores), "Seconds of fitting:", _table(fitted, seconds)]
    return "\n\n".join(parts)


def _table(models: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [
        "| | " + " | ".join(COLUMNS[model] for model in models) + " |",
        "|---" * (len(models) + 1) + "|",
    ]
    lines += [f"| {LABELS[name]} | " + " | ".join(cells) + " |" for name, cells in rows.items()]
    return "\n".join(lines)


def _cell(records: Sequence[Record], name: str, model: str) -> str:
    own, truth = _by_seed(records, name, model), _by_seed(records, name, "truth")
    if not own:
        return "not in closed form" if model == "truth" else ""
    spread = f" ± {stdev(own.values()):.3f}" if len(own) > 1 else ""
    lacks = [truth[seed] - value for seed, value in own.items() if seed in truth]
    gap = f" ({fmean(lacks):.3f})" if lacks and model != "truth" else ""
    return f"{fmean(own.values()):.3f}{spread}{gap}"


def _seconds(records: Sequence[Record], name: str, model: str) -> str:
    own = [r["fit_s"] for r in records if (r["set"], r["model"]) == (name, model)]
    return f"{fmean(own):.0f}" if own else ""


def _by_seed(records: Sequence[Record], name: str, model: str) -> dict[int, float]:
    return {
        record["seed"]: record["test"]
        for record in records
        if (record["set"], record["model"]) == (name, model) and record["test"] is not None
    }
