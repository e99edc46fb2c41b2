"""Sizes of models, batches and queries that are measured, and the targets."""

from dataclasses import asdict, dataclass, replace
from typing import Any, final

import torch
from torch import Tensor


@final
@dataclass(frozen=True)
class Shape:
    """The sizes that decide the cost of a training step.

    Args:
        columns: D.
        width: components M, the authors' m.
        depth, hidden: hidden layers of a leaf and units of each. The authors count the output
            layer too: their l is `depth` + 1, their r is `hidden`.
        batch: rows of a step.
        rows: of the table.
    """

    columns: int
    width: int
    depth: int = 1
    hidden: int = 3
    batch: int = 500
    rows: int = 50_000

    @property
    def name(self) -> str:
        """The sizes as tables show them.

        >>> Shape(6, 1000).name
        '6, 1000, 1x3, 500'
        """
        return f"{self.columns}, {self.width}, {self.depth}x{self.hidden}, {self.batch}"

    def numbers(self) -> dict[str, Any]:
        """Return the sizes as JSON."""
        return asdict(self)


@final
@dataclass(frozen=True)
class Step:
    """A training step that is compared, and how many times faster than the authors' it should be.

    Args:
        shape: its sizes.
        faster: the target, None for none.
        memory: the target for the share of the authors' peak memory, None for none.
    """

    shape: Shape
    faster: float | None = None
    memory: float | None = None


STEPS: dict[str, tuple[Step, ...]] = {
    "cuda": (
        Step(Shape(6, 1000), 20, 0.25),
        Step(Shape(21, 1000), 15, 0.25),
        Step(Shape(43, 1000), 15, 0.25),
        Step(Shape(8, 4000, 3, 5), 10, 0.25),
    ),
    "cpu": (Step(Shape(6, 100), 8), Step(Shape(6, 1000), 6)),
}

# The middle of the curves, and the sizes that are varied around it.
MIDDLE = {"cuda": Shape(8, 512, rows=100_000), "cpu": Shape(8, 64, rows=100_000)}
CURVES: dict[str, dict[str, tuple[int, ...]]] = {
    "cuda": {
        "width": (32, 128, 512, 2048),
        "columns": (2, 8, 32, 128),
        "batch": (125, 500, 2000, 8000),
        "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    },
    "cpu": {
        "width": (16, 64, 256, 512),
        "columns": (2, 8, 16, 32),
        "batch": (125, 500, 2000, 8000),
        "rows": (10_000, 100_000, 1_000_000),
    },
}
# The model that is queried, the most rows of a query, and the target for sampling.
ASKED = {"cuda": Shape(8, 1000), "cpu": Shape(8, 100)}
ASKED_ROWS = 100_000
SAMPLING_FASTER = {"cuda": 20.0}


def curve_shapes(device: str) -> list[Shape]:
    """Return the sizes on all curves, each once."""
    middle = MIDDLE[device]
    varied = [
        replace(middle, **{name: size}) for name, sizes in CURVES[device].items() for size in sizes
    ]
    return list(dict.fromkeys([middle, *varied]))


def table(rows: int, columns: int, device: str, seed: int = 0) -> Tensor:
    """Return rows (N, D) that depend on each other, bent so that they are not Gaussian."""
    generator = torch.Generator(device).manual_seed(seed)
    common = torch.randn(rows, 1, generator=generator, device=device)
    own = torch.randn(rows, columns, generator=generator, device=device)
    x = 0.6 * common + 0.8 * own
    return torch.where(torch.arange(columns, device=device) % 2 == 0, x, x + 0.3 * x.square())
