"""Held-out log-likelihood on the toy densities."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from experiments.registry import Record

COLUMNS = {
    "truth": "the density itself",
    "paper": "paper's model",
    "ours": "ours, default",
    "nsf": "NSF (zuko)",
}
LABELS = {"spirals": "two spirals", "gaussians": "8 Gaussians", "checkerboard": "checkerboard"}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return the mean over seeds of the held-out log-likelihood, of models that were run."""
    shown = [model for model in COLUMNS if any(r["model"] == model for r in records)]
    lines = [
        "Held-out log-likelihood, nats per row (mean over seeds, ± their standard deviation); in "
        "brackets what it lacks to that of the density itself.",
        "",
        "| | " + " | ".join(COLUMNS[model] for model in shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for name in dict.fromkeys(r["set"] for r in records):
        cells = [_cell(records, name, model) for model in shown]
        lines.append(f"| {LABELS[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(records: Sequence[Record], name: str, model: str) -> str:
    own, truth = _by_seed(records, name, model), _by_seed(records, name, "truth")
    if not own:
        return "not in closed form" if model == "truth" else ""
    spread = f" ± {stdev(own.values()):.3f}" if len(own) > 1 else ""
    lacks = [truth[seed] - value for seed, value in own.items() if seed in truth]
    gap = f" ({fmean(lacks):.3f})" if lacks and model != "truth" else ""
    return f"{fmean(own.values()):.3f}{spread}{gap}"


def _by_seed(records: Sequence[Record], name: str, model: str) -> dict[int, float]:
    return {
        record["seed"]: record["test"]
        for record in records
        if (record["set"], record["model"]) == (name, model) and record["test"] is not None
    }
