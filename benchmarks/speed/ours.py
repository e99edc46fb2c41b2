"""Our model: the steps of `fit` as it runs them, and queries."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.shapes import Shape, table
from benchmarks.speed.timing import PeakMemory, steps_per_block, summary
from marginals.cells.evidence import Evidence
from marginals.densities.build import build
from marginals.densities.density import Density
from marginals.training import FitResult, fit

HELD = 64  # rows by which a timed fit judges: as few as can be, the steps are what is timed
PILOT_STEPS = 12


def made(shape: Shape, x: Tensor, init: str = "paper") -> Density:
    """Build the model of a shape, with the tree of the authors' default: neighbours first."""
    return build(
        x,
        tensor="ht",
        width=shape.width,
        depth=shape.depth,
        hidden=shape.hidden,
        tree="balanced",
        init=init,
    )


def course(
    model: Density, x: Tensor, shape: Shape, steps: int, every: int, compiled: bool = False
) -> FitResult:
    """Fit for so many steps, without ever stopping or going back."""
    return fit(
        model,
        x,
        validation=x[:HELD],
        batch_size=shape.batch,
        max_steps=steps,
        evaluate_every=every,
        patience=1_000_000,
        compile=compiled,
        progress=False,
    )


def measure_step(
    shape: Shape,
    device: str,
    *,
    block_s: float = 1.0,
    blocks: int = 5,
    memory: bool = True,
    compiled: bool = True,
) -> dict[str, Any]:
    """Measure a training step from the history of `fit`, on a CPU compiled as in a long fit.

    An evaluation waits for the device and notes the time. The seconds between two evaluations are
    those of the steps between them and of one evaluation, which is small beside them. The first
    block, in which a step is compiled or recorded, does not count. Peak memory is that of a fit
    whose table is one batch, because evaluations of a larger one would count too; `fit_peak_mib` is
    the peak of the timed fit with all its evaluations.
    """
    meter = PeakMemory(device)
    x = table(shape.rows, shape.columns, device)
    model = made(shape, x)
    pilot = course(model, x[: shape.batch].clone(), shape, PILOT_STEPS, 1, compiled).history
    found: dict[str, Any] = {
        "first_step_s": round(pilot[1].seconds, 4),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    if memory:
        found["peak_mib"] = meter.mib()
    later = sorted(b.seconds - a.seconds for a, b in pairwise(pilot[2:]))
    every = steps_per_block(later[len(later) // 2], block_s)
    history = course(model, x, shape, every * (blocks + 1), every, compiled).history[1:]
    step_s = [(after.seconds - before.seconds) / every for before, after in pairwise(history)]
    if memory:
        found["fit_peak_mib"] = meter.mib()
    return {**summary(step_s, every, shape.batch), **found}


def queries(shape: Shape, device: str, trained: int) -> dict[str, Callable[[int], Tensor]]:
    """Return what our model is asked, each a function of the number of rows.

    Args:
        shape: of the model.
        device: where it is.
        trained: steps before, so that it is not asked at its start.
    """
    x = table(shape.rows, shape.columns, device)
    model = made(shape, x, "data")
    course(model, x, shape, trained, max(1, trained))
    last, half = shape.columns - 1, shape.columns // 2
    before, right = list(range(last)), list(range(half, shape.columns))

    def rows(count: int) -> Tensor:
        return x.repeat(-(-count // len(x)), 1)[:count]

    def others(count: int) -> Evidence:
        return Evidence.exact(rows(count)[:, :last], before)

    asked: dict[str, Callable[[int], Tensor]] = {
        "score": lambda n: model.logpdf(rows(n)),
        "score half the columns": lambda n: model.logpdf(rows(n)[:, :half], range(half)),
        "sample": lambda n: model.sample(n),
        "conditional CDF": lambda n: model.cdf(rows(n)[:, [last]], [last], others(n)),
        "conditional quantile": lambda n: model.ppf(0.5, last, others(n)),
        "sample given one row": lambda n: model.sample(n, Evidence.exact(x[:1, half:], right)),
        "sample given each row": lambda n: model.sample(
            1, Evidence.exact(rows(n)[:, half:], right)
        ),
    }
    return {name: torch.no_grad()(ask) for name, ask in asked.items()}
