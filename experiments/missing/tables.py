"""Test log-likelihood against the share of missing cells."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.markdown import spread, table
from experiments.missing.data import GAPS
from experiments.missing.run import COMPLETE
from experiments.registry import Record

LABELS = {
    "paper": "paper's model",
    "ours": "ours, default",
    "nsf_mice": "NSF on MICE",
    "nsf_knn": "NSF on 3-NN",
    "nsf_mean": "NSF on means",
}
DROPPED = {"paper_drop": "paper's model", "ours_drop": "ours, default", "nsf_drop": "NSF"}
TITLES = {"power": "POWER", "gas": "GAS", "simulated": "simulated"}


def tables(records: Sequence[Record], paper: Mapping[str, Any]) -> str:
    """Return test log-likelihood by share for each set, and that with POWER's own gaps."""
    parts = []
    for name in dict.fromkeys(r["set"] for r in records if r["set"] != GAPS):
        parts += [
            f"{TITLES[name]}: log-likelihood of complete test rows, nats per row (mean over seeds, "
            "± their standard deviation), by the probability that a cell of training and "
            "validation is missing.",
            _by_share(records, name),
            f"{TITLES[name]}: the same of the median row, which a few bad rows do not move.",
            _by_share(records, name, "test_median"),
        ]
    if any(r["set"] == GAPS for r in records):
        share = fmean(r["gaps"] for r in records if r["set"] == GAPS)
        parts += [
            f"POWER with its own gaps ({100 * share:.1f} % of the cells of training rows: minutes "
            "of which only the time is known), used, filled or left out.",
            _gaps(records),
        ]
    parts += ["Seconds of filling and of fitting, means:", _seconds(records)]
    return "\n\n".join(parts)


def models_of(records: Sequence[Record]) -> list[str]:
    """Return the models that were run, in the order of the tables."""
    return [model for model in LABELS if any(r["model"] == model for r in records)]


def shares_of(records: Sequence[Record], name: str) -> list[float]:
    """Return the shares of missing cells of a set."""
    return sorted({r["share"] for r in records if r["set"] == name})


def values(
    records: Sequence[Record],
    name: str,
    share: float | None,
    model: str,
    figure: str = "test",
) -> list[float]:
    """Return the scores of all seeds; without gaps, all ways to fill them are one."""
    if share == 0 and model.startswith("nsf"):
        model = COMPLETE
    wanted = (name, share, model)
    return [r[figure] for r in records if (r["set"], r["share"], r["model"]) == wanted]


def _by_share(records: Sequence[Record], name: str, figure: str = "test") -> str:
    own = [r for r in records if r["set"] == name]
    models = models_of(own)
    lines = [
        [f"{share:g}", *(spread(values(own, name, share, m, figure), 2) for m in models)]
        for share in shares_of(own, name)
    ]
    return table(["missing", *(LABELS[model] for model in models)], lines)


def _gaps(records: Sequence[Record]) -> str:
    lines = []
    for model, label in {**LABELS, **DROPPED}.items():
        if found := values(records, GAPS, None, model):
            how = "left out" if model in DROPPED else "used" if "_" not in model else "filled"
            lines.append([label, how, spread(found)])
    return table(["", "rows with gaps", "test log-likelihood"], lines)


def _seconds(records: Sequence[Record]) -> str:
    lines = []
    for model in models_of(records):
        own = [r for r in records if r["model"] == model and r["share"] != 0]
        if own:
            means = [fmean(r[name] for r in own) for name in ("fill_s", "fit_s")]
            lines.append([LABELS[model], *(f"{mean:.1f}" for mean in means)])
    return table(["", "filling", "fitting"], lines)
