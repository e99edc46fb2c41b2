"""What the paper's model takes to match the exact information: steps, rates, starts and widths."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, final

import torch
from scipy.stats import multivariate_normal

from marginals import Density, FitConfig, build
from marginals.training.batches import make_rows
from marginals.training.fit import FitRun
from marginals.training.graphed import own_stream
from marginals.training.result import FitError
from studies.data.density import Rows
from studies.harness.available import check_choice
from studies.harness.drawing import COLOURS, legend, open_frame, panels
from studies.harness.study import Arrays, Context, Paper, Record, Records, Settings, Study
from studies.harness.text import pick, present, spread, table, values
from studies.information.gaussian import draw, exact_information, gaussian_covariance, information
from studies.models.ours import in_parts

STARTS = {"paper": "paper's start", "data": "start from rows of the data"}
SCHEDULES = {
    "plateau": "AMSGrad, halved on plateaus (authors)",
    "line": "Adam, falling linearly to 0",
}
# Of torch's ReduceLROnPlateau, as the authors call it.
GAIN, LEAST_RATE = 1e-4, 1e-4


def jobs(settings: Settings, seed: int, context: Context) -> Iterator[Record]:
    """Return the fits, the authors' own first; seeds after the first repeat their start and rate.

    Rates vary at the authors' width, and widths at their rate. One fit on plateaus covers all
    numbers of steps; a rate that falls linearly needs a fit for each.
    """
    width, rate = settings.widths[0], settings.rates[0]
    for start, each_width, each_rate in itertools.product(
        settings.starts, settings.widths, settings.rates
    ):
        own = each_rate == rate
        what = {"start": start, "width": each_width, "rate": each_rate}
        if (own or each_width == width) and (seed == 0 or (own and start == settings.starts[0])):
            yield {**what, "schedule": "plateau", "steps": max(settings.steps)}
            for steps in settings.line_steps if own else ():
                yield {**what, "schedule": "line", "steps": steps}


def measure(settings: Settings, seed: int, context: Context, job: Record) -> Iterator[Record]:
    """Return the estimates after the steps of the curve, one record for each."""
    start = check_choice("`starts`", job["start"], STARTS)
    schedule = check_choice("the schedule", job["schedule"], SCHEDULES)
    sample = draw((settings.rows, 0, settings.held_out), seed)
    truth = multivariate_normal(cov=gaussian_covariance()).logpdf(sample.held).mean()
    x = torch.as_tensor(sample.train, dtype=torch.float32, device=context.device)
    shape = {"width": job["width"], "depth": settings.depth, "hidden": settings.hidden}
    model = build(x, seed=seed, tree="balanced", init=start, **shape).to(context.device)

    def ask(rows: Rows, columns: Sequence[int]) -> Rows:
        return in_parts(lambda points: model.logpdf(points, columns), rows, model)

    total, rate = job["steps"], job["rate"]
    config = FitConfig(
        batch_size=settings.batch,
        learning_rate=rate,
        amsgrad=schedule == "plateau",
        clip_norm=None,
        max_steps=total,
        seed=seed,
    )
    curve = (*settings.steps,) if schedule == "plateau" else (total,)
    started = time.perf_counter()
    with own_stream(x.device):
        stepped = plateau(rate, settings.patience) if schedule == "plateau" else line(rate, total)
        for step in trained(model, x, config, stepped):
            if step in curve:
                seconds = round(time.perf_counter() - started, 1)
                found = {"at": step, **information(ask, sample.held), "fit_s": seconds}
                short = float(truth - ask(sample.held, range(x.shape[1])).mean())
                yield {**found, "nats_short": short, "exact": exact_information()}


# Step and loss of its batch to the learning rate of the next step.
Schedule = Callable[[int, float], float]


def trained(model: Density, x: torch.Tensor, config: FitConfig, rate: Schedule) -> Iterator[int]:
    """Train on batches and yield the number of steps taken after each."""
    run = FitRun(model, make_rows(model.checked(x), None, "data"), None, config)
    state = run.state
    while state.step < config.max_steps:
        state.loss_sum.zero_()
        run.step()
        total, weight = state.loss_sum.tolist()
        if not math.isfinite(total):
            raise FitError(f"Expected a finite loss; got {total} at step {state.step}.")
        state.set_rate(rate(state.step, total / weight))
        yield state.step


def line(rate: float, steps: int) -> Schedule:
    """Let the rate fall linearly to zero over all steps."""
    return lambda step, loss: rate * (1 - step / steps)


def plateau(rate: float, patience: int) -> Schedule:
    """Halve the rate after so many batches in a row without a lower loss, as the authors do."""
    state = _Plateau(rate, patience)
    return state.after


@final
@dataclass
class _Plateau:
    """The learning rate of a fit so far, and how long its loss has not fallen."""

    rate: float
    patience: int
    best: float = math.inf
    stale: int = 0

    def after(self, step: int, loss: float) -> float:
        """Count a batch and return the rate that follows it."""
        if loss < self.best * (1 - GAIN):  # losses here are positive
            self.best, self.stale = loss, 0
        else:
            self.stale += 1
        if self.stale > self.patience:
            self.rate, self.stale = max(self.rate / 2, min(self.rate, LEAST_RATE)), 0
        return self.rate


# Tables and the picture -------------------------------------------------------------------------


def share(record: Record) -> float:
    """Return the sum of the estimates over k as a share of the exact sum."""
    return sum(record["values"]) / sum(record["exact"])


LINE = ("start", "width", "rate", "schedule")


def _lines(records: Records) -> list[Record]:
    """Return start, width, rate and schedule of each line of the tables."""
    found = [{name: r[name] for name in LINE} for r in records]
    order = [*STARTS, *SCHEDULES]
    unique = {tuple(each.values()): each for each in found}
    return sorted(
        unique.values(),
        key=lambda e: (order.index(e["start"]), -e["width"], e["rate"], order.index(e["schedule"])),
    )


def tables(records: Records, paper: Paper) -> str:
    """Return the share of the exact information and the nats lost, by the number of steps."""
    steps = sorted({record["at"] for record in records})
    shares = [{**record, "share": share(record)} for record in records]
    head = ["start", "components", "learning rate", "from", *(f"{step:,} steps" for step in steps)]
    shown = {
        "share": "Sum over k = 1, ..., 15 of the estimated information, as a share of the exact "
        "sum: 1 is right. Mean over seeds, ± their standard deviation where there are several.",
        "nats_short": "Nats per held-out row by which the model's log density falls short of the "
        "true one.",
    }
    parts = [_closest(shares)]
    for figure, title in shown.items():
        rows = []
        for each in _lines(records):
            cells = [spread(values(shares, figure, at=step, **each)) for step in steps]
            how = [SCHEDULES[each["schedule"]], f"{each['rate']:g}"]
            rows.append([STARTS[each["start"]], f"{each['width']:,}", *how, *cells])
        parts += [title, table(head, rows)]
    return "\n\n".join(parts)


def _closest(shares: Records) -> str:
    """Say how close the best fit comes, and the authors' own."""
    names = (*LINE, "at")
    means = {
        key: fmean(values(shares, "share", **dict(zip(names, key, strict=True))))
        for key in {tuple(record[name] for name in names) for record in shares}
    }
    best = min(means, key=lambda key: (abs(means[key] - 1), key))
    start, width, rate, schedule, at = best
    text = (
        f"Closest to the exact values: {means[best]:.3f} of them, after {at:,} steps of {width:,} "
        f"components, {STARTS[start]}, rate from {rate:g} ({SCHEDULES[schedule]})."
    )
    own = pick(shares, start="paper", schedule="plateau", rate=0.01)
    own = pick(own, width=max(record["width"] for record in shares))
    if not own:
        return text
    last = max(own, key=lambda record: record["at"])["at"]
    steps = sorted({record["at"] for record in own if record["at"] in (4000, last)})
    told = " and ".join(
        f"{fmean(values(own, 'share', at=step)):.3f} after {step:,} steps" for step in steps
    )
    return f"{text} As the authors train: {told}."


