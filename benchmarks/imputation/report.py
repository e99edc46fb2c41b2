"""The tables of the imputation benchmark, from its result files."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, final

from benchmarks.pages import report
from benchmarks.records import Record, joined

KEY = ("table", "method", "mechanism", "share", "seed")
ORDER = ("mdma", "iterative", "miceforest", "knn", "mean")
LABELS = {
    "mdma": "ours",
    "iterative": "IterativeImputer",
    "miceforest": "miceforest",
    "knn": "KNNImputer",
    "mean": "column mean",
}
# Whether the smaller figure is the better one.
SMALLER = {"rmse": True, "crps": True, "accuracy": False}


@final
@dataclass(frozen=True)
class Entry:
    """One method on one table with cells hidden in one way, the mean over seeds.

    Args:
        table, method, mechanism, share: what was filled, by what.
        rmse, crps, coverage, width: of numbers, in standard deviations; None if there is none.
        accuracy: of categories.
        seconds: of computing.
        seeds: how many there are.
    """

    table: str
    method: str
    mechanism: str
    share: float
    rmse: float | None
    crps: float | None
    coverage: float | None
    width: float | None
    accuracy: float | None
    seconds: float
    seeds: int

    @property
    def setting(self) -> tuple[str, float]:
        """How cells were hidden."""
        return self.mechanism, self.share


def entries(records: Sequence[Record]) -> list[Entry]:
    """Gather records over those seeds that every method has, so that all saw the same gaps."""
    good = [record for record in records if "error" not in record]

    def place(record: Record) -> tuple[Any, ...]:
        return record["table"], record["mechanism"], record["share"]

    made = []
    for _, group in itertools.groupby(sorted(good, key=place), key=place):
        some = list(group)
        methods = [m for m in ORDER if any(r["method"] == m for r in some)]
        seeds = set.intersection(*({r["seed"] for r in some if r["method"] == m} for m in methods))
        for method in methods:
            own = [r for r in some if r["method"] == method and r["seed"] in seeds]
            if own:
                made.append(_entry(own))
    return made


def _entry(records: list[Record]) -> Entry:
    def mean(name: str) -> float | None:
        found = [record[name] for record in records if record[name] is not None]
        found = [figure for figure in found if not math.isnan(figure)]
        return fmean(found) if found else None

    first = records[0]
    return Entry(
        *(first[name] for name in ("table", "method", "mechanism", "share")),
        *(mean(name) for name in ("rmse", "crps", "coverage", "width", "accuracy")),
        seconds=mean("seconds") or 0.0,
        seeds=len(records),
    )


def mean_ranks(found: Sequence[Entry], metric: str) -> dict[str, float]:
    """Return each method's mean rank over tables and settings, 1 for the best; ties share."""
    ranks: dict[str, list[float]] = {}
    for group in _groups(found):
        figures = {e.method: getattr(e, metric) for e in group if getattr(e, metric) is not None}
        sign = 1 if SMALLER[metric] else -1
        for method, own in figures.items():
            better = sum(sign * other < sign * own for other in figures.values())
            equal = sum(other == own for other in figures.values())
            ranks.setdefault(method, []).append(better + (equal + 1) / 2)
    return {method: fmean(own) for method, own in ranks.items()}


def _groups(found: Sequence[Entry]) -> list[list[Entry]]:
    def place(entry: Entry) -> tuple[Any, ...]:
        return entry.table, *entry.setting

    return [list(group) for _, group in itertools.groupby(sorted(found, key=place), key=place)]


def average(found: Iterable[Entry], metric: str) -> float | None:
    """Return the mean of a metric over entries that have it."""
    figures = [getattr(e, metric) for e in found if getattr(e, metric) is not None]
    return fmean(figures) if figures else None


