"""Densities from rows with missing cells: the likelihood of what is there, or imputation first."""

import time
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

from studies.data.density import DEQUANTISED, Rows, Split, splits
from studies.harness.available import check_choice, installed
from studies.harness.drawing import COLOURS, legend, open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, spread, table
from studies.models.densities import fit_density
from studies.models.fitted import Fitted
from studies.models.imputers import fill_rows
from studies.models.ours import sizes_of

GAPS = "power_gaps"
FILES = {"power": DEQUANTISED, "gas": "gas"}
NAMES = (*FILES, GAPS, "simulated")
# Of a reading, the width of the noise that hides its rounding, as the paper's preparation has it;
# of the time of day, one minute, so that no density can buy likelihood with spikes there.
READINGS = {
    "Global_active_power": 0.001,
    "Voltage": 0.01,
    "Sub_metering_1": 1.0,
    "Sub_metering_2": 1.0,
    "Sub_metering_3": 1.0,
}


def load(name: str, context: Context, counts: tuple[int, int, int], seed: int) -> Split:
    """Return at most so many training, validation and test rows of a set, chosen by the seed."""
    check_choice("`sets`", name, NAMES)
    if name == "simulated":
        whole = simulated(sum(counts), seed)
    else:
        whole = power_with_gaps(context) if name == GAPS else splits(FILES[name], context)[0]
    generator = np.random.default_rng(seed)
    train, val, test = (
        rows[generator.permutation(len(rows))[:count]]
        for rows, count in zip((whole.train, whole.val, whole.test), counts, strict=True)
    )
    return Split(name, None, train, val, test)


def strike(split: Split, share: float, seed: int) -> Split:
    """Strike out each cell of training and validation with a probability, each on its own."""
    generator = np.random.default_rng((seed, round(100 * share)))

    def struck(rows: Rows) -> Rows:
        return np.where(generator.random(rows.shape) < share, np.nan, rows)

    return replace(split, train=struck(split.train), val=struck(split.val))


def simulated(rows: int, seed: int) -> Split:
    """Return a mixture of two Gaussians of four columns, for tests without data sets."""
    generator = np.random.default_rng(seed)
    side = generator.choice([-1.0, 1.0], (rows, 1))
    base = generator.normal(size=(rows, 1))
    drawn = side + 0.6 * base + 0.5 * generator.normal(size=(rows, 4))
    train, val, test = np.array_split(drawn, 3)
    return Split("simulated", None, train, val, test)


def power_with_gaps(context: Context) -> Split:
    """Return the minutes of the POWER file as they are: some have lost all but their time."""
    installed("pyarrow")
    files = sorted(context.file("power").glob("*.parquet"))
    frame = pd.concat([pd.read_parquet(file) for file in files])
    generator = np.random.default_rng(42)
    time = frame["datetime"].dt.hour * 60.0 + frame["datetime"].dt.minute
    columns: list[Any] = [frame[name].to_numpy(dtype=np.float64) for name in READINGS]
    rows = np.stack([*columns, time.to_numpy(dtype=np.float64)], 1)
    rows += generator.random(rows.shape) * [*READINGS.values(), 1.0]
    rows = rows[generator.permutation(len(rows))]
    tenth = len(rows) // 10
    train, val, test = np.split(rows, [8 * tenth, 9 * tenth])
    mean, scale = np.nanmean(train, 0), np.nanstd(train, 0)
    train, val, test = ((part - mean) / scale for part in (train, val, test))
    return Split(GAPS, None, train, val, complete(test))


def complete(rows: Rows) -> Rows:
    """Return the rows without gaps."""
    return rows[~np.isnan(rows).any(1)]


def known(rows: Rows) -> Rows:
    """Return the rows that have at least one cell: the others say nothing."""
    return rows[~np.isnan(rows).all(1)]


# Running ------------------------------------------------------------------------------------------

# Without gaps all ways to fill them are one: the flow is fitted once, under this name.
COMPLETE = "nsf_mice"


