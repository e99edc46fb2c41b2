"""Sweeps over single models: how a fit starts, and what the default is made of."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from marginals import build, fit
from marginals.numerics import logsumexp
from marginals.selection.ensemble import mixture_weights
from studies.data.density import Split, splits
from studies.harness.study import Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, spread, table
from studies.models.ours import in_parts


def _trained(
    context: Context, name: str, seed: int, most: int | None, built: Record, fitted: Record
) -> tuple[Record, Any, Split]:
    """Build and train a model; return how it went, the model and the split."""
    split = splits(name, context)[0]
    train, val = (
        torch.as_tensor(rows, dtype=torch.float32, device=context.device)
        for rows in (split.train, split.val[:most])
    )
    started = time.perf_counter()
    model = build(train, seed=seed, **built)
    result = fit(model, train, validation=val, seed=seed, progress=False, **fitted)
    seconds = time.perf_counter() - started
    found = {
        "val": -result.best_loss,
        "steps": result.steps,
        "best_step": result.best_step,
        "stopped": result.stopped,
        "fit_s": round(seconds, 2),
    }
    return found, model, split


# Starts -----------------------------------------------------------------------------------------


GRID = {
    **{"set": "sets", "init": "starts", "tensor": "tensors", "width": "widths"},
    **{"noise": "noises", "rate": "rates", "batch": "batches", "decay": "decays"},
}


def _measure_start(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    built = {name: job[name] for name in ("init", "tensor", "width")}
    fitted = {
        "batch_size": job["batch"],
        "learning_rate": job["rate"],
        "noise": job["noise"],
        "weight_decay": job["decay"],
        "max_seconds": settings.seconds,
        "max_steps": settings.steps,
    }
    found, model, split = _trained(context, job["set"], seed, None, built, fitted)
    model.double()  # so that the figure is the model's and not the rounding's
    scores = in_parts(model.logpdf, split.test, model)
    tests = {"test": scores.mean(), "test_min": scores.min(), "test_median": np.median(scores)}
    return {**found, **{name: float(value) for name, value in tests.items()}}


def _start_tables(records: Records, paper: Paper) -> str:
    rows = []
    for values in sorted({tuple(r[name] for name in GRID) for r in records}):
        own = [r for r in records if tuple(r[name] for name in GRID) == values]
        names = ("val", "test", "test_min", "fit_s", "steps")
        cells = [spread([r[name] for r in own]) for name in names]
        rows.append([*map(str, values), *cells, str(len(own))])
    return table([*GRID, "val", "test", "test_min", "fit s", "steps", "runs"], rows)


STARTS = Study(
    "starts",
    "Hierarchical Tucker started from data and as in the paper",
    _measure_start,
    _start_tables,
    grid=GRID,
    page=None,
)

# Members ----------------------------------------------------------------------------------------

JUDGED = 10_000  # validation rows
COPULA = {"tensor": "copula", "width": 32, "rank": 2, "common": 20}
WIDE = {"tensor": "copula", "width": 1000, "rank": 1, "common": 4}
NORMAL = {"tensor": "ht", "leaves": "normal", "width": 32}
NEURAL = {"tensor": "ht", "leaves": "neural", "width": 64}
# By size of the set, and whether noise, averaging and ranks are swept.
MODELS: dict[tuple[str, bool], list[Record]] = {
    ("small", False): [
        *(NORMAL, {**NORMAL, "width": 128}, NEURAL, {**COPULA, "width": 8}, COPULA),
        {"tensor": "copula", "width": 100, "rank": 1, "common": 10},
        {"tensor": "copula", "width": 32, "rank": 5, "common": 0},
    ],
    ("large", False): [
        *({**NORMAL, "width": 128}, {**NORMAL, "width": 512}, {**NEURAL, "width": 256}),
        {"tensor": "copula", "width": 100, "rank": 1, "common": 10},
        *({**WIDE, "width": 400}, WIDE, {**WIDE, "rank": 3, "common": 0}),
    ],
    ("small", True): [
        *({**COPULA, "noise": 0.06}, {**COPULA, "noise": 0.12}, {**COPULA, "averaging": 0.99}),
        {**COPULA, "rank": 1, "common": 32, "noise": 0.06},
        {**COPULA, "width": 64, "noise": 0.06},
        *({**NORMAL, "noise": 0.06}, {**NORMAL, "averaging": 0.99}, {**NEURAL, "noise": 0.1}),
        {**NEURAL, "width": 32, "noise": 0.06, "averaging": 0.99},
        {**COPULA, "weight_decay": 0.3},
    ],
    ("large", True): [
        *({**WIDE, "averaging": 0.99}, {**WIDE, "noise": 0.003}, {**WIDE, "noise": 0.03}),
        *({**WIDE, "width": 600, "common": 8}, {**WIDE, "width": 2000}),
        {**NORMAL, "width": 256, "averaging": 0.99},
        {**NEURAL, "width": 500, "averaging": 0.99},
    ],
}
SETS = {
    **{"miniboone": ("small", 0.03), "hepmass": ("small", 0.03), "sachs": ("small", 0.03)},
    **{"gas": ("large", 0.01), "protein": ("large", 0.01), "power": ("large", 0.0)},
    "iris": ("small", 0.03),
}
TRAINED = ("noise", "averaging", "weight_decay")


def _members(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    for name in settings.sets:
        models = MODELS[SETS[name][0], settings.sweep]
        for number in range(len(models))[: settings.most]:
            yield {"set": name, "sweep": settings.sweep, "model": number}


def _measure_member(settings: Settings, seed: int, context: Context, job: Record) -> Record:
    """Fit one model and keep the scores of validation rows; test rows are never scored."""
    size, noise = SETS[job["set"]]
    chosen = {"noise": noise, **MODELS[size, job["sweep"]][job["model"]]}
    fitted = {name: value for name, value in chosen.items() if name in TRAINED}
    built = {name: value for name, value in chosen.items() if name not in TRAINED}
    fitted |= {"max_seconds": settings.seconds, "max_steps": 200_000}
    found, model, split = _trained(context, job["set"], job["model"], JUDGED, built, fitted)
    scores = in_parts(model.logpdf, split.val[:JUDGED], model)
    return {**found, "chosen": chosen, "scores": scores.astype(np.float32).tolist()}


def _member_tables(records: Records, paper: Paper) -> str:
    """Return the validation score of each member, and its weight in their mixture."""
    parts = []
    for name, sweep in dict.fromkeys((r["set"], r["sweep"]) for r in records):
        own = pick(records, set=name, sweep=sweep)
        scores = torch.tensor([r["scores"] for r in own], dtype=torch.float64).T
        weights = mixture_weights(scores)
        mixed = float(logsumexp(scores + weights.log()).mean())
        rows = [
            [
                ", ".join(f"{name} {value}" for name, value in r["chosen"].items()),
                *(f"{float(score):.2f}", f"{float(weight):.2f}"),
                *(str(r["steps"]), f"{r['fit_s']:.1f}"),
            ]
            for r, score, weight in zip(own, scores.mean(0), weights, strict=True)
        ]
        parts += [
            f"{name}: the mixture has {mixed:.3f} nats per validation row.",
            table(["member", "validation", "weight", "steps", "fit s"], rows),
        ]
    return "\n\n".join(parts)


MEMBERS = Study(
    "members",
    "Single models that the default could be made of",
    _measure_member,
    _member_tables,
    jobs=_members,
    key=("set", "sweep", "model"),
    parts=("sets", "sweep", "most"),
    page=None,
)
