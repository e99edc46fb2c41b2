"""What a fit maximises: the joint likelihood, and that of some columns given others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.training.batches import seeded

Contraction = Callable[[Evidence], Tensor]

# Share of the steps that condition on all other columns, as most predictions do.
_ALL_OTHERS = 0.5


@final
@dataclass(frozen=True)
class Focus:
    """Columns whose conditional distributions count beside the joint.

    A row's objective is log p(x) + weight * log p(x_f | x_S) for a column f in focus and a part S
    of the other columns. Each step draws one f and one S for its whole batch, so that both terms
    are contractions without further gaps. A row that lacks x_f adds nothing to the second term.

    Args:
        columns: The columns in focus.
        weight: Weight of the conditional next to the joint.
        companions: By column, the further columns of settled evidence that belong to it.
        seed: Seed for f and S.
    """

    columns: tuple[int, ...]
    weight: float
    companions: dict[int, tuple[int, ...]]
    seed: int

    def step_value(
        self, contract: Contraction, evidence: Evidence, log_value: Tensor, step: int
    ) -> Tensor:
        """Return the weighted log conditional of a step's rows, (B,); `log_value` is the joint."""
        column, given = self._drawn(evidence.columns, step)
        return self.weight * self._conditional(contract, evidence, log_value, column, given)

    def mean_value(self, contract: Contraction, evidence: Evidence, log_value: Tensor) -> Tensor:
        """Return the weighted log conditional given all other columns, (B,), a mean over focus."""
        values = [
            self._conditional(contract, evidence, log_value, c, self._others(evidence.columns, c))
            for c in self.columns
        ]
        return self.weight * torch.stack(values).mean(0)

    def _conditional(
        self,
        contract: Contraction,
        evidence: Evidence,
        log_value: Tensor,
        column: int,
        given: Sequence[int],
    ) -> Tensor:
        own = {column, *self.companions.get(column, ())}
        both = [c for c in evidence.columns if c in own or c in given]
        joint = log_value if len(both) == len(evidence.columns) else contract(evidence.select(both))
        return joint - contract(evidence.select(given)) if given else joint

    def _others(self, columns: Sequence[int], column: int) -> list[int]:
        own = {column, *self.companions.get(column, ())}
        return [c for c in columns if c not in own]

    def _drawn(self, columns: Sequence[int], step: int) -> tuple[int, list[int]]:
        """Draw a column in focus and columns to condition on, by seed and step alone."""
        generator = seeded(torch.device("cpu"), self.seed, step, 3)
        column = self.columns[int(torch.randint(len(self.columns), (), generator=generator))]
        others = self._others(columns, column)
        share, *levels = torch.rand(2 + len(others), generator=generator).tolist()
        if levels.pop() < _ALL_OTHERS:
            return column, others
        marks = {m for own in self.companions.values() for m in own}
        kept = {c for c, level in zip(others, levels, strict=True) if level < share} - marks
        kept |= {m for c in kept for m in self.companions.get(c, ())}
        return column, [c for c in others if c in kept]


def make_focus(model: Density, columns: Sequence[int], weight: float, seed: int) -> Focus | None:
    """Return the focus of a fit, None if it has none.

    Args:
        model: The model to fit.
        columns: The columns in focus.
        weight: Weight of their conditionals; 0 for none.
        seed: Seed for what each step conditions on.
    """
    model.check_columns(columns)
    if not columns or not weight:
        return None
    companions = {c: model.companions(c) for c in range(model.columns)}
    return Focus(tuple(columns), weight, companions, seed)
