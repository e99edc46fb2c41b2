"""The scoreboard: held-out likelihood and times of our models and their peers.

Every model sees the same rows. Everything is chosen on validation rows; test rows are scored once,
and none is dropped from any mean.
"""

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any, final

import numpy as np

from studies.data.density import FOLDS, NAMES, SMALL, WITH_PARTIAL, cell_widths, splits
from studies.harness.drawing import blank, open_frame, rows_of_names
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import best_bold, present, shown, table
from studies.models.densities import TAKE_GAPS, fit_density
from studies.models.fitted import answers, over_cells, summary
from studies.models.ours import EFFORTS

TIMED = 10_000  # rows scored and drawn for the times
MOST_CELLS = 1_000  # test rows whose cells are averaged over
ASKED = 300  # test rows with a hidden cell
ANSWERING = (*EFFORTS, "paper", "gmm", "einet", "nsf")  # others take minutes for so many points
PAPER_WIDTH = {"cuda": 500, "cpu": 100}
LABELS = {
    **{effort: f"ours, {effort}" for effort in EFFORTS},
    **{"paper": "paper's MDMA", "gmm": "GMM", "kde": "KDE", "vine": "vine copula"},
    **{"einet": "Einet", "nsf": "NSF"},
}
ORDER = tuple(LABELS)


