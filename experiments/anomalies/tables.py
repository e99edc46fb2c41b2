"""AUROC of detectors by the share of missing cells."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.anomalies.sets import DEVELOPMENT
from experiments.markdown import spread, table
from experiments.registry import Record

LABELS = {
    "ours": "MDMAOutlierDetector()",
    "paper": "paper's model, −log density",
    "forest": "IsolationForest on means",
}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return means over sets, and the AUROC of each set."""
    records = whole(records)
    shares = sorted({record["share"] for record in records})
    models = models_of(records)
    others = [record for record in records if record["set"] not in DEVELOPMENT]
    lines = [
        [label, LABELS[model], *(f"{mean(some, metric, share, model):.3f}" for share in shares)]
        for metric, label, some in (
            ("auroc", "AUROC", records),
            ("ap", "average precision", records),
            ("auroc", "AUROC, other sets", others),
            ("ap", "average precision, other sets", others),
        )
        for model in models
        if some
    ]
    head = ["", "detector", *(f"{share:g} missing" for share in shares)]
    seconds = ", ".join(f"{LABELS[model]} {_seconds(records, model):.1f}" for model in models)
    sets = list(dict.fromkeys(record["set"] for record in records))
    each = [
        [
            f"{name} ({_anomalies(records, name)})",
            LABELS[model],
            *(spread(of(records, name, share, model)) for share in shares),
        ]
        for name in sets
        for model in models
    ]
    return "\n\n".join(
        [
            f"Means over {len(sets)} sets and all seeds, by the share of cells that are missing in "
            "training and test rows alike. Detectors see no labels; the settings of ours were "
            f"chosen on {', '.join(DEVELOPMENT)}, so that the other sets stand by themselves too.",
            table(head, lines),
            "AUROC of each set (mean over seeds, ± their standard deviation; in brackets the "
            "anomalies among test rows):",
            table(["set", *head[1:]], each),
            f"Seconds of fitting and scoring, means: {seconds}.",
        ]
    )


def whole(records: Sequence[Record]) -> list[Record]:
    """Return the records of sets and seeds that have all shares and detectors: means need them."""
    parts = {(r["share"], r["model"]) for r in records}
    found: dict[tuple[str, int], set[tuple[float, str]]] = {}
    for r in records:
        found.setdefault((r["set"], r["seed"]), set()).add((r["share"], r["model"]))
    return [r for r in records if found[r["set"], r["seed"]] == parts]


def models_of(records: Sequence[Record]) -> list[str]:
    """Return the detectors that were run."""
    return [model for model in LABELS if any(r["model"] == model for r in records)]


def of(records: Sequence[Record], name: str, share: float, model: str) -> list[float]:
    """Return the AUROC of all seeds."""
    wanted = (name, share, model)
    return [r["auroc"] for r in records if (r["set"], r["share"], r["model"]) == wanted]


def mean(records: Sequence[Record], metric: str, share: float, model: str) -> float:
    """Return the mean over sets and seeds; NaN if none was run."""
    own = [r[metric] for r in records if (r["share"], r["model"]) == (share, model)]
    return fmean(own) if own else float("nan")


def _anomalies(records: Sequence[Record], name: str) -> str:
    counts = {r["test_anomalies"] for r in records if r["set"] == name}
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)}))


def _seconds(records: Sequence[Record], model: str) -> float:
    return fmean(r["fit_s"] + r["score_s"] for r in records if r["model"] == model)
