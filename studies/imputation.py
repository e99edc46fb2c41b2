"""Imputation: cells of complete tables are hidden, filled by each method, and compared.

Every method sees only the table with gaps, and fills the table that it learned from.
"""

import itertools
import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import rankdata

from studies.data.density import Rows
from studies.data.tables import complete_table, numeric
from studies.harness.available import check_choice
from studies.harness.drawing import legend, open_frame, panels, rows_of_names
from studies.harness.machine import processor_seconds
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import best_bold, present, ranges, ranked, shown, table
from studies.models.imputers import LEVEL, METHODS, Filled
from studies.models.ours import own_options

Mask = npt.NDArray[np.bool_]
LABELS = {
    **{"mdma": "ours", "iterative": "IterativeImputer", "miceforest": "miceforest"},
    **{"knn": "KNNImputer", "mean": "column mean"},
}

# Which cells are hidden -------------------------------------------------------------------------

MECHANISMS = ("mcar", "mar")
SLOPE = 2.0  # of the log odds of a gap, in standard deviations of what drives it
DRIVERS = 0.3  # the share of columns that stay and drive the gaps of the others


def hidden(frame: pd.DataFrame, mechanism: str, share: float, seed: int) -> Mask:
    """Return which cells (N, D) are hidden.

    "mcar": each cell by itself with probability `share`. "mar": three tenths of the columns, drawn
    at random and at least one, keep all cells. Their standardised values (of categories: standard
    normal scores, one for each) are added with random signs and standardised, and a cell of another
    column is hidden with the probability sigmoid(2 z + b), where b makes the mean equal to `share`.
    Each of these columns has signs of its own.
    """
    check_choice("`mechanisms`", mechanism, MECHANISMS)
    rng = np.random.default_rng([seed, round(1000 * share), MECHANISMS.index(mechanism)])
    rows, columns = frame.shape
    if mechanism == "mcar":
        mask = rng.random((rows, columns)) < share
    else:
        order = rng.permutation(columns)
        count = max(1, round(DRIVERS * columns))
        drivers = np.stack([_scores(frame.iloc[:, c], rng) for c in order[:count]])  # (K, N)
        mask = np.zeros((rows, columns), dtype=bool)
        for c in order[count:]:
            z = SLOPE * _standard(rng.choice([-1.0, 1.0], count) @ drivers)
            level = brentq(lambda b, z=z: expit(z + b).mean() - share, -50, 50, xtol=1e-12)
            mask[:, c] = rng.random(rows) < expit(z + level)
    return _with_two_values(frame, mask)


def _scores(column: pd.Series, rng: np.random.Generator) -> Rows:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _standard(column.to_numpy(dtype=np.float64))
    codes, values = pd.factorize(column, sort=True)
    return _standard(rng.normal(size=len(values))[codes])


def _standard(x: Rows) -> Rows:
    return (x - x.mean()) / (x.std() or 1.0)


def _with_two_values(frame: pd.DataFrame, mask: Mask) -> Mask:
    """Uncover a cell where a column would be left with fewer than two different values."""
    for c in range(frame.shape[1]):
        column = frame.iloc[:, c]
        for value in column.drop_duplicates().iloc[:2]:
            rows = np.flatnonzero(column == value)
            if mask[rows, c].all():
                mask[rows[0], c] = False
    return mask


# How good filled cells are ----------------------------------------------------------------------


def fair_crps(draws: Rows, truth: Rows) -> Rows:
    """Return the CRPS (N,) of a distribution from draws (S, N), without bias.

    E|X - y| - E|X - X'| / 2, the second over pairs of different draws. One draw is a point.

    >>> fair_crps(np.array([[1.0], [3.0]]), np.array([2.0]))
    array([0.])
    """
    count = len(draws)
    away = np.abs(draws - truth).mean(0)
    if count == 1:
        return away
    ordered = np.sort(draws, axis=0)
    ranks = 2 * np.arange(1, count + 1) - count - 1  # sum over pairs of |difference|
    return away - (ranks[:, None] * ordered).sum(0) / (count * (count - 1))


def compared(truth: pd.DataFrame, mask: Mask, filled: Filled, level: float) -> Record:
    """Compare filled cells with the truth; numbers in standard deviations of the whole column."""
    numbers = numeric(truth)
    errors, scores, inside, widths, right = [], [], [], [], []
    for place, name in enumerate(truth.columns):
        rows = mask[:, place]
        if name not in numbers:
            same = filled.point.loc[rows, name].astype(str) == truth.loc[rows, name].astype(str)
            right.append(same.to_numpy(dtype=np.float64))
            continue
        spread = float(truth[name].std(ddof=0)) or 1.0
        y = truth.loc[rows, name].to_numpy(dtype=np.float64)
        errors.append((_cells(filled.point, name, rows) - y) / spread)
        draws = np.stack([_cells(drawn, name, rows) for drawn in filled.draws or [filled.point]])
        scores.append(fair_crps(draws, y) / spread)
        if filled.lower is not None and filled.upper is not None:
            low, high = (_cells(end, name, rows) for end in (filled.lower, filled.upper))
            inside.append((low <= y) & (y <= high))
            widths.append((high - low) / spread)
    square = _mean([part**2 for part in errors])
    return {
        "rmse": None if square is None else float(np.sqrt(square)),
        "crps": _mean(scores),
        "coverage": _mean(inside),
        "width": _mean(widths),
        "accuracy": _mean(right),
        "cells": int(sum(len(part) for part in errors)),
        "level": level,
    }


