"""Quality of synthetic rows of mixed tables, with plain baselines."""

import time
from contextlib import nullcontext
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from marginals import MDMA, synthesis_report
from marginals.synthesis import column_detection
from studies.data.tables import read_table
from studies.harness.available import check_choice
from studies.harness.drawing import legend, open_frame, panels
from studies.harness.machine import processor_seconds
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, ranked, shown, table, values
from studies.models.detection import detection_score
from studies.models.synthesizers import DRAWERS

HELD_OUT = 0.3
ORDER = ("penguins", "titanic", "mpg", "diamonds", "bfi", "adult", "shoppers")
LABELS = {
    **{"marginals": "marginals", "copula": "Gaussian copula"},
    **{"independent": "independent columns", "holdout": "real rows held out"},
}
HEADS = {
    "column_distance": "columns, mean distance",
    "pair_difference": "pairs, mean difference",
    "auc": "told apart, AUC",
    "xgboost": "told apart by XGBoost, detection score of sdmetrics (1 is best)",
    "column_auc": "told apart by one column, the largest AUC",
    "close": "close to fitted rows",
    "duplicates": "equal to a fitted row",
}
# Detection scores with XGBoost as published, for the whole tables; ours fits at most `rows`.
PUBLISHED = {
    "shallow mixture (published)": {"adult": 0.773, "shoppers": 0.290},
    "TabDiff (published)": {"adult": 0.841, "shoppers": 0.736},
    "TabPC (published)": {"adult": 0.855, "shoppers": 0.894},
}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Draw as many rows as are fitted and report on them."""
    options: Record = {"max_steps": settings.max_steps, "width": 4} if settings.max_steps else {}
    options |= {"n_jobs": 1} if settings.alone else {}
    frame = read_table(job["table"], context)
    with processor_seconds() if settings.alone else nullcontext():
        return measured(frame, job["model"], seed, rows=settings.rows, **options)


def measured(
    frame: pd.DataFrame, model: str, seed: int, rows: int = 5000, **options: Any
) -> Record:
    """Report on drawn rows; "holdout" stands for rows held out. At most `rows` rows are used.

    Ours has the options, and is also checked on the rows held out, by `MDMA.check`.

    Gaps of random real rows are put into drawn rows, so that no model is recognised by them.
    """
    check_choice("`models`", model, LABELS)
    real, unseen = cut(frame, seed, rows)
    started = time.perf_counter()
    fitted = None
    if model == "holdout":
        # Half of them stand for synthetic rows, the others judge.
        middle = len(unseen) // 2
        drawn, unseen = unseen.iloc[:middle], unseen.iloc[middle:]
    elif model == "marginals":
        fitted = MDMA(random_state=seed, **options).fit(real)
        drawn = with_gaps(fitted.sample(len(real), random_state=seed), real, seed)
    else:
        drawn = with_gaps(DRAWERS[model](real, len(real), seed), real, seed)
    seconds = time.perf_counter() - started
    told = synthesis_report(real, drawn, unseen, random_state=seed).to_dict()
    parts = {name: told[name] for name in ("rows", "summary", "two_sample", "copying")}
    parts["summary"]["column_auc"] = float(
        column_detection(real, drawn, random_state=seed)["auc"].max()
    )
    parts["summary"]["xgboost"] = detection_score(real, drawn, seed)
    if fitted is not None:
        parts["check"] = fitted.check(unseen, random_state=seed, progress=False).summary
    return {**parts, "columns": real.shape[1], "seconds": round(seconds, 2)}


def cut(frame: pd.DataFrame, seed: int, rows: int = 5000) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take at most `rows` rows; return 70 % of them to fit, and the rest."""
    order = np.random.default_rng(seed).permutation(len(frame))[:rows]
    held = round(HELD_OUT * len(order))
    fitted, unseen = order[held:], order[:held]
    return frame.iloc[fitted].reset_index(drop=True), frame.iloc[unseen].reset_index(drop=True)