def overview(found: Sequence[Entry]) -> list[str]:
    """Return a table of methods: mean ranks, means and coverage."""
    heads = (
        "method | rank by RMSE | rank by CRPS | rank by accuracy | RMSE | CRPS | accuracy | "
        "coverage of 90 % | width | seconds"
    )
    lines = [f"| {heads} |", "|---" * len(heads.split("|")) + "|"]
    ranks = {metric: mean_ranks(found, metric) for metric in SMALLER}
    best = {metric: min(own.values()) for metric, own in ranks.items() if own}
    for method in _methods(found):
        own = [e for e in found if e.method == method]
        cells = [LABELS[method]]
        for metric, by_method in ranks.items():
            rank = by_method.get(method)
            cells.append(_bold(rank, rank == best.get(metric)))
        cells += [_shown(average(own, name)) for name in ("rmse", "crps", "accuracy")]
        cells += [_shown(average(own, name)) for name in ("coverage", "width")]
        cells.append(f"{average(own, 'seconds'):.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def by_setting(found: Sequence[Entry]) -> list[str]:
    """Return a table of settings: mean ranks of each method, and our coverage."""
    methods = _methods(found)
    names = [LABELS[m] for m in methods]
    heads = ["gaps", *(f"RMSE, {n}" for n in names), *(f"CRPS, {n}" for n in names)]
    heads += [f"coverage, {LABELS[m]}" for m in methods if m != "knn"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for setting in sorted({e.setting for e in found}, key=lambda s: (s[0] != "mcar", s[1])):
        here = [e for e in found if e.setting == setting]
        cells = [f"{setting[0].upper()} {setting[1]:.0%}"]
        for metric in ("rmse", "crps"):
            ranks = mean_ranks(here, metric)
            best = min(ranks.values())
            cells += [_bold(ranks.get(m), ranks.get(m) == best) for m in methods]
        for method in methods:
            if method != "knn":
                cells.append(_shown(average([e for e in here if e.method == method], "coverage")))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def by_table(found: Sequence[Entry], metric: str) -> list[str]:
    """Return a table of data tables by methods, the mean over settings, the best in bold."""
    methods = _methods(found)
    lines = [
        f"| table | {' | '.join(LABELS[m] for m in methods)} |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for table in dict.fromkeys(e.table for e in found):
        own = {
            m: average([e for e in found if (e.table, e.method) == (table, m)], metric)
            for m in methods
        }
        known = [figure for figure in own.values() if figure is not None]
        if not known:
            continue
        best = None
        if metric in SMALLER:
            best = min(known) if SMALLER[metric] else max(known)
        cells = [_bold(own[m], own[m] == best, 3) for m in methods]
        lines.append(f"| {table} | {' | '.join(cells)} |")
    return lines


def page(records: Sequence[Record]) -> str:
    """Return the whole report as Markdown."""
    found = entries(records)
    tables = list(dict.fromkeys(e.table for e in found))
    settings = {e.setting for e in found}
    seeds = sorted({e.seeds for e in found})
    counts = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    lines = [
        f"{len(tables)} tables, {len(settings)} ways of hiding cells, {counts} seed(s) of each. "
        "Numbers are in standard",
        "deviations of the whole column. Ranks are means over tables and settings, 1 is the best; "
        "KNNImputer has no",
        "distribution, its CRPS is the mean absolute error. Seconds are those of one thread.",
        "",
        *overview(found),
        "",
        "### Mean ranks and coverage by setting",
        "",
        *by_setting(found),
    ]
    titles = {
        "rmse": "RMSE",
        "crps": "CRPS",
        "accuracy": "Accuracy on categories",
        "coverage": "Coverage of 90 % intervals",
        "seconds": "Seconds",
    }
    for metric, title in titles.items():
        lines += ["", f"### {title} by table, mean over settings", "", *by_table(found, metric)]
    errors = [
        f"- {r['table']} {r['mechanism']} {r['share']:.0%} seed {r['seed']} "
        f"{LABELS[r['method']]}: {r['error']}"
        for r in records
        if "error" in r
    ]
    lines += ["", "Failed:", "", *errors] if errors else []
    return "\n".join([*lines, *origins(records)]) + "\n"


def origins(records: Sequence[Record]) -> list[str]:
    """Say where and when the figures were measured, and with which versions."""
    places = {f"{r['date'][:10]}, {r['cpu']}, {r['threads']} thread(s)" for r in records}
    versions = {name: v for r in records for name, v in r["versions"].items()}
    shown = ", ".join(f"{name} {v}" for name, v in versions.items())
    return ["", f"Measured: {'; '.join(sorted(places))}; {shown}."]


def _methods(found: Sequence[Entry]) -> list[str]:
    return [method for method in ORDER if any(e.method == method for e in found)]


def _bold(figure: float | None, best: bool, digits: int = 2) -> str:
    if figure is None:
        return ""
    return f"**{figure:.{digits}f}**" if best else f"{figure:.{digits}f}"


def _shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.3f}"


def main(words: Sequence[str]) -> None:
    """Merge result files, print or write the tables, and draw the picture."""
    report("benchmarks.imputation", words, partial(joined, names=KEY), page, _draw, page="--page")


def _draw(records: Sequence[Record], path: Path) -> None:
    from benchmarks.imputation.picture import draw  # needs matplotlib, the tables do not

    draw(entries(records), path)
