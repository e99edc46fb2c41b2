"""The paper's table: test log-likelihood on UCI data sets, with what was published."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any, final

import numpy as np

from studies.data.density import Rows, split_of
from studies.harness.drawing import COLOURS, panels, rows_of_names
from studies.harness.results import newest, read
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, table
from studies.models.densities import TAKE_GAPS, TENSORS, fit_density
from studies.models.fitted import summary

FLOOR = math.log(1e-40)  # of the authors' likelihood
COLUMNS = {
    **{"paper": "paper's MDMA", "nmdma": "nMDMA, normalised", "ht": "HT from data"},
    **{"ours": "ours, default", "best": "ours, best", "gmm": "GMM", "vine": "vine copula"},
    **{"einet": "Einet (spflow)", "nsf": "NSF (zuko)"},
}
LABELS = {
    **{"power": "POWER", "power-dequantised": "POWER, minutes dequantised", "gas": "GAS"},
    **{"hepmass": "HEPMASS", "miniboone": "MINIBOONE"},
}


@final
@dataclass(frozen=True)
class Size:
    """The paper's m, l and r; in the authors' code l layers have l - 1 hidden ones."""

    width: int = 1000
    layers: int = 2
    hidden: int = 3


SIZES = {"gas": Size(4000, 4, 5)}  # the other sets have the default


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the test log-likelihood of a model on a set."""
    name, model = job["set"], job["model"]
    split, original = split_of(name, context)
    if model not in TAKE_GAPS:
        split = replace(split, partial=None)
    options = _options(settings, model, name)
    started = time.perf_counter()
    fitted = fit_density(model, split, seed=seed, device=context.device, options=options)
    fit_s = round(time.perf_counter() - started, 2)
    scores = fitted.exact(split.test)
    return {
        **summary(scores),
        "test_floored": floored(scores),
        "train_rows": len(split.train),
        "partial_rows": 0 if split.partial is None else len(split.partial),
        "published_split": original,
        "fit_s": fit_s,
        "fitted": fitted.told,
    }


def _options(settings: Settings, model: str, name: str) -> dict[str, Any]:
    if model == "ours":
        return {"effort": settings.effort, "max_seconds": settings.ours_seconds}
    if model in TENSORS:
        size = SIZES.get(name, Size())
        return {
            "width": min(size.width, settings.width),
            "depth": size.layers - 1,
            "hidden": size.hidden,
            "steps": settings.steps,
            "seconds": settings.gas_seconds if name == "gas" else settings.seconds,
        }
    limits = {"einet": settings.einet_seconds, "nsf": settings.nsf_seconds}
    return {"seconds": limits[model]} if model in limits else {}


def floored(scores: Rows) -> float:
    """Return the mean as the authors' code has it, which counts no row below log(1e-40)."""
    return float(np.maximum(np.nan_to_num(scores, nan=-np.inf), FLOOR).mean())


# Tables -----------------------------------------------------------------------------------------


def tables(records: Records, paper: Paper) -> str:
    """Return the scores, those with the floor, the seconds, and the published figures."""
    names = present(LABELS, (r["set"] for r in records))
    names += [n for n in dict.fromkeys(r["set"] for r in records) if n not in LABELS]
    here = {(r["set"], r["model"]) for r in records}
    others = scoreboard(paper, names)
    others = [r for r in others if (r["set"], r["model"]) not in here]
    parts = [
        "Test log-likelihood, nats per row (mean over seeds, ± their standard deviation where "
        'there are several; in brackets the number of test rows at -inf). "Rows" counts complete '
        "training rows; all models of this library but nMDMA also train on further rows with "
        "missing cells.",
        _scores(records, names),
    ]
    if others:
        parts += [
            "Other models on the same rows, from the [scoreboard](scoreboard.md); blank where "
            "none was measured:",
            _others(others, names),
        ]
    parts += [
        "The authors' code floors the log-likelihood of a row at log(1e-40) = -92.1. Means with "
        "that floor on the test rows; in brackets the lowest row without it:",
        _by_model(records, names, _floor),
        "Seconds of fitting (steps):",
        _by_model(records, names, _seconds),
    ]
    for name in names:
        if name in paper.get("published", {}):
            parts += _published(name, pick(records, set=name), paper)
    return "\n\n".join(parts)


def scoreboard(paper: Paper, names: Sequence[str]) -> list[Record]:
    """Return the scoreboard's records of these sets and of the models named in the config."""
    path = newest("likelihood", sizes=("full",))
    if path is None:
        return []
    wanted = paper.get("scoreboard", ())
    return [r for r in read(path).good if r["set"] in names and r["model"] in wanted]