HUES = (COLOURS["paper"], "#56b4e9", COLOURS["nsf"], "#cc79a7", "#e69f00", COLOURS["ours"])


def figures(records: Records, arrays: Arrays) -> dict[str, Any]:
    """Draw the share of the exact information by steps, a panel for each start."""
    starts = present(STARTS, (record["start"] for record in records))
    if not starts:
        return {}
    kinds = list(dict.fromkeys((line["width"], line["rate"]) for line in _lines(records)))
    figure, axes = panels(3.8 * len(starts), 3.6, len(starts), sharey=True)
    for panel, start in zip(axes[0], starts, strict=True):
        for each in _lines(pick(records, start=start)):
            place = kinds.index((each["width"], each["rate"]))
            _draw(panel, pick(records, **each), HUES[place % len(HUES)])
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set(title=STARTS[start], xlabel="steps", xscale="log")
        open_frame(panel)
    axes[0, 0].set_ylabel("share of the exact information")
    legend(figure, axes[0, 0], columns=4)
    return {"share": figure}


def _draw(axes: Any, own: Records, hue: str) -> None:
    steps = sorted({record["at"] for record in own})
    means = [fmean(share(record) for record in pick(own, at=step)) for step in steps]
    plain = own[0]["schedule"] == "plateau"
    label = f"m = {own[0]['width']}, {own[0]['rate']:g}, {'plateaus' if plain else 'line'}"
    style = {"linestyle": "-" if plain else "--", "marker": "o" if plain else "s"}
    axes.plot(steps, means, color=hue, label=label, markersize=3, linewidth=1, **style)


STUDY = Study(
    "information-training",
    "Mutual information: what training takes",
    measure,
    tables,
    figures,
    jobs=jobs,
    key=(*LINE, "steps", "at"),
    parts=("starts", "widths", "rates", "steps", "line_steps"),
)
