"""Estimates of copulas from ranks: rank correlations, tails and likelihood against the truth."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import torch
from scipy.special import ndtri
from scipy.stats import rankdata

from marginals.queries import Copula
from studies.copulas.truth import (
    SETS,
    Measures,
    Rows,
    counted,
    gaussian_logpdf,
    gaussian_measures,
    pairs,
)
from studies.harness.available import check_choice, installed
from studies.harness.drawing import COLOURS, legend, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, spread, table
from studies.models.ours import PAPER, fit_default, fit_tensor, sizes_of

DRAWS = 100_000  # of a vine, whose rank correlations and tails have no closed form


@final
@dataclass(frozen=True)
class Estimated:
    """An estimate of a copula: levels to log densities, if any, and measures of its pairs."""

    logpdf: Callable[[Rows], Rows] | None
    measures: Measures
    told: dict[str, Any]


def ranks(rows: Rows) -> Rows:
    """Return levels by ranks: margins are then no matter."""
    return (rankdata(rows, axis=0) - 0.5) / len(rows)


def ours(train: Rows, val: Rows, q: tuple[float, ...], **how: Any) -> Estimated:
    """Fit the default of `MDMA` to normal scores."""
    fitted = fit_default(ndtri(ranks(train)), ndtri(ranks(val)), **how)
    return _asked(fitted.model.copula(), q, fitted.told)


def paper(train: Rows, val: Rows, q: tuple[float, ...], **how: Any) -> Estimated:
    """Fit the paper's model to normal scores."""
    fitted = fit_tensor(ndtri(ranks(train)), ndtri(ranks(val)), **how, **PAPER)
    return _asked(Copula(fitted.model.double()), q, fitted.told)


def gaussian(train: Rows, q: tuple[float, ...]) -> Estimated:
    """Fit a Gaussian copula: the correlations of normal scores."""
    correlation = np.corrcoef(ndtri(ranks(train)).T)
    return Estimated(
        lambda levels: gaussian_logpdf(levels, correlation), gaussian_measures(correlation, q), {}
    )


def vine(train: Rows, q: tuple[float, ...], seed: int) -> Estimated:
    """Fit a vine of pair copulas, their families chosen by the package."""
    package = installed("pyvinecopulib")
    controls = package.FitControlsVinecop(num_threads=1)
    model = package.Vinecop.from_data(ranks(train), controls=controls)
    drawn = model.sample(DRAWS, seeds=[seed + 1])
    chosen = [each.family.name for tree in model.pair_copulas for each in tree]
    return Estimated(
        lambda levels: np.log(model.pdf(levels)), counted(drawn, q), {"families": chosen}
    )


def _asked(copula: Copula, q: tuple[float, ...], told: dict[str, Any]) -> Estimated:
    thresholds = torch.tensor(q, dtype=torch.float64)
    tau, rho, lower, upper = [], [], [], []
    for a, b in pairs(len(copula.names)):
        both = copula.rank_correlations(a, b)
        tau.append(both.kendall_tau.value)
        rho.append(both.spearman_rho.value)
        lower.append(copula.lower_tail(a, b, thresholds).tolist())
        upper.append(copula.upper_tail(a, b, thresholds).tolist())

    def logpdf(levels: Rows) -> Rows:
        found: Rows = copula.logpdf(torch.as_tensor(levels, dtype=torch.float64)).cpu().numpy()
        return found

    return Estimated(logpdf, Measures(tau, rho, lower, upper), told)