def jobs(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Return each set, fold and model, and whether it also sees rows with gaps."""
    for name in settings.sets:
        for fold in range(settings.most_folds) if name in SMALL else (None,):
            for model in settings.models:
                gaps = settings.partial and model in TAKE_GAPS and name in WITH_PARTIAL
                yield {"set": name, "model": model, "fold": fold, "partial": gaps}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit a model, score its test rows and take the times."""
    found = context.once(job["set"], lambda: splits(job["set"], context))
    split = found[job["fold"] or 0]
    train = split.all_train if job["partial"] else split.train
    split = type(split)(split.name, split.fold, train, split.val, split.test)
    started = time.perf_counter()
    options = _options(settings, job["model"], context.device)
    fitted = fit_density(job["model"], split, seed=seed, device=context.device, options=options)
    fit_s = time.perf_counter() - started
    repeated = np.resize(split.test, (TIMED, split.test.shape[1]))
    started = time.perf_counter()
    fitted.score(repeated)
    score_s = time.perf_counter() - started
    started = time.perf_counter()
    fitted.sample(TIMED)
    sample_s = time.perf_counter() - started
    widths = cell_widths(split.train)
    some = split.test[:MOST_CELLS]
    mass = {"test_cells": over_cells(fitted.exact, some, widths, seed)} if widths.any() else {}
    asked = {}
    if job["model"] in ANSWERING:
        asked = {"answers": answers(fitted.exact, split.train, split.test[:ASKED], seed)}
    return {
        **summary(fitted.exact(split.test)),
        **mass,
        **asked,
        "grid_columns": int((widths > 0).sum()),
        "val_mean": float(np.mean(fitted.exact(split.val))),
        "fit_s": round(fit_s, 3),
        "score_s": round(score_s, 4),
        "sample_s": round(sample_s, 4),
        "train_rows": len(train),
        "settings": fitted.settings,
        "device": context.device,
        "seconds_limit": options.get("seconds"),
    }


def _options(settings: Settings, model: str, device: str) -> dict[str, Any]:
    if model in EFFORTS:
        limit = {"max_seconds": settings.ours_seconds} if settings.ours_seconds else {}
        return {"alone": False, **limit}
    limit = {"seconds": settings.seconds}
    if model == "paper":
        width = settings.width or PAPER_WIDTH[device]
        return {"width": width, "leaves": "neural", "tree": "coupled", **limit}
    return limit if model in ("einet", "nsf") else {}


# Tables -----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Entry:
    """One model on one data set, over seeds and folds.

    Args:
        name, model, partial: The data set, the model, and whether it saw rows with gaps.
        records: Its records.
    """

    name: str
    model: str
    partial: bool
    records: tuple[Record, ...]

    @property
    def label(self) -> str:
        """The model's name in tables and pictures."""
        return LABELS[self.model] + (" + partial rows" if self.partial else "")

    @property
    def means(self) -> list[float]:
        """The mean test log-likelihood of each seed, over all rows of all its folds."""
        found = []
        for seed in sorted({r["seed"] for r in self.records}):
            own = [r for r in self.records if r["seed"] == seed]
            total = sum(r["test_mean"] * r["test_rows"] for r in own)
            found.append(total / sum(r["test_rows"] for r in own))
        return found

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.means)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, if there are several and all are finite."""
        finite = all(math.isfinite(mean) for mean in self.means)
        return stdev(self.means) if len(self.means) > 1 and finite else None

    @property
    def lacking(self) -> int:
        """The number of folds without a record."""
        return len(self.means) * (FOLDS if self.name in SMALL else 1) - len(self.records)

    @property
    def over_cells(self) -> str:
        """The mean with densities averaged over the cells of grids; empty if not measured."""
        found = [r["test_cells"] for r in self.records if "test_cells" in r]
        return shown(fmean(found)) if len(found) == len(self.records) else ""

    @property
    def answers(self) -> float | None:
        """The mean CRPS of hidden cells; None if not measured in every record."""
        found = [r["answers"] for r in self.records if "answers" in r]
        return fmean(found) if len(found) == len(self.records) else None

    def total(self, figure: str) -> int:
        """Return the sum of a count over all records."""
        return sum(r[figure] for r in self.records)

    def average(self, figure: str) -> float:
        """Return the mean of a figure over all records."""
        return fmean(r[figure] for r in self.records)


def entries(records: Records) -> list[Entry]:
    """Gather records by data set and model, in the order of the tables."""

    def place(record: Record) -> tuple[int, int, bool]:
        return NAMES.index(record["set"]), ORDER.index(record["model"]), bool(record["partial"])

    made = []
    for (name, model, partial), some in itertools.groupby(sorted(records, key=place), key=place):
        made.append(Entry(NAMES[name], ORDER[model], partial, tuple(some)))
    return made


def facts(records: Records) -> dict[str, str]:
    """Return the mean of each data set and model, with its spread over seeds."""
    return {
        f"{entry.name}.{entry.model}": _cell(entry, math.inf)
        for entry in sorted(entries(records), key=lambda entry: not entry.partial)
    }


def tables(records: Records, paper: Paper) -> str:
    """Return the overview, our margins on small sets, and a table for each data set."""
    found = entries(records)
    parts = [
        "Mean test log-likelihood in nats per row, ± the standard deviation over seeds. Every test "
        "row counts: a model that scores rows at -inf has the mean -inf, with their number in "
        "brackets. Where columns repeat values of a grid, 'over cells' averages the density over "
        "each row's cell (its mass, in the density's unit; a sample of rows): peers know no grid, "
        "and a spike on its values gains nothing there. Times are for one fit, scoring 10,000 rows "
        "and drawing 10,000 rows.",
        _overview(found),
    ]
    if any(entry.answers is not None for entry in found):
        parts += [
            "The score of answers: a cell of each of 300 test rows is hidden, and its conditional "
            "given the others is scored by the CRPS, in standard deviations of the column (less is "
            "better). The conditional is the joint density on quantiles of the column, the same "
            "way for every model.",
            _answers(found),
        ]
    if margins := _small_margins(found):
        parts += [
            "Small sets, ours minus the better of GMM and KDE (nats per row):",
            "\n".join(margins),
        ]
    for name in dict.fromkeys(entry.name for entry in found):
        parts += [f"### {name}", _details([entry for entry in found if entry.name == name])]
    return "\n\n".join(parts)


def _overview(found: Sequence[Entry]) -> str:
    """Return a table of data sets by models, the best of each data set in bold."""
    ordered = sorted(found, key=lambda entry: (ORDER.index(entry.model), entry.partial))
    labels = list(dict.fromkeys(entry.label for entry in ordered))
    rows = []
    for name in dict.fromkeys(entry.name for entry in found):
        here = {entry.label: entry for entry in found if entry.name == name}
        best = max(entry.mean for entry in here.values())
        cells = [_cell(here[label], best) if label in here else "" for label in labels]
        rows.append([name, *cells])
    return table(["data set", *labels], rows)


def _answers(found: Sequence[Entry]) -> str:
    """Return a table of data sets by models, the best answers of each data set in bold."""
    known = [entry for entry in found if entry.answers is not None]
    ordered = sorted(known, key=lambda entry: (ORDER.index(entry.model), entry.partial))
    labels = list(dict.fromkeys(entry.label for entry in ordered))
    rows = []
    for name in dict.fromkeys(entry.name for entry in known):
        here = {entry.label: entry.answers for entry in known if entry.name == name}
        cells = best_bold(here, 3, smaller=True)
        rows.append([name, *(cells.get(label, "") for label in labels)])
    return table(["data set", *labels], rows)


def _cell(entry: Entry, best: float) -> str:
    spread = "" if entry.spread is None else f" ± {entry.spread:.2f}"
    impossible, rows = entry.total("rows_minus_inf"), entry.total("test_rows")
    counted = f" [{impossible} of {rows} rows]" if impossible else ""
    shown = f"{entry.mean:.2f}{spread}{counted}"
    return f"**{shown}**" if entry.mean == best else shown


def _details(found: Sequence[Entry]) -> str:
    """Return the figures of one data set, the best model first."""
    cells = any(entry.over_cells for entry in found)
    head = [
        *("model", "test", *(["over cells"] if cells else []), "median", "min", "rows at -inf"),
        *("validation", "fit s", "score s", "sample s", "runs"),
    ]
    rows = []
    for entry in sorted(found, key=lambda entry: -entry.mean):
        spread = "" if entry.spread is None else f" ± {entry.spread:.3f}"
        runs = str(len(entry.records)) + (f", {entry.lacking} lacking" if entry.lacking else "")
        rows.append(
            [
                *(entry.label, f"{entry.mean:.3f}{spread}"),
                *([entry.over_cells] if cells else []),
                f"{median(r['test_median'] for r in entry.records):.2f}",
                f"{min(r['test_min'] for r in entry.records):.1f}",
                f"{entry.total('rows_minus_inf')} of {entry.total('test_rows')}",
                f"{entry.average('val_mean'):.3f}",
                *(f"{entry.average(time):.3g}" for time in ("fit_s", "score_s", "sample_s")),
                runs,
            ]
        )
    return table(head, rows)


def _small_margins(found: Sequence[Entry]) -> list[str]:
    """Say, for each small set, how far our models are from the better of GMM and KDE."""
    lines = []
    for name in SMALL:
        here = {e.model: e.mean for e in found if e.name == name and not e.lacking}
        ours = present(EFFORTS, here)
        if ours and {"gmm", "kde"} <= set(here):
            peer = max(here["gmm"], here["kde"])
            shown = ", ".join(f"{model} {here[model] - peer:+.2f}" for model in ours)
            lines.append(f"- {name}: {shown}")
    return lines


# The picture ------------------------------------------------------------------------------------

# Shapes and colours that also differ in grey and for the colour-blind.
MARKS = {
    **{"fast": ("o", "#9ecae1"), "balanced": ("o", "#4292c6"), "best": ("o", "#08306b")},
    **{"paper": ("P", "#009e73"), "gmm": ("s", "#000000"), "kde": ("^", "#7f7f7f")},
    **{"vine": ("D", "#cc79a7"), "einet": ("v", "#e69f00"), "nsf": ("X", "#d55e00")},
}
FILLED = (*EFFORTS, "paper", "nsf")
LINEAR = 1.0  # nats around zero that are drawn to scale; beyond them the axis is logarithmic
FARTHEST = 40.0
TICKS = (-30, -10, -3, -1, -0.5, 0, 0.5, 1, 3, 10, 30)


def differences(found: Sequence[Entry]) -> list[tuple[Entry, float]]:
    """Return each entry with its mean less that of the Gaussian mixture on its data set."""
    zero = {e.name: e.mean for e in found if e.model == "gmm" and math.isfinite(e.mean)}
    return [(entry, entry.mean - zero[entry.name]) for entry in found if entry.name in zero]


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw how far each model is from the Gaussian mixture, a line for each data set."""
    found = differences(entries(records))
    if not found:
        return {}
    names = list(dict.fromkeys(entry.name for entry, _ in found))
    models = present(ORDER, (entry.model for entry, _ in found))
    figure = blank(6.5, 0.8 + 0.42 * len(names))
    axes = figure.subplots()
    for entry, difference in found:
        offset = 0.36 * (models.index(entry.model) / max(1, len(models) - 1) - 0.5)
        _mark(axes, entry, difference, names.index(entry.name) + offset)
    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    for row in range(len(names) - 1):
        axes.axhline(row + 0.5, color="0.9", linewidth=0.6, zorder=0)
    rows_of_names(axes, names)
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.0)
    highest = max(LINEAR, axes.get_xlim()[1])
    axes.set_xlim(-FARTHEST, highest)
    ticks = [tick for tick in TICKS if tick <= highest]
    axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("test log-likelihood less that of GMM, nats per row (◂ farther, or -inf)")
    open_frame(axes, ("top", "right", "left"))
    ranked = sorted((e for e, _ in found), key=lambda e: (ORDER.index(e.model), e.partial))
    handles, labels = axes.get_legend_handles_labels()
    marks = dict(zip(labels, handles, strict=True))
    shown = present(dict.fromkeys(entry.label for entry in ranked), marks)
    options = {"loc": "outside upper center", "ncols": 4, "columnspacing": 1.0, "fontsize": 7}
    figure.legend([marks[label] for label in shown], shown, **options)
    return {"": figure}


def _mark(axes: Any, entry: Entry, difference: float, y: float) -> None:
    shape, colour = MARKS[entry.model]
    beyond = difference < -FARTHEST
    axes.errorbar(
        -FARTHEST if beyond else difference,
        y,
        xerr=None if beyond else entry.spread,
        fmt="<" if beyond else shape,
        color=colour,
        markerfacecolor=colour if entry.model in FILLED and not entry.partial else "white",
        markersize=5,
        elinewidth=0.8,
        label=None if beyond else entry.label,
        clip_on=False,
    )


STUDY = Study(
    "likelihood",
    "Held-out likelihood",
    measure,
    tables,
    figures,
    facts,
    jobs=jobs,
    key=("set", "model", "fold", "partial"),
    parts=("sets", "models", "partial", "seconds", "ours_seconds", "width", "most_folds"),
    page="scoreboard",
)
