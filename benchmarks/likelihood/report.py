"""The table and the picture of the scoreboard, from its result files."""

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import final

from benchmarks.likelihood.ours import EFFORTS
from benchmarks.likelihood.record import KEY
from benchmarks.likelihood.sets import FOLDS, NAMES, SMALL
from benchmarks.records import Record, joined

ORDER = (*EFFORTS, "paper", "gmm", "kde", "vine", "einet", "nsf")
LABELS = {
    **{effort: f"ours, {effort}" for effort in EFFORTS},
    "paper": "paper's MDMA",
    "gmm": "GMM",
    "kde": "KDE",
    "vine": "vine copula",
    "einet": "Einet",
    "nsf": "NSF",
}
HEADS = (
    "model | test | median | min | rows at -inf | validation | fit s | score s | sample s | runs"
)


@final
@dataclass(frozen=True)
class Entry:
    """One model on one data set, over seeds and folds.

    Args:
        name, model, partial: the data set, the model, and whether it saw rows with gaps.
        mean, spread: over seeds, of the mean test log-likelihood; a spread needs two seeds.
        median: the median over runs of the median row.
        minimum: the worst row of all runs.
        impossible, rows: test rows at -inf, and all of them, over all runs.
        validation: the mean over runs.
        fit_s, score_s, sample_s: the means over runs.
        seeds, runs: how many there are; a seed of a small set has several runs, its folds.
        failed: runs that ended in an error; they are in no figure.
        lacking: folds that some seed has no figure of.
    """

    name: str
    model: str
    partial: bool
    mean: float
    spread: float | None
    median: float
    minimum: float
    impossible: int
    rows: int
    validation: float
    fit_s: float
    score_s: float
    sample_s: float
    seeds: int
    runs: int
    failed: int
    lacking: int

    @property
    def label(self) -> str:
        """The model's name in tables and pictures."""
        return LABELS.get(self.model, self.model) + (" + partial rows" if self.partial else "")


def entries(records: Sequence[Record]) -> list[Entry]:
    """Gather records by data set and model, in the order of the tables."""
    found = sorted(records, key=_place)
    groups = itertools.groupby(found, key=_place)
    made = [_entry(list(some)) for _, some in groups]
    return [entry for entry in made if entry is not None]


def _place(record: Record) -> tuple[int, int, bool]:
    return NAMES.index(record["set"]), ORDER.index(record["model"]), bool(record["partial"])


def _entry(records: list[Record]) -> Entry | None:
    good = [record for record in records if "error" not in record]
    if not good:
        return None
    seeds = sorted({record["seed"] for record in good})
    # Folds are of unequal size: a seed's figure is the mean over all rows of all its folds.
    means = [_mean_of_rows([r for r in good if r["seed"] == seed]) for seed in seeds]
    expected = len(seeds) * (FOLDS if good[0]["set"] in SMALL else 1)
    finite = all(math.isfinite(mean) for mean in means)
    return Entry(
        name=good[0]["set"],
        model=good[0]["model"],
        partial=bool(good[0]["partial"]),
        mean=fmean(means),
        spread=stdev(means) if len(means) > 1 and finite else None,
        median=median(r["test_median"] for r in good),
        minimum=min(r["test_min"] for r in good),
        impossible=sum(r["rows_minus_inf"] for r in good),
        rows=sum(r["test_rows"] for r in good),
        validation=fmean(r["val_mean"] for r in good),
        fit_s=fmean(r["fit_s"] for r in good),
        score_s=fmean(r["score_s"] for r in good),
        sample_s=fmean(r["sample_s"] for r in good),
        seeds=len(seeds),
        runs=len(good),
        failed=len(records) - len(good),
        lacking=expected - len(good),
    )


def _mean_of_rows(records: list[Record]) -> float:
    rows = sum(record["test_rows"] for record in records)
    return sum(record["test_mean"] * record["test_rows"] for record in records) / rows


def overview(found: Sequence[Entry]) -> list[str]:
    """Return a table of data sets by models, the best of each data set in bold."""
    labels = list(dict.fromkeys(e.label for e in sorted(found, key=lambda e: ORDER.index(e.model))))
    lines = ["| data set | " + " | ".join(labels) + " |", "|---" * (len(labels) + 1) + "|"]
    for name, group in itertools.groupby(found, key=lambda e: e.name):
        by_label = {entry.label: entry for entry in group}
        best = max(entry.mean for entry in by_label.values())
        cells = [_cell(by_label.get(label), best) for label in labels]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _cell(entry: Entry | None, best: float) -> str:
    if entry is None:
        return ""
    shown = _test(entry)
    return f"**{shown}**" if entry.mean == best else shown


