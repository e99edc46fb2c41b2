"""Other packages, asked the same where they can: not trained, on which times do not depend."""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.speed.shapes import Shape, table

Asked = dict[str, Callable[[int], object]]
VINE_ROWS = 2000


def nsf(shape: Shape, device: str) -> Asked:
    """Return the queries of zuko's spline flow, of the size of the scoreboard's."""
    from zuko.flows import NSF

    flow = NSF(shape.columns, transforms=3, hidden_features=(128, 128)).to(device)
    x = table(shape.rows, shape.columns, device)
    asked: Asked = {
        "score": lambda n: flow().log_prob(x.repeat(-(-n // len(x)), 1)[:n]),
        "sample": lambda n: flow().sample((n,)),
    }
    return {name: torch.no_grad()(ask) for name, ask in asked.items()}


def einet(shape: Shape, device: str) -> Asked:
    """Return the queries of spflow's Einsum network, of a size of the scoreboard's."""
    from benchmarks.likelihood.neural import einet as made

    rows = table(shape.rows, shape.columns, "cpu")
    depth = min(3, int(np.log2(shape.columns)))
    module = made(rows.double().numpy(), width=10, repetitions=5, depth=depth).to(device)
    x = rows.to(device)
    asked: Asked = {
        "score": lambda n: module.log_likelihood(x.repeat(-(-n // len(x)), 1)[:n]),
        "sample": lambda n: module.sample(num_samples=n),
    }
    return {name: torch.no_grad()(ask) for name, ask in asked.items()}


def vine(shape: Shape, device: str) -> Asked:
    """Return the queries of pyvinecopulib, which has no GPU.

    It conditions on the last columns of its own order, not on any.
    """
    import pyvinecopulib

    if device != "cpu":
        raise ImportError("pyvinecopulib computes on the CPU only")
    rows = table(VINE_ROWS, shape.columns, "cpu").double().numpy()
    controls = pyvinecopulib.FitControlsVinecop(
        family_set=[pyvinecopulib.BicopFamily.tll], num_threads=torch.get_num_threads()
    )
    model = pyvinecopulib.Vinedist.from_data(rows, controls=controls)
    last = [
        int(place) - 1 for place in model.vinecop.order[-(shape.columns - shape.columns // 2) :]
    ]
    return {
        "score": lambda n: model.logpdf(np.resize(rows, (n, shape.columns))),
        "sample": lambda n: model.sample(n, seeds=[1]),
        "sample given each row": lambda n: model.sample_conditional(
            np.resize(rows[:, last], (n, len(last)))
        ),
    }


PEERS: dict[str, Callable[[Shape, str], Asked]] = {"nsf": nsf, "einet": einet, "vine": vine}
