"""The paper's figure: mutual information within a Gaussian of 16 columns."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, final

import numpy as np
import torch

from marginals import cross_fit
from marginals.queries import Estimate
from studies.data.density import Rows
from studies.harness.available import check_choice
from studies.harness.drawing import COLOURS, legend, open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, spread, table, values
from studies.models.fitted import Fitted
from studies.models.ours import PAPER, fit_default, fit_tensor

# Rows of some columns to log densities of those columns.
Ask = Callable[[Rows, Sequence[int]], Rows]
COLUMNS = 16
PARTS = tuple(range(1, COLUMNS))  # the first k columns against the others


def gaussian_covariance(columns: int = COLUMNS) -> Rows:
    """Return the paper's: one on the diagonal, (i + j - 2) / (5 d) off it."""
    i = np.arange(1, columns + 1)
    covariance = (i[:, None] + i - 2) / (5 * columns)
    np.fill_diagonal(covariance, 1.0)
    return covariance


def exact_information() -> list[float]:
    """Return I((X_1..X_k); (X_k+1..X_d)) for each k, from determinants."""
    covariance = gaussian_covariance()

    def log_det(part: Rows) -> float:
        return float(np.linalg.slogdet(part)[1])

    whole = log_det(covariance)
    return [
        0.5 * (log_det(covariance[:k, :k]) + log_det(covariance[k:, k:]) - whole) for k in PARTS
    ]


@final
@dataclass(frozen=True)
class Sample:
    """Rows to fit to, rows that choose the weights, and rows that only the estimates see."""

    train: Rows
    validation: Rows
    held: Rows


def draw(counts: tuple[int, int, int], seed: int) -> Sample:
    """Draw the sample of a seed; the rows of a smaller one are the first of a larger one."""
    streams = np.random.default_rng(seed).spawn(3)
    root = np.linalg.cholesky(gaussian_covariance())
    parts = [
        stream.normal(size=(count, COLUMNS)) @ root.T
        for stream, count in zip(streams, counts, strict=True)
    ]
    return Sample(*parts)


def information(ask: Ask, rows: Rows) -> Record:
    """Estimate the information for every k as the mean log ratio over rows."""
    joint = ask(rows, range(COLUMNS))
    found = []
    for k in PARTS:
        alone = ask(rows[:, :k], range(k)) + ask(rows[:, k:], range(k, COLUMNS))
        found.append(Estimate.mean_of(torch.as_tensor(joint - alone)))
    return _lists(found)


def _lists(found: Sequence[Estimate]) -> Record:
    return {"values": [each.value for each in found], "stderrs": [each.stderr for each in found]}


def cross_fitted(rows: Rows, seed: int) -> Record:
    """Cross-fit: every row is judged by a model that has not seen it, so none is held out."""
    started, worked = time.perf_counter(), time.process_time()
    folded = cross_fit(rows, random_state=seed)
    fit_s = round(time.perf_counter() - started, 2)
    found = [folded.mutual_information(list(range(k)), list(range(k, COLUMNS))) for k in PARTS]
    seconds = {"fit_s": fit_s, "cpu_seconds": round(time.process_time() - worked, 2)}
    fitted = {"folds": len(folded.parts)}
    return {**_lists(found), **seconds, "fitted": fitted, "exact": exact_information()}


# The paper's figure -----------------------------------------------------------------------------

LABELS = {
    "paper": "paper's model",
    "default": "MDMA()",
    "quick": 'MDMA(effort="quick")',
    "cross": "cross_fit",
}


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return each number of rows and model."""
    return [
        {"rows": rows, "model": model}
        for rows, model in itertools.product(settings.rows, settings.models)
        if model != "cross" or rows <= settings.most_crossed
    ]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the estimates of a model for every k."""
    model = check_choice("`models`", job["model"], LABELS)
    sample = draw((job["rows"], settings.validation, settings.held_out), seed)
    if model == "cross":
        return cross_fitted(sample.train, seed)
    started = time.perf_counter()
    fitted = _fitted(settings, model, sample, seed, context.device)
    fit_s = round(time.perf_counter() - started, 2)

    def ask(rows: Rows, columns: Sequence[int]) -> Rows:
        assert fitted.logpdf is not None
        return fitted.logpdf(rows, columns, None)

    # From rows held out, and from as many training rows.
    seen = information(ask, sample.train[: len(sample.held)])["values"]
    found = {**information(ask, sample.held), "seen_values": seen, "fit_s": fit_s}
    return {**found, "fitted": fitted.told, "exact": exact_information()}


def _fitted(settings: Settings, model: str, sample: Sample, seed: int, device: str) -> Fitted:
    rows = (sample.train, sample.validation)
    if model == "paper":
        epochs = settings.epochs * len(sample.train) // settings.batch
        shape = {"width": settings.width, "depth": settings.depth, "hidden": settings.hidden}
        how = {"batch": settings.batch, "steps": max(epochs, settings.least_steps)}
        return fit_tensor(*rows, seed=seed, device=device, **how, **shape, **PAPER)
    quick = {"effort": "quick"}  # Gaussian mixtures by EM, those of cross-fitting, fitted once
    options = quick if model == "quick" else {"max_seconds": settings.default_seconds}
    return fit_default(*rows, seed=seed, device=device, **options)


