"""Test log-likelihood beside that of peers on the same rows, and what was published."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.likelihood.record import KEY
from benchmarks.records import merged, read
from experiments.markdown import table
from experiments.registry import Record

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "results"
COLUMNS = {
    "paper": "paper's MDMA",
    "nmdma": "nMDMA, normalised",
    "ht": "HT from data",
    "ours": "ours, default",
    "best": "ours, best",
    "gmm": "GMM",
    "vine": "vine copula",
    "einet": "Einet (spflow)",
    "nsf": "NSF (zuko)",
}
LABELS = {
    "power": "POWER",
    "power-dequantised": "POWER, minutes dequantised",
    "gas": "GAS",
    "hepmass": "HEPMASS",
    "miniboone": "MINIBOONE",
}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return the scores, those of the floor, the seconds, and the published figures."""
    names = [name for name in LABELS if any(r["set"] == name for r in records)]
    names += [n for n in dict.fromkeys(r["set"] for r in records) if n not in LABELS]
    here = {(r["set"], r["model"]) for r in records}
    beside = [r for r in elsewhere(paper, names) if (r["set"], r["model"]) not in here]
    parts = [
        "Test log-likelihood, nats per row (mean over seeds, ± their standard deviation where "
        'there are several; in brackets the number of test rows at -inf). "Rows" are those '
        "trained on; further rows with missing cells serve all models of this library but nMDMA.",
        _scores(records, names),
    ]
    if beside:
        parts += [
            "The same rows in the benchmarks of this repository "
            f"({', '.join(f'`{name}`' for name in paper['benchmarks'])}); blank where none was "
            "measured:",
            _beside(beside, names),
        ]
    parts += [
        "The authors' code counts no row below log(1e-40) = -92.1. With that floor on the test "
        "rows, and in brackets the lowest row without it:",
        _floors(records, names),
        "Seconds of fitting (steps):",
        _seconds(records, names),
    ]
    for name in names:
        if name in paper.get("published", {}):
            parts += _published(name, [r for r in records if r["set"] == name], paper)
    return "\n\n".join(parts)


def elsewhere(paper: Mapping[str, Any], names: Sequence[str]) -> list[Record]:
    """Return what the benchmarks have of these sets; of one fit the last record."""
    found = [r for file in paper.get("benchmarks", ()) for r in read(BENCHMARKS / file)]
    known = [r for r in found if r["set"] in names and r["model"] in COLUMNS and "error" not in r]
    return merged(known, KEY)


def _scores(records: Sequence[Record], names: Sequence[str]) -> str:
    shown = _models(records)
    rows = []
    for name in names:
        own = [r for r in records if r["set"] == name]
        cells = [_cell([r for r in own if r["model"] == model]) for model in shown]
        sizes = [f"{max(r[key] for r in own):,}" for key in ("train_rows", "partial_rows")]
        rows.append([_label(name, own), *cells, *sizes])
    return table(["", *(COLUMNS[m] for m in shown), "rows", "with gaps"], rows)


def _beside(records: Sequence[Record], names: Sequence[str]) -> str:
    shown = _models(records)
    rows = []
    for name in names:
        own = [r for r in records if r["set"] == name]
        if own:
            rows.append(
                [LABELS.get(name, name)]
                + [_cell([r for r in own if r["model"] == model]) for model in shown]
            )
    heads = [f"{COLUMNS[m]}{_seeds(r for r in records if r['model'] == m)}" for m in shown]
    return table(["", *heads], rows)


def _seeds(records: Iterable[Record]) -> str:
    found = list(records)
    count = len({r["seed"] for r in found})
    where = "H200" if found[0]["device"] == "cuda" else "CPU"
    return f" ({where}, {count} seed{'s' if count > 1 else ''})"


def _floors(records: Sequence[Record], names: Sequence[str]) -> str:
    shown = _models(records)
    rows = []
    for name in names:
        cells = []
        for model in shown:
            own = [r for r in records if (r["set"], r["model"]) == (name, model)]
            lowest = f" ({min(r['test_min'] for r in own):.0f})" if own else ""
            cells.append(f"{fmean(r['test_floored'] for r in own):.2f}{lowest}" if own else "")
        rows.append([LABELS.get(name, name), *cells])
    return table(["", *(COLUMNS[m] for m in shown)], rows)


def _seconds(records: Sequence[Record], names: Sequence[str]) -> str:
    shown = _models(records)
    rows = []
    for name in names:
        cells = []
        for model in shown:
            own = [r for r in records if (r["set"], r["model"]) == (name, model)]
            steps = [r["fitted"]["steps"] for r in own if "steps" in r["fitted"]]
            told = f" ({fmean(steps):.0f})" if steps else ""
            cells.append(f"{fmean(r['fit_s'] for r in own):.0f}{told}" if own else "")
        rows.append([LABELS.get(name, name), *cells])
    return table(["", *(COLUMNS[m] for m in shown)], rows)


def _published(name: str, records: Sequence[Record], paper: Mapping[str, Any]) -> list[str]:
    """Return the published figures of a set and ours, if the test rows are the same."""
    if name not in paper["same_test_rows"] and not all(r["published_split"] for r in records):
        return []
    train = f"{paper['train_rows'][name]:,}"
    rows = [[model, figure, train] for model, figure in paper["published"][name].items()]
    for model in _models(records):
        own = [r for r in records if r["model"] == model]
        gaps = own[0]["partial_rows"]
        seen = f"{own[0]['train_rows']:,}" + (f" and {gaps:,} with gaps" if gaps else "")
        rows.append([f"here: {COLUMNS[model]}", _cell(own), seen])
    told = f"{LABELS[name]}, whose test rows are the published ones, beside published figures:"
    return [told, table(["", "test", "training rows"], rows)]


def _models(records: Sequence[Record]) -> list[str]:
    return [model for model in COLUMNS if any(r["model"] == model for r in records)]


def _label(name: str, records: Sequence[Record]) -> str:
    told = ", published split" if all(r["published_split"] for r in records) else ""
    return LABELS.get(name, name) + told


def _cell(records: Sequence[Record]) -> str:
    """Return the mean over seeds; of a fit with and without rows with gaps the one with them."""
    most = max((r["train_rows"] for r in records), default=0)
    own = [r for r in records if r["train_rows"] == most]
    if not own:
        return ""
    means = [r["test_mean"] for r in own]
    impossible = sum(r["rows_minus_inf"] for r in own)
    finite = not impossible
    spread = f" ± {stdev(means):.2f}" if len(means) > 1 and finite else ""
    return f"{fmean(means):.2f}{spread}" + (f" [{impossible}]" if impossible else "")
