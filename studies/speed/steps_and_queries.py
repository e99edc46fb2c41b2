"""Training steps and queries: our model, and other packages where they can answer."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marginals import Density, Evidence, FitResult, build, fit
from studies.harness.available import Unavailable, installed
from studies.models.neural import einet as einet_of
from studies.speed.shapes import Shape, table
from studies.speed.timing import PeakMemory, steps_per_block, summary

HELD = 64  # rows by which a timed fit judges: as few as can be, the steps are what is timed
PILOT_STEPS = 12
VINE_ROWS = 2000
Asked = dict[str, Callable[[int], object]]


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


def queries(shape: Shape, device: str, trained: int) -> Asked:
    """Return the queries of our model, each a function of the number of rows.

    Args:
        shape: Sizes of the model.
        device: Where it is.
        trained: Steps before, so that it is not queried at its start.
    """
    x = table(shape.rows, shape.columns, device)
    model = made(shape, x, "data")
    course(model, x, shape, trained, max(1, trained))
    last, half = shape.columns - 1, shape.columns // 2
    before, right = list(range(last)), list(range(half, shape.columns))

    def rows(count: int) -> Tensor:
        return repeated(x, count)

    def others(count: int) -> Evidence:
        return Evidence.exact(rows(count)[:, :last], before)

    asked: Asked = {
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
    return _without_gradients(asked)


def repeated(x: Tensor, count: int) -> Tensor:
    """Return so many rows by repeating a table."""
    return x.repeat(-(-count // len(x)), 1)[:count]


def _without_gradients(asked: Asked) -> Asked:
    return {name: torch.no_grad()(ask) for name, ask in asked.items()}


# Other packages, not trained: their times do not depend on it ------------------------------------


def nsf(shape: Shape, device: str) -> Asked:
    """Return the queries of zuko's spline flow, of the size of the scoreboard's."""
    flows = installed("zuko.flows")
    flow = flows.NSF(shape.columns, transforms=3, hidden_features=(128, 128)).to(device)
    x = table(shape.rows, shape.columns, device)
    return _without_gradients(
        {
            "score": lambda n: flow().log_prob(repeated(x, n)),
            "sample": lambda n: flow().sample((n,)),
        }
    )


def einet(shape: Shape, device: str) -> Asked:
    """Return the queries of spflow's Einsum network, of a size of the scoreboard's."""
    rows = table(shape.rows, shape.columns, "cpu")
    depth = min(3, int(np.log2(shape.columns)))
    module = einet_of(rows.double().numpy(), width=10, repetitions=5, depth=depth).to(device)
    x = rows.to(device)
    return _without_gradients(
        {
            "score": lambda n: module.log_likelihood(repeated(x, n)),
            "sample": lambda n: module.sample(num_samples=n),
        }
    )


def vine(shape: Shape, device: str) -> Asked:
    """Return the queries of pyvinecopulib, which conditions on the last columns of its order."""
    package = installed("pyvinecopulib")
    if device != "cpu":
        raise Unavailable("Expected a CPU; pyvinecopulib has no GPU.")
    rows = table(VINE_ROWS, shape.columns, "cpu").double().numpy()
    controls = package.FitControlsVinecop(
        family_set=[package.BicopFamily.tll], num_threads=torch.get_num_threads()
    )
    model = package.Vinedist.from_data(rows, controls=controls)
    half = shape.columns - shape.columns // 2
    last = [int(place) - 1 for place in model.vinecop.order[-half:]]
    return {
        "score": lambda n: model.logpdf(np.resize(rows, (n, shape.columns))),
        "sample": lambda n: model.sample(n, seeds=[1]),
        "sample given each row": lambda n: model.sample_conditional(
            np.resize(rows[:, last], (n, len(last)))
        ),
    }


PEERS: dict[str, Callable[[Shape, str], Asked]] = {"nsf": nsf, "einet": einet, "vine": vine}