def with_gaps(drawn: pd.DataFrame, real: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Blank cells as in real rows taken at random, whatever the values."""
    gone = real.isna().to_numpy()
    chosen = np.random.default_rng(seed).integers(len(real), size=len(drawn))
    return drawn.mask(pd.DataFrame(gone[chosen], index=drawn.index, columns=drawn.columns))


# Tables and the picture -------------------------------------------------------------------------


def means(records: Records, figure: str) -> dict[tuple[str, str], float]:
    """Return a figure of the summary by table and model, the mean over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        value = record["summary"].get(figure)  # None without the packages, or in older results
        if value is not None:
            found.setdefault((record["table"], record["model"]), []).append(value)
    return {place: fmean(values) for place, values in found.items()}


def facts(records: Records) -> dict[str, str]:
    """Return the figures of the picture as means over tables, best first."""
    found = {}
    for figure in ("column_distance", "pair_difference", "auc", "xgboost"):
        by_place = means(records, figure)
        models = present(LABELS, (model for _, model in by_place))
        by_model = {
            LABELS[m]: fmean(value for (_, own), value in by_place.items() if own == m)
            for m in models
        }
        if by_model:
            found[figure] = ranked(by_model, 3, smaller=figure != "xgboost")
    return found


def _names(records: Records) -> tuple[list[str], list[str]]:
    others = (r["table"] for r in records if r["table"] not in ORDER)
    names = present((*ORDER, *dict.fromkeys(others)), (r["table"] for r in records))
    return names, present(LABELS, (r["model"] for r in records))


def tables(records: Records, paper: Paper) -> str:
    """Return a table for each figure."""
    names, models = _names(records)
    parts = []
    for figure, title in HEADS.items():
        found = means(records, figure)
        if not found:
            continue
        others = {
            n: own for n, own in PUBLISHED.items() if figure == "xgboost" and {*own} & {*names}
        }
        rows = [
            [
                name,
                *(shown(found.get((name, m))) for m in models),
                *(shown(others[other].get(name)) for other in others),
            ]
            for name in names
        ]
        parts.append(f"### {title[0].upper()}{title[1:]}")
        parts.append(table(["table", *(LABELS[m] for m in models), *others], rows))
    checked = [record for record in records if "check" in record]
    if checked:
        parts += ["### `model.check` on held-out rows", _checks(names, checked)]
    return "\n\n".join(parts)


CHECKED = {
    **{"margins": "margins off", "pairs": "pairs off", "calibration": "columns miscalibrated"},
    **{"questions": "plain questions off", "rules": "rules broken"},
}


def _checks(names: list[str], checked: Records) -> str:
    """Return how many lines of each part of our model's check are off, mean over seeds."""
    rows = []
    for name in [name for name in names if pick(checked, table=name)]:
        found = values(checked, "check", table=name)
        cells = [
            f"{fmean(one[f'{part}_off'] for one in found):.1f} of "
            f"{fmean(one[part] for one in found):.1f}"
            for part in CHECKED
        ]
        rows.append([name, *cells])
    return table(["table", *CHECKED.values()], rows)


COLOURS = dict(zip(LABELS, ("#0072B2", "#D55E00", "#E69F00", "#6E6E6E"), strict=True))


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw the first three figures as bars, by table and model."""
    names, models = _names(records)
    figure, axes = panels(9, 2.8, 3)
    for panel, (key, title) in zip(axes[0], list(HEADS.items())[:3], strict=True):
        found = means(records, key)
        for i, model in enumerate(models):
            x = [n + 0.8 * (i - (len(models) - 1) / 2) / len(models) for n in range(len(names))]
            y = [found.get((name, model), float("nan")) for name in names]
            panel.bar(x, y, 0.8 / len(models), color=COLOURS[model], label=LABELS[model])
        panel.set_xticks(range(len(names)), names, rotation=30, ha="right")
        panel.set_title(title, loc="left")
        panel.tick_params(labelsize=7)
        open_frame(panel)
    axes[0, 2].set_ylim(0.4, 1.0)
    axes[0, 2].axhline(0.5, color="black", lw=0.6)
    legend(figure, axes[0, 0])
    return {"": figure}


STUDIES = (
    Study(
        "synthesis",
        "Synthetic rows",
        measure,
        tables,
        figures,
        facts,
        grid={"table": "tables", "model": "models"},
        parts=("alone",),
        page="synthesis",
    ),
)
