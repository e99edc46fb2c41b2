"""Estimates of information beside the exact values."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.markdown import spread, table
from experiments.registry import Record

LABELS = {
    "paper": "paper's model",
    "default": "MDMA()",
    "quick": 'MDMA(effort="quick")',
    "cross": "cross_fit",
}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return the errors of each model, and its estimates for every k."""
    head = "Mutual information of the first k columns and the others, nats, from rows held out."
    errors = (
        "Mean and largest |error| over k = 1, ..., 15 of the mean over seeds; the error if rows "
        "of training take the place of rows held out; and the standard error of the mean over "
        "rows, which says nothing of how much fits differ. Bars in the figure are the standard "
        "deviation of seeds, or that standard error where there is one seed."
    )
    return "\n\n".join([head, _by_part(records), errors, _errors(records)])


def columns_of(records: Sequence[Record]) -> list[tuple[int, str]]:
    """Return the numbers of rows and models that were run, most rows first."""
    sizes = sorted({record["rows"] for record in records}, reverse=True)
    there = {(record["rows"], record["model"]) for record in records}
    return [(rows, model) for rows in sizes for model in LABELS if (rows, model) in there]


def those(records: Sequence[Record], rows: int, model: str) -> list[Record]:
    """Return the records of all seeds."""
    return [record for record in records if (record["rows"], record["model"]) == (rows, model)]


def _by_part(records: Sequence[Record]) -> str:
    columns = columns_of(records)
    exact = records[0]["exact"]
    head = ["k", "exact", *(f"{LABELS[model]}, {rows:,} rows" for rows, model in columns)]
    lines = [
        [
            *(str(place + 1), f"{value:.3f}"),
            *(spread([r["values"][place] for r in those(records, *each)]) for each in columns),
        ]
        for place, value in enumerate(exact)
    ]
    return table(head, lines)


def _errors(records: Sequence[Record]) -> str:
    head = [
        *("", "rows", "seeds", "mean error", "largest error", "mean error on training rows"),
        *("standard error over rows", "seconds of fitting"),
    ]
    return table(head, [_error_line(records, *each) for each in columns_of(records)])


def _error_line(records: Sequence[Record], rows: int, model: str) -> list[str]:
    own = those(records, rows, model)
    off = _off(own, "values")
    seen = f"{fmean(_off(own, 'seen_values')):.4f}" if "seen_values" in own[0] else ""
    chance = max(error for record in own for error in record["stderrs"])
    return [
        *(LABELS[model], f"{rows:,}", str(len(own)), f"{fmean(off):.4f}", f"{max(off):.4f}"),
        *(seen, f"at most {chance:.4f}", f"{fmean(r['fit_s'] for r in own):.0f}"),
    ]


def _off(records: Sequence[Record], name: str) -> list[float]:
    """Return, for every k, how far the mean over seeds is from the exact value."""
    exact = records[0]["exact"]
    means = [fmean(values) for values in zip(*(r[name] for r in records), strict=True)]
    return [abs(mean - value) for mean, value in zip(means, exact, strict=True)]
