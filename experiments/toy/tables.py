"""Held-out log-likelihood on the toy densities."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.markdown import spread, table
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
    told = "Seconds of fitting (steps):"
    parts = [likelihood, _table(shown, scores), told, _table(fitted, seconds)]
    return "\n\n".join(parts)


def _table(models: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    head = ["", *(COLUMNS[model] for model in models)]
    return table(head, [[LABELS[name], *cells] for name, cells in rows.items()])


def _cell(records: Sequence[Record], name: str, model: str) -> str:
    own, truth = _by_seed(records, name, model), _by_seed(records, name, "truth")
    if not own:
        return "not in closed form" if model == "truth" else ""
    lacks = [truth[seed] - value for seed, value in own.items() if seed in truth]
    gap = f" ({fmean(lacks):.3f})" if lacks and model != "truth" else ""
    return f"{spread(list(own.values()))}{gap}"


def _seconds(records: Sequence[Record], name: str, model: str) -> str:
    own = [r for r in records if (r["set"], r["model"]) == (name, model)]
    steps = [r["fitted"]["steps"] for r in own if "steps" in r.get("fitted", {})]
    told = f" ({fmean(steps):.0f})" if steps else ""
    return f"{fmean(r['fit_s'] for r in own):.0f}{told}" if own else ""


def _by_seed(records: Sequence[Record], name: str, model: str) -> dict[int, float]:
    return {
        record["seed"]: record["test"]
        for record in records
        if (record["set"], record["model"]) == (name, model) and record["test"] is not None
    }