def jobs(settings: Settings, seed: int, context: Context) -> list[Record]:
    """Return each set, share of cells struck out (None: gaps of its own) and model."""
    found: list[tuple[str, float | None, str]] = []
    for name in settings.sets:
        if name == GAPS:
            dropped = sorted({f"{model.split('_')[0]}_drop" for model in settings.models})
            found += [(name, None, model) for model in (*settings.models, *dropped)]
            continue
        for share in settings.shares:
            once = [m for m in settings.models if not m.startswith("nsf") or m == COMPLETE]
            found += [(name, share, model) for model in (settings.models if share else once)]
    return [{"set": name, "share": share, "model": model} for name, share, model in found]


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Return the log-likelihood of complete test rows under a model."""
    counts, share = (settings.train, settings.validation, settings.test), job["share"]
    split = load(job["set"], context, counts, seed)
    split = strike(split, share, seed) if share else split
    kind, _, fill = job["model"].partition("_")
    started = time.perf_counter()
    filled = without_gaps(split, fill, seed) if fill else without_empty(split)
    filled_at = time.perf_counter()
    fitted = _fitted(settings, kind, filled, seed, context.device)
    fit_s = round(time.perf_counter() - filled_at, 2)
    scores = fitted.exact(split.test)
    return {
        "test": float(scores.mean()),
        "test_median": float(np.median(scores)),
        "rows": len(split.train),
        "gaps": round(float(np.isnan(split.train).mean()), 4),
        "fill_s": round(filled_at - started, 2),
        "fit_s": fit_s,
        "fitted": fitted.told,
    }


def without_empty(split: Split) -> Split:
    """Leave out the rows without any cell: they say nothing."""
    return replace(split, train=known(split.train), val=known(split.val))


def without_gaps(split: Split, how: str, seed: int) -> Split:
    """Leave out rows with gaps, or fill them; validation is filled by the training rows."""
    if how == "drop":
        return replace(split, train=complete(split.train), val=complete(split.val))
    train, val = fill_rows(known(split.train), known(split.val), how, seed)
    return replace(split, train=train, val=val)


def _fitted(settings: Settings, kind: str, split: Split, seed: int, device: str) -> Fitted:
    options: dict[str, dict[str, Any]] = {
        "paper": sizes_of(settings),
        "ours": {"max_seconds": settings.ours_seconds},
        "nsf": {
            **{"transforms": (settings.nsf_transforms,), "hidden": settings.nsf_hidden},
            **{"decays": (0.0,), "seconds": settings.nsf_seconds},
        },
    }
    check_choice("`models`", kind, options)
    return fit_density(kind, split, seed=seed, device=device, options=options[kind])


# Tables -------------------------------------------------------------------------------------------

LABELS = {
    "paper": "paper's model",
    "ours": "ours, default",
    "nsf_mice": "NSF on MICE",
    "nsf_knn": "NSF on 3-NN",
    "nsf_mean": "NSF on means",
}
DROPPED = {"paper_drop": "paper's model", "ours_drop": "ours, default", "nsf_drop": "NSF"}
TITLES = {"power": "POWER", "gas": "GAS", "simulated": "simulated"}


def tables(records: Records, paper: Paper) -> str:
    """Return test log-likelihood by share for each set, and that with POWER's own gaps."""
    parts = []
    for name in dict.fromkeys(r["set"] for r in records if r["set"] != GAPS):
        parts += [
            f"{TITLES[name]}: log-likelihood of complete test rows, nats per row (mean over seeds, "
            "± their standard deviation), by the probability that a training or validation "
            "cell is missing.",
            _by_share(records, name),
            f"{TITLES[name]}: the same for the median row, which is robust to a few bad rows.",
            _by_share(records, name, "test_median"),
        ]
    if any(r["set"] == GAPS for r in records):
        share = fmean(r["gaps"] for r in records if r["set"] == GAPS)
        parts += [
            f"POWER with its own gaps ({100 * share:.1f} % of the training cells: minutes for "
            "which only the time was recorded), used, filled or left out.",
            _gaps(records),
        ]
    parts += ["Mean seconds of filling and fitting:", _seconds(records)]
    return "\n\n".join(parts)