def _cells(frame: pd.DataFrame, name: str, rows: Mask) -> Rows:
    values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)[rows]
    if not np.isfinite(values).all():
        raise ValueError(f"Expected all cells of {name!r} to be filled; got some that are not.")
    return values


def _mean(parts: Sequence[Any]) -> float | None:
    """Return the mean over all cells; None if there are none, as when no category was hidden."""
    every = np.concatenate(parts) if parts else np.empty(0)
    return float(every.mean()) if len(every) else None


# Running ----------------------------------------------------------------------------------------


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Hide cells of a table, fill them by one method and compare."""
    method = check_choice("`methods`", job["method"], METHODS)
    frame = complete_table(job["table"], context, settings.rows)
    mask = hidden(frame, job["mechanism"], job["share"], seed)
    options = own_options(settings) if method == "mdma" else {}
    started = time.process_time()
    with processor_seconds():
        filled = METHODS[method](frame.mask(mask), seed, **options)
    seconds = time.process_time() - started
    return {
        **compared(frame, mask, filled, LEVEL),
        "rows": len(frame),
        "columns": frame.shape[1],
        "seconds": round(seconds, 3),
        "fit_s": None if filled.fit_s is None else round(filled.fit_s, 3),
        "draws": len(filled.draws),
        "settings": filled.settings,
    }


# Tables -----------------------------------------------------------------------------------------

FIGURES = ("rmse", "crps", "coverage", "width", "accuracy", "seconds")
SMALLER = {"rmse": True, "crps": True, "accuracy": False}  # whether smaller is better


class Entry(NamedTuple):
    """One method on one table with cells hidden in one way: means over seeds, None if none."""

    table: str
    method: str
    mechanism: str
    share: float
    seeds: int
    figures: dict[str, float | None]


def entries(records: Records) -> list[Entry]:
    """Gather records over those seeds that every method has, so that all saw the same gaps."""

    def place(record: Record) -> tuple[Any, ...]:
        return record["table"], record["mechanism"], record["share"]

    made = []
    for (name, mechanism, share), group in itertools.groupby(sorted(records, key=place), place):
        some = list(group)
        methods = present(LABELS, (r["method"] for r in some))
        seeds = set.intersection(*({r["seed"] for r in some if r["method"] == m} for m in methods))
        for method in methods:
            own = [r for r in some if r["method"] == method and r["seed"] in seeds]
            means = {}
            for figure in FIGURES:
                values = [r[figure] for r in own if r[figure] is not None]
                values = [value for value in values if value == value]
                means[figure] = fmean(values) if values else None
            made.append(Entry(name, method, mechanism, share, len(own), means))
    return [entry for entry in made if entry.seeds]


def mean_ranks(found: Sequence[Entry], metric: str) -> dict[str, float]:
    """Return each method's mean rank over tables and settings, 1 for the best; ties share."""
    ranks: dict[str, list[float]] = {}
    places: dict[tuple[Any, ...], dict[str, float]] = {}
    for entry in found:
        figure = entry.figures[metric]
        if figure is not None:
            place = (entry.table, entry.mechanism, entry.share)
            places.setdefault(place, {})[entry.method] = figure if SMALLER[metric] else -figure
    for by_method in places.values():
        for method, rank in zip(by_method, rankdata(list(by_method.values())), strict=True):
            ranks.setdefault(method, []).append(float(rank))
    return {method: fmean(own) for method, own in ranks.items()}


def average(found: Sequence[Entry], metric: str, **where: Any) -> float | None:
    """Return the mean of a figure over entries that have it."""
    own = [e for e in found if all(getattr(e, name) == value for name, value in where.items())]
    figures = [figure for e in own if (figure := e.figures[metric]) is not None]
    return fmean(figures) if figures else None


def facts(records: Records) -> dict[str, str]:
    """Return mean ranks, best first, and the coverage of intervals of each method."""
    found = entries(records)
    ranks = {
        f"rank.{metric}": ranked({LABELS[m]: rank for m, rank in by_method.items()}, 2)
        for metric in SMALLER
        for by_method in [mean_ranks(found, metric)]
    }
    covered = {m: average(found, "coverage", method=m) for m in LABELS}
    shares = {f"coverage.{m}": f"{share:.3f}" for m, share in covered.items() if share is not None}
    return ranks | shares