# Running ------------------------------------------------------------------------------------------


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the exact measures of a copula, or those of a model, with its test likelihood."""
    name, model = job["set"], job["model"]
    check_choice("`sets`", name, SETS)
    streams = np.random.default_rng(seed).spawn(3)
    counts = (settings.rows, settings.validation, settings.test)
    train, val, test = (
        SETS[name].draw(count, stream) for count, stream in zip(counts, streams, strict=True)
    )
    started = time.perf_counter()
    found = _estimated(settings, name, model, train, val, seed, context.device)
    fit_s = round(time.perf_counter() - started, 2)
    score = None if found.logpdf is None else float(found.logpdf(test).mean())
    told = {"thresholds": list(settings.thresholds), "test": score, "fitted": found.told}
    return {**asdict(found.measures), **told, "fit_s": fit_s}


def _estimated(
    settings: Settings, name: str, model: str, train: Rows, val: Rows, seed: int, device: str
) -> Estimated:
    q = settings.thresholds
    if model == "truth":
        return Estimated(SETS[name].logpdf, SETS[name].exact(q), {})
    if model == "rows":
        return Estimated(None, counted(ranks(train), q), {})
    check_choice("`models`", model, LABELS)
    if model == "ours":
        limit = settings.ours_seconds
        return ours(train, val, q, max_seconds=limit, seed=seed, device=device)
    if model == "paper":
        return paper(train, val, q, seed=seed, device=device, **sizes_of(settings))
    # What needs no validation has those rows for training.
    whole = np.concatenate([train, val])
    return gaussian(whole, q) if model == "gaussian" else vine(whole, q, seed)


# Tables -------------------------------------------------------------------------------------------

LABELS = {
    "rows": "the rows themselves",
    "paper": "paper's model",
    "ours": "ours, default",
    "gaussian": "Gaussian copula",
    "vine": "vine (pyvinecopulib)",
}


def tables(records: Records, paper: Paper) -> str:
    """Return errors for each copula and model, and the likelihood of test rows."""
    q = records[0]["thresholds"]
    head = [
        *("copula", "estimated by", "τ", "ρ"),
        *(f"lower tail {each:g}" for each in q),
        *(f"upper tail {each:g}" for each in q),
    ]
    lines, scores = [], []
    for name in _names(records):
        lines.append(
            [SETS[name].label, "exact", *_exact(pick(records, set=name, model="truth")[0])]
        )
        for model in (m for m in LABELS if pick(records, set=name, model=m)):
            lines.append([SETS[name].label, LABELS[model], *_errors(records, name, model)])
        scores.append([SETS[name].label, *_scores(records, name)])
    fitted = [model for model in LABELS if model != "rows"]
    return "\n\n".join(
        [
            "Exact measures, and root mean square errors of their estimates over pairs and seeds: "
            "Kendall's τ, Spearman's ρ, and the share P(U₂ ≤ q | U₁ ≤ q) of the lower tail and its "
            "upper counterpart, at thresholds q. Exact measures are means over pairs.",
            table(head, lines),
            "Log-likelihood of the copula at test rows, nats per row (mean over seeds, ± their "
            "standard deviation).",
            table(["copula", "exact", *(LABELS[model] for model in fitted)], scores),
        ]
    )


def _names(records: Records) -> list[str]:
    return [name for name in SETS if pick(records, set=name, model="truth")]


def _values(record: Record) -> Any:
    """Return what a record says of each pair: tau, rho, lower and upper tails, (pairs, figures)."""
    first = np.stack([record["tau"], record["rho"]], 1)
    return np.concatenate([first, record["lower"], record["upper"]], 1)


def _exact(truth: Record) -> list[str]:
    return [f"{value:.3f}" for value in _values(truth).mean(0)]


def _errors(records: Records, name: str, model: str) -> list[str]:
    truth = _values(pick(records, set=name, model="truth")[0])
    off = np.concatenate(
        [_values(record) - truth for record in pick(records, set=name, model=model)]
    )
    return [f"{value:.3f}" for value in np.sqrt((off**2).mean(0))]


def _scores(records: Records, name: str) -> list[str]:
    fitted = [model for model in LABELS if model != "rows"]
    found = (
        [r["test"] for r in pick(records, set=name, model=model) if r["test"] is not None]
        for model in ("truth", *fitted)
    )
    cells = [spread(values, 4) for values in found]
    return [cells[0] or "not in closed form", *cells[1:]]


# The picture --------------------------------------------------------------------------------------

HUES = {
    **{"paper": COLOURS["paper"], "ours": COLOURS["ours"], "rows": "#999999"},
    **{"gaussian": "#e69f00", "vine": "#d55e00"},
}
MARKS = {"paper": "s", "ours": "o", "rows": "x", "gaussian": "v", "vine": "^"}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Return one figure: a column for each copula, its lower tail above its upper one."""
    names = [name for name in SETS if pick(records, set=name, model="truth")]
    if not names:
        return {}
    figure, grid = panels(2.0 * len(names) + 0.6, 4.2, len(names), 2, sharex=True, sharey=True)
    for row, tail in zip(grid, ("lower", "upper"), strict=True):
        row[0].set_ylabel(f"{tail} tail: share at q")
        for axes, name in zip(row, names, strict=True):
            _panel(axes, records, name, tail)
    for axes, name in zip(grid[0], names, strict=True):
        axes.set_title(SETS[name].label)
    for axes in grid[1]:
        axes.set_xlabel("threshold q")
    legend(figure, grid[0, 0], 3)
    return {"tails": figure}


def _panel(axes: Any, records: Records, name: str, tail: str) -> None:
    truth = pick(records, set=name, model="truth")[0]
    q = truth["thresholds"]
    axes.plot(q, np.mean(truth[tail], 0), color="black", linewidth=1.2, label="exact")
    for model, label in LABELS.items():
        own = pick(records, set=name, model=model)
        if own:
            shares = np.array([np.mean(record[tail], 0) for record in own])  # (seeds, thresholds)
            axes.errorbar(
                q,
                shares.mean(0),
                yerr=shares.std(0, ddof=1) if len(own) > 1 else None,
                color=HUES[model],
                marker=MARKS[model],
                markersize=3.5,
                linewidth=0.8,
                linestyle=":",
                capsize=1.5,
                label=label,
            )
    axes.set(xscale="log", ylim=(0, 1))
    axes.set_xticks(q, [f"{each:g}" for each in q])
    axes.minorticks_off()


STUDIES = (
    Study(
        "copulas",
        "Copulas",
        measure,
        tables,
        figures,
        grid={"set": "sets", "model": "models"},
        own=("ours",),
    ),
)
