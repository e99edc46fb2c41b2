"""What a tensor of component weights must answer.

Shapes: B rows, D columns, n of them at hand, M components, S draws per row.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from marginals.numerics import logsumexp


@dataclass(frozen=True)
class LeafValues:
    """The leaves' answer to some evidence, which a tensor contracts.

    Args:
        columns: the n columns at hand, in the order that the tensor asked for.
        log_values: the log value of every cell under every component, (n, B, M).
        scores: gives, for tensors that couple columns inside a component, the logits
            of the CDF at both ends of each cell; evaluated only if asked for.
    """

    columns: tuple[int, ...]
    log_values: Tensor
    scores: Callable[[], tuple[Tensor, Tensor]] | None = None


class ComponentTensor(nn.Module, ABC):
    """Nonnegative weights A over the component indices (i_1, ..., i_D), summing to one.

    A contraction needs the columns at hand only: a column that is left out is marginalised. To add
    a tensor, answer the methods below and list the class in `io/model_files.py`.
    """

    kind: str

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Number of columns D and of components M."""

    def order(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the columns in the order in which this tensor wants their leaf values."""
        return tuple(sorted(columns))

    @abstractmethod
    def log_value(self, values: LeafValues) -> Tensor:
        """Contract: the log of sum_i A_i prod_j exp(log_values[j, :, i_j]), (B,)."""

    def condense(self, values: LeafValues, asked: Sequence[int]) -> LeafValues:
        """Contract the leaf values as far as that can be done before columns `asked` are known.

        The answer takes the place of the values in a `LeafValues` for `log_value`, where it stands
        beside those of `asked`; its columns may be names that only this tensor understands.
        """
        return values

    @contextmanager
    def reused(self) -> Iterator[None]:
        """Reuse what follows from the weights alone, for all that is asked inside.

        The weights must not change meanwhile.
        """
        yield

    @abstractmethod
    def log_outside(self, values: LeafValues) -> Tensor:
        """Return, for each column at hand, what the rest says of its component, (n, B, M).

        It is the log of the derivative of the contraction with respect to the leaf's value: the
        log weight of component k of column j together with the evidence on all other columns. One
        pass up and one down, in log space, so that weights too small for a float keep their digits.
        """

    def log_posterior(self, values: LeafValues) -> Tensor:
        """Return the log probability of each component of each column at hand, (n, B, M).

        It equals the gradient of `log_value` with respect to the leaf values.
        """
        joint = self.log_outside(values) + values.log_values
        return joint - logsumexp(joint)[..., None]

    @abstractmethod
    def sample(
        self, values: LeafValues, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw the component of each column at hand given the evidence, (n, B, S)."""

    @abstractmethod
    def start(self) -> None:
        """Set the weights near the diagonal: component k of every column belongs to component k."""

    @abstractmethod
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Set the weights as the paper's appendix does."""

    @abstractmethod
    def draw_cost(self) -> int:
        """Return the number of floats that one draw for one row holds at a time."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return what rebuilds the tensor, as JSON."""