def tables(records: Records, paper: Paper) -> str:
    """Return the overview, then tables by setting and by table."""
    found = entries(records)
    methods = present(LABELS, (e.method for e in found))
    count = len({e.table for e in found})
    settings = {(e.mechanism, e.share) for e in found}
    parts = [
        f"{count} tables, {len(settings)} ways of hiding cells, {ranges(e.seeds for e in found)} "
        "seed(s) of each. Errors and widths are in standard deviations of the complete column. "
        "Ranks are means over tables and settings; 1 is the best. KNNImputer has no distribution: "
        "its CRPS is the mean absolute error. Seconds are on one thread.",
        _overview(found, methods),
        "### Mean ranks and coverage by setting",
        _by_setting(found, methods),
    ]
    titles = {
        **{"rmse": "RMSE", "crps": "CRPS", "accuracy": "Accuracy on categories"},
        **{"coverage": "Coverage of 90 % intervals", "seconds": "Seconds"},
    }
    for metric, title in titles.items():
        rows = []
        for name in dict.fromkeys(e.table for e in found):
            own = {m: average(found, metric, table=name, method=m) for m in methods}
            if any(figure is not None for figure in own.values()):
                rows.append([name, *best_bold(own, 3, smaller=SMALLER.get(metric)).values()])
        head = ["table", *(LABELS[m] for m in methods)]
        parts += [f"### {title} by table, mean over settings", table(head, rows)]
    return "\n\n".join(parts)


def _overview(found: Sequence[Entry], methods: Sequence[str]) -> str:
    head = [
        *("method", "rank by RMSE", "rank by CRPS", "rank by accuracy", "RMSE", "CRPS"),
        *("accuracy", "coverage of 90 %", "width", "seconds"),
    ]
    ranks = [best_bold(mean_ranks(found, metric), 2, smaller=True) for metric in SMALLER]
    rows = []
    for method in methods:
        names = ("rmse", "crps", "accuracy", "coverage", "width")
        figures = [shown(average(found, name, method=method)) for name in names]
        seconds = shown(average(found, "seconds", method=method), 1)
        rows.append([LABELS[method], *(r.get(method, "") for r in ranks), *figures, seconds])
    return table(head, rows)


def _by_setting(found: Sequence[Entry], methods: Sequence[str]) -> str:
    covering = [m for m in methods if m != "knn"]
    head = [
        "gaps",
        *(f"{metric}, {LABELS[m]}" for metric in ("RMSE", "CRPS") for m in methods),
        *(f"coverage, {LABELS[m]}" for m in covering),
    ]
    rows = []
    settings = {(e.mechanism, e.share) for e in found}
    for mechanism, share in sorted(settings, key=lambda s: (s[0] != "mcar", s[1])):
        here = [e for e in found if (e.mechanism, e.share) == (mechanism, share)]
        ranks = [best_bold(mean_ranks(here, m), 2, smaller=True) for m in ("rmse", "crps")]
        cells = [own.get(m, "") for own in ranks for m in methods]
        cells += [shown(average(here, "coverage", method=m)) for m in covering]
        rows.append([f"{mechanism.upper()} {share:.0%}", *cells])
    return table(head, rows)


# The picture ------------------------------------------------------------------------------------

# Shapes and colours that also differ in grey and for the colour-blind.
MARKS = {
    **{"mdma": ("o", "#08306b"), "iterative": ("s", "#e69f00"), "miceforest": ("D", "#d55e00")},
    **{"knn": ("^", "#7f7f7f"), "mean": ("v", "#009e73")},
}
PANELS = {
    "rmse": "RMSE, standard deviations",
    "crps": "CRPS, standard deviations",
    "coverage": "coverage of 90 % intervals",
}
TARGET = (0.87, 0.93)


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw error, CRPS and coverage of each method, a line for each table."""
    found = entries(records)
    names = list(dict.fromkeys(entry.table for entry in found))
    figure, axes = panels(8.0, 1.1 + 0.32 * len(names), len(PANELS), sharey=True)
    for panel, (metric, title) in zip(axes[0], PANELS.items(), strict=True):
        for method in present(LABELS, (e.method for e in found)):
            values = [average(found, metric, table=name, method=method) for name in names]
            points = [(value, y) for y, value in enumerate(values) if value is not None]
            shape, colour = MARKS[method]
            style = {"color": colour, "markersize": 5, "zorder": 3 if method == "mdma" else 2}
            style |= {"markerfacecolor": colour if method == "mdma" else "white"}
            if points:
                panel.plot(*zip(*points, strict=True), shape, label=LABELS[method], **style)
        rows_of_names(panel, names)
        panel.set_xlabel(title)
        panel.grid(axis="y", color="0.92", linewidth=0.6)
        panel.set_axisbelow(True)
        open_frame(panel, ("top", "right", "left"))
    axes[0, 2].axvspan(*TARGET, color="0.9", zorder=0)
    legend(figure, axes[0, 0], place="upper")
    return {"": figure}


STUDIES = (
    Study(
        "imputation",
        "Imputation",
        measure,
        tables,
        figures,
        facts,
        grid={"share": "shares", "mechanism": "mechanisms", "table": "tables", "method": "methods"},
        page="imputation",
    ),
)