def _test(entry: Entry) -> str:
    spread = "" if entry.spread is None else f" ± {entry.spread:.2f}"
    impossible = f" [{entry.impossible} of {entry.rows} rows]" if entry.impossible else ""
    return f"{entry.mean:.2f}{spread}{impossible}"


def details(found: Sequence[Entry]) -> list[str]:
    """Return a table for each data set, the best model first."""
    lines = []
    for name, group in itertools.groupby(found, key=lambda e: e.name):
        lines += ["", f"### {name}", "", f"| {HEADS} |", "|---" * len(HEADS.split("|")) + "|"]
        lines += [_detail(entry) for entry in sorted(group, key=lambda e: -e.mean)]
    return lines


def _detail(entry: Entry) -> str:
    spread = "" if entry.spread is None else f" ± {entry.spread:.3f}"
    runs = str(entry.runs) + (f", {entry.failed} failed" if entry.failed else "")
    runs += f", {entry.lacking} lacking" if entry.lacking else ""
    cells = [
        *(entry.label, f"{entry.mean:.3f}{spread}", f"{entry.median:.2f}", f"{entry.minimum:.1f}"),
        *(f"{entry.impossible} of {entry.rows}", f"{entry.validation:.3f}"),
        *(f"{seconds:.3g}" for seconds in (entry.fit_s, entry.score_s, entry.sample_s)),
        runs,
    ]
    return "| " + " | ".join(cells) + " |"


def small_margins(found: Sequence[Entry]) -> list[str]:
    """Say, for each small set, how far our models are from the better of GMM and KDE."""
    lines = []
    for name in SMALL:
        here = {e.model: e.mean for e in found if e.name == name and not e.lacking}
        ours = [model for model in EFFORTS if model in here]
        if not ours or not {"gmm", "kde"} <= set(here):
            continue
        peer = max(here["gmm"], here["kde"])
        shown = ", ".join(f"{model} {here[model] - peer:+.2f}" for model in ours)
        lines.append(f"- {name}: {shown}")
    if not lines:
        return []
    return ["", "Small sets, ours less the better of GMM and KDE (nats per row):", "", *lines]


def origins(records: Sequence[Record]) -> list[str]:
    """Say where and when the figures were measured."""
    found = {
        f"{r['date'][:10]}, commit {r['commit']}, "
        + (r["gpu"] if r.get("device", "cpu") != "cpu" else f"{r['cpu']}, {r['threads']} thread(s)")
        for r in records
    }
    return ["", "Measured: " + "; ".join(sorted(found)) + "."]


def page(records: Sequence[Record]) -> str:
    """Return the whole report as Markdown."""
    found = entries(records)
    intro = [
        "Mean test log-likelihood in nats per row, ± the standard deviation over seeds. Every test",
        "row counts: a model that finds rows impossible has the mean -inf, and their number in",
        "brackets. Times are for one fit, 10,000 rows scored and 10,000 rows drawn.",
        "",
    ]
    errors = [
        f"- {r['set']} {r['model']} seed {r['seed']}: {r['error']}" for r in records if "error" in r
    ]
    failed = ["", "Failed:", "", *errors] if errors else []
    lines = [*intro, *overview(found), *small_margins(found), *failed, *origins(records)]
    return "\n".join([*lines, *details(found)]) + "\n"


def main(words: Sequence[str]) -> None:
    """Merge result files, print or write the table, and draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.likelihood report")
    parser.add_argument("files", nargs="+", help="result files; later ones take precedence")
    parser.add_argument("--out", help="Markdown file, default the screen")
    parser.add_argument("--picture", help="image file")
    parser.add_argument("--against", default="gmm", choices=["best", *ORDER])
    arguments = parser.parse_args(words)
    records = joined(map(Path, arguments.files), KEY)
    text = page(records)
    if arguments.out:
        Path(arguments.out).write_text(text)
    else:
        print(text, end="")
    if arguments.picture:
        from benchmarks.likelihood.picture import draw  # needs matplotlib, the table does not

        draw(entries(records), Path(arguments.picture), arguments.against)
