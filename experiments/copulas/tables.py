"""Errors of rank correlations and tails, and held-out log-likelihood."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.copulas.truth import SETS
from experiments.markdown import spread, table
from experiments.registry import Record

LABELS = {
    "rows": "the rows themselves",
    "paper": "paper's model",
    "ours": "ours, default",
    "gaussian": "Gaussian copula",
    "vine": "vine (pyvinecopulib)",
}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return errors for each copula and model, and the likelihood of test rows."""
    q = records[0]["thresholds"]
    head = [
        *("copula", "estimated by", "τ", "ρ"),
        *(f"lower tail {each:g}" for each in q),
        *(f"upper tail {each:g}" for each in q),
    ]
    lines, scores = [], []
    for name in _names(records):
        lines.append([SETS[name].label, "exact", *_exact(of(records, name, "truth")[0])])
        for model in (m for m in LABELS if of(records, name, m)):
            lines.append([SETS[name].label, LABELS[model], *_errors(records, name, model)])
        scores.append([SETS[name].label, *_scores(records, name)])
    fitted = [model for model in LABELS if model != "rows"]
    return "\n\n".join(
        [
            "What is known, and by how much estimates are off (root mean square over pairs and "
            "seeds): Kendall's τ, Spearman's ρ, and the share P(U₂ ≤ q | U₁ ≤ q) of the lower "
            "tail and its like of the upper one, at thresholds q. Of pairs, the mean is shown.",
            table(head, lines),
            "Log-likelihood of the copula at test rows, nats per row (mean over seeds, ± their "
            "standard deviation).",
            table(["copula", "exact", *(LABELS[model] for model in fitted)], scores),
        ]
    )


def of(records: Sequence[Record], name: str, model: str) -> list[Record]:
    """Return the records of all seeds."""
    return [r for r in records if (r["set"], r["model"]) == (name, model)]


def _names(records: Sequence[Record]) -> list[str]:
    return [name for name in SETS if of(records, name, "truth")]


def _values(record: Record) -> Any:
    """Return what a record says of each pair: tau, rho, lower and upper tails, (pairs, figures)."""
    first = np.stack([record["tau"], record["rho"]], 1)
    return np.concatenate([first, record["lower"], record["upper"]], 1)


def _exact(truth: Record) -> list[str]:
    return [f"{value:.3f}" for value in _values(truth).mean(0)]


def _errors(records: Sequence[Record], name: str, model: str) -> list[str]:
    truth = _values(of(records, name, "truth")[0])
    off = np.concatenate([_values(record) - truth for record in of(records, name, model)])
    return [f"{value:.3f}" for value in np.sqrt((off**2).mean(0))]


def _scores(records: Sequence[Record], name: str) -> list[str]:
    fitted = [model for model in LABELS if model != "rows"]
    found = (
        [r["test"] for r in of(records, name, model) if r["test"] is not None]
        for model in ("truth", *fitted)
    )
    cells = [spread(values, 4) for values in found]
    return [cells[0] or "not in closed form", *cells[1:]]