def models_of(records: Records) -> list[str]:
    """Return the models that were run, in the order of the tables."""
    return present(LABELS, (r["model"] for r in records))


def shares_of(records: Records, name: str) -> list[float]:
    """Return the shares of missing cells of a set."""
    return sorted({r["share"] for r in records if r["set"] == name})


def values(
    records: Records, name: str, share: float | None, model: str, figure: str = "test"
) -> list[float]:
    """Return the scores of all seeds; without gaps, all ways to fill them are one."""
    if share == 0 and model.startswith("nsf"):
        model = COMPLETE
    wanted = (name, share, model)
    return [r[figure] for r in records if (r["set"], r["share"], r["model"]) == wanted]


def _by_share(records: Records, name: str, figure: str = "test") -> str:
    own = pick(records, set=name)
    models = models_of(own)
    lines = [
        [f"{share:g}", *(spread(values(own, name, share, m, figure), 2) for m in models)]
        for share in shares_of(own, name)
    ]
    return table(["missing", *(LABELS[model] for model in models)], lines)


def _gaps(records: Records) -> str:
    lines = []
    for model, label in {**LABELS, **DROPPED}.items():
        if found := values(records, GAPS, None, model):
            how = "left out" if model in DROPPED else "used" if "_" not in model else "filled"
            lines.append([label, how, spread(found)])
    return table(["", "rows with gaps", "test log-likelihood"], lines)


def _seconds(records: Records) -> str:
    lines = []
    for model in models_of(records):
        own = [r for r in records if r["model"] == model and r["share"] != 0]
        if own:
            means = [fmean(r[name] for r in own) for name in ("fill_s", "fit_s")]
            lines.append([LABELS[model], *(f"{mean:.1f}" for mean in means)])
    return table(["", "filling", "fitting"], lines)


# The picture --------------------------------------------------------------------------------------

HUES = {
    **{"paper": COLOURS["paper"], "ours": COLOURS["ours"], "nsf_mice": COLOURS["nsf"]},
    **{"nsf_knn": "#cc79a7", "nsf_mean": "#999999"},
}
MARKS = {"paper": "s", "ours": "o", "nsf_mice": "^", "nsf_knn": "v", "nsf_mean": "D"}


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Return one figure with a panel for each set."""
    names = list(dict.fromkeys(r["set"] for r in records if r["set"] != GAPS))
    if not names:
        return {}
    figure, axes = panels(3.5 * len(names), 3.2, len(names))
    for panel, name in zip(axes[0], names, strict=True):
        _panel(panel, pick(records, set=name), name)
    axes[0, 0].set_ylabel("test log-likelihood, nats per row")
    legend(figure, axes[0, 0])
    return {"curves": figure}


def _panel(axes: Any, records: Records, name: str) -> None:
    shares = shares_of(records, name)
    for model in models_of(records):
        found = [values(records, name, share, model) for share in shares]
        drawn = [(share, each) for share, each in zip(shares, found, strict=True) if each]
        axes.errorbar(
            [share for share, _ in drawn],
            [fmean(each) for _, each in drawn],
            yerr=[stdev(each) if len(each) > 1 else 0.0 for _, each in drawn],
            color=HUES[model],
            marker=MARKS[model],
            markersize=3.5,
            linewidth=1,
            capsize=2,
            label=LABELS[model],
        )
    rest = [r["test"] for r in records if r["model"] != "nsf_mean"]
    if len(rest) < len(records) and rest:  # filling by means falls so far that it would hide them
        axes.set_ylim(bottom=min(rest) - 0.25 * (max(rest) - min(rest)))
    axes.set(title=TITLES[name], xlabel="probability that a cell is missing", xticks=shares)
    open_frame(axes)


STUDIES = (
    Study(
        "missing",
        "Missing values",
        measure,
        tables,
        figures,
        jobs=jobs,
        key=("set", "share", "model"),
        parts=("sets", "shares", "models"),
        own=("ours", "nsf"),
    ),
)
