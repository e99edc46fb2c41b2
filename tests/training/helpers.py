"""Small data, small models, and the parts of a fit to compare."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from marginals import Evidence, FitResult, build, fit
from marginals.densities.density import Density
from marginals.densities.tensor_density import TensorDensity
from marginals.io import container

Losses = list[tuple[int, float, float, float]]


def rows(count: int, columns: int = 2, seed: int = 0) -> Tensor:
    """Rows of dependent, skewed columns."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, columns, generator=generator)
    return torch.cat([z[:, :1], z[:, 1:] + z[:, :1].square()], 1)


def mixed_rows(count: int, seed: int = 0) -> Tensor:
    """Rows whose column 2 has the codes 0, 1, 2."""
    x = rows(count, seed=seed)
    code = (x[:, :1] > -0.5).to(x.dtype) + (x[:, :1] > 0.5)
    return torch.cat([x, code], 1)


def boxes(x: Tensor, seed: int = 0) -> Evidence:
    """Make a third of the cells intervals and a third missing."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(3, x.shape, generator=generator)
    lower = torch.where(kind == 1, x - 0.4, x)
    lower = torch.where(kind == 2, torch.nan, lower)
    return Evidence.interval(lower, torch.where(kind == 1, x + 0.3, x))


def small(x: Tensor | Evidence, width: int = 3, **options: object) -> TensorDensity:
    return build(x, width=width, dtype=torch.float64, **options)


def losses(result: FitResult) -> Losses:
    """All of the history except the times."""
    return [(r.step, r.train_loss, r.validation_loss, r.learning_rate) for r in result.history]


def assert_close(one: FitResult, other: FitResult, rel: float = 1e-9) -> None:
    """Compare the losses of two fits."""
    for some, others in zip(losses(one), losses(other), strict=True):
        assert some == pytest.approx(others, rel=rel)


def weights(model: Density) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(some: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Equal bit for bit."""
    return some.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in some.items())


def parts(path: Path, prefix: str) -> dict[str, Tensor]:
    """Tensors of a checkpoint under `prefix/`: model, best, average or optimiser."""
    tensors, _ = container.read(path, "checkpoint")
    start = prefix + "/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def loss_of(model: Density, data: Tensor | Evidence) -> float:
    with torch.no_grad():
        return -float(model.log_value(data).mean())


def after(steps: int, path: Path, x: Tensor | Evidence, **settings: object) -> Path:
    """Fit the small model for some steps, whose state is then in the checkpoint."""
    fit(small(x), x, max_steps=steps, checkpoint=path, **settings)
    return path


def watch(model: Density, seen: Callable[[Evidence], None]) -> None:
    """Call a function with the evidence of every contraction, before it."""
    contract = model.contract

    def watched(evidence: Evidence, *rest: object) -> Tensor:
        seen(evidence)
        return contract(evidence, *rest)

    model.contract = watched


def at_step(model: Density, step: int, act: Callable[[], None]) -> None:
    """Act when the training step with this number begins."""
    steps = itertools.count()

    def seen(_: Evidence) -> None:
        if torch.is_grad_enabled() and next(steps) == step:
            act()

    watch(model, seen)


def normal_cdf(x: float, mean: float = 0.0, std: float = 1.0) -> float:
    return 0.5 * math.erfc(-(x - mean) / (std * math.sqrt(2)))