def _scores(records: Records, names: Sequence[str]) -> str:
    shown = _models(records)
    rows = []
    for name in names:
        own = pick(records, set=name)
        cells = [_cell(pick(own, model=model)) for model in shown]
        sizes = [f"{max(r[key] for r in own):,}" for key in ("train_rows", "partial_rows")]
        told = ", published split" if all(r["published_split"] for r in own) else ""
        rows.append([LABELS.get(name, name) + told, *cells, *sizes])
    return table(["", *(COLUMNS[m] for m in shown), "rows", "with gaps"], rows)


def _others(records: Records, names: Sequence[str]) -> str:
    shown = _models(records)
    heads = [f"{COLUMNS[m]}{_seeds(r for r in records if r['model'] == m)}" for m in shown]
    there = [name for name in names if any(r["set"] == name for r in records)]
    return _by_model(records, there, _cell, heads)


def _by_model(
    records: Records, names: Sequence[str], cell: Any, heads: Sequence[str] | None = None
) -> str:
    shown = _models(records)
    rows = []
    for name in names:
        own = [pick(records, set=name, model=m) for m in shown]
        rows.append([LABELS.get(name, name), *(cell(some) if some else "" for some in own)])
    return table(["", *(heads or [COLUMNS[m] for m in shown])], rows)


def _seeds(records: Iterable[Record]) -> str:
    found = list(records)
    count = len({r["seed"] for r in found})
    where = "H200" if found[0]["device"] == "cuda" else "CPU"
    return f" ({where}, {count} seed{'s' if count > 1 else ''})"


def _floor(records: Records) -> str:
    lowest = min(r["test_min"] for r in records)
    return f"{fmean(r['test_floored'] for r in records):.2f} ({lowest:.0f})"


def _seconds(records: Records) -> str:
    steps = [r["fitted"]["steps"] for r in records if "steps" in r["fitted"]]
    told = f" ({fmean(steps):.0f})" if steps else ""
    return f"{fmean(r['fit_s'] for r in records):.0f}{told}"


def _published(name: str, records: Records, paper: Paper) -> list[str]:
    """Return the published figures of a set and ours, if the test rows are the same."""
    if name not in paper["same_test_rows"] and not all(r["published_split"] for r in records):
        return []
    train = f"{paper['train_rows'][name]:,}"
    rows = [[model, figure, train] for model, figure in paper["published"][name].items()]
    for model in _models(records):
        own = pick(records, model=model)
        gaps = own[0]["partial_rows"]
        seen = f"{own[0]['train_rows']:,}" + (f" and {gaps:,} with gaps" if gaps else "")
        rows.append([f"here: {COLUMNS[model]}", _cell(own), seen])
    told = f"{LABELS[name]}, whose test rows are the published ones, with published figures:"
    return [told, table(["", "test", "training rows"], rows)]


def _models(records: Records) -> list[str]:
    return present(COLUMNS, (r["model"] for r in records))


def _cell(records: Records) -> str:
    """Return the mean over seeds; of fits with and without rows with gaps, those with them."""
    most = max((r["train_rows"] for r in records), default=0)
    own = pick(records, train_rows=most)
    if not own:
        return ""
    means = [r["test_mean"] for r in own]
    impossible = sum(r["rows_minus_inf"] for r in own)
    spread = f" ± {stdev(means):.2f}" if len(means) > 1 and not impossible else ""
    return f"{fmean(means):.2f}{spread}" + (f" [{impossible}]" if impossible else "")


# The picture ------------------------------------------------------------------------------------

HUES = {**COLOURS, "nmdma": "#56b4e9", "ht": "#0072b2"}
GREY = "#7f7f7f"


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw a panel for each set, a point for each seed and a line for the mean."""
    names = list(dict.fromkeys(r["set"] for r in records))
    models = _models(records)
    figure, axes = panels(7.2, 1.0 + 0.26 * len(models), len(names), sharey=True)
    for place, name in enumerate(names):
        _panel(axes[0, place], pick(records, set=name), models)
        axes[0, place].set_title(LABELS.get(name, name).replace(", ", ",\n"))
    figure.supxlabel("test log-likelihood, nats per row", fontsize=8)
    return {"scores": figure}


def _panel(axes: Any, records: Records, models: Sequence[str]) -> None:
    for height, model in enumerate(models):
        scores = [r["test_mean"] for r in records if r["model"] == model]
        finite = [score for score in scores if score > -math.inf]
        if finite:
            hue = HUES.get(model, GREY)
            axes.plot(finite, [height] * len(finite), "o", color=hue, markersize=4)
            axes.plot([fmean(finite)] * 2, [height - 0.25, height + 0.25], color=hue, linewidth=1.2)
        if len(finite) < len(scores):
            place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            axes.annotate("$-\\infty$", (0.03, height), **place)
    rows_of_names(axes, [COLUMNS[model] for model in models])
    axes.margins(x=0.15)
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="x", linewidth=0.3)


STUDY = Study(
    "density",
    "Density estimation",
    measure,
    tables,
    figures,
    grid={"set": "sets", "model": "models"},
    own=("ours", "einet", "nsf"),
)