def columns_of(records: Records) -> list[tuple[int, str]]:
    """Return the numbers of rows and models that were run, most rows first."""
    sizes = sorted({record["rows"] for record in records}, reverse=True)
    there = {(record["rows"], record["model"]) for record in records}
    return [(rows, model) for rows in sizes for model in LABELS if (rows, model) in there]


def tables(records: Records, paper: Paper) -> str:
    """Return the estimates for every k, and the errors of each model."""
    columns = columns_of(records)
    head = ["k", "exact", *(f"{LABELS[model]}, {rows:,} rows" for rows, model in columns)]
    estimates = [values(records, "values", rows=rows, model=model) for rows, model in columns]
    by_part = [
        [
            *(str(place + 1), f"{value:.3f}"),
            *(spread([each[place] for each in found]) for found in estimates),
        ]
        for place, value in enumerate(records[0]["exact"])
    ]
    errors = (
        "Mean and largest |error| over k = 1, ..., 15 of the mean over seeds; the error when "
        "training rows replace held-out rows; and the standard error of the mean over rows, which "
        "does not include the variation between fits. Bars in the figure are the standard "
        "deviation over seeds, or that standard error where there is one seed."
    )
    error_head = [
        *("", "rows", "seeds", "mean error", "largest error", "mean error on training rows"),
        *("standard error over rows", "seconds of fitting"),
    ]
    return "\n\n".join(
        [
            "Mutual information of the first k columns and the others, nats, from held-out rows.",
            table(head, by_part),
            errors,
            table(error_head, [_error_line(records, *each) for each in columns]),
        ]
    )


def _error_line(records: Records, rows: int, model: str) -> list[str]:
    own = pick(records, rows=rows, model=model)
    off = _off(own, "values")
    seen = f"{fmean(_off(own, 'seen_values')):.4f}" if "seen_values" in own[0] else ""
    chance = max(error for record in own for error in record["stderrs"])
    return [
        *(LABELS[model], f"{rows:,}", str(len(own)), f"{fmean(off):.4f}", f"{max(off):.4f}"),
        *(seen, f"at most {chance:.4f}", f"{fmean(r['fit_s'] for r in own):.0f}"),
    ]


def _off(records: Records, name: str) -> list[float]:
    """Return, for every k, how far the mean over seeds is from the exact value."""
    means = [fmean(values) for values in zip(*(r[name] for r in records), strict=True)]
    return [abs(mean - value) for mean, value in zip(means, records[0]["exact"], strict=True)]


MARKS = {
    **{"paper": ("s", COLOURS["paper"]), "default": ("v", "#56b4e9")},
    **{"quick": ("o", COLOURS["ours"]), "cross": ("^", "#cc79a7")},
}
APART = 0.14  # so that the bars of models do not hide each other


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw estimates with error bars along the exact curve, a panel for each number of rows.

    Bars are the standard deviation of seeds; of a single seed, the standard error over rows.
    """
    if not records:
        return {}
    sizes = list(dict.fromkeys(rows for rows, _ in columns_of(records)))
    figure, axes = panels(3.6 * len(sizes), 3.1, len(sizes), sharey=True)
    for panel, rows in zip(axes[0], sizes, strict=True):
        _panel(panel, records, rows)
    axes[0, 0].set_ylabel("$I((X_1, …, X_k);\\;(X_{k+1}, …, X_{16}))$, nats")
    legend(figure, axes[0, -1])
    return {"gaussian": figure}


def _panel(axes: Any, records: Records, rows: int) -> None:
    exact = records[0]["exact"]
    k = range(1, len(exact) + 1)
    axes.plot(k, exact, color="black", linewidth=1, label="exact", zorder=1)
    models = [model for size, model in columns_of(records) if size == rows]
    for place, model in enumerate(models):
        own = pick(records, rows=rows, model=model)
        values = list(zip(*(record["values"] for record in own), strict=True))
        mark, hue = MARKS[model]
        axes.errorbar(
            [each + APART * (place - (len(models) - 1) / 2) for each in k],
            [fmean(each) for each in values],
            yerr=[stdev(each) for each in values] if len(own) > 1 else own[0]["stderrs"],
            label=f"{LABELS[model]}{'' if len(own) > 1 else ' (1 seed)'}",
            **{"color": hue, "marker": mark, "markersize": 3, "linestyle": "none"},
            **{"linewidth": 0.8, "capsize": 1.5},
        )
    axes.set(title=f"{rows:,} rows", xlabel="k", xticks=[1, 4, 8, 12, 15])
    axes.axhline(0, color="black", linewidth=0.4)
    open_frame(axes)


STUDY = Study(
    "information",
    "Mutual information",
    measure,
    tables,
    figures,
    jobs=jobs,
    key=("rows", "model"),
    parts=("rows", "models"),
)
