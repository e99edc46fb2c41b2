"""The interface of a tensor of component weights.

Shapes: B rows, D columns, n of them present, M components, S draws per row.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.numerics import logsumexp
from marginals.runtime.backend import QUERY, Backend


@final
@dataclass(frozen=True)
class LeafValues:
    """The leaves' log values of some evidence, which a tensor contracts.

    Args:
        columns: the n columns present, in the tensor's order.
        log_values: the log value of every cell under every component, (n, B, M).
    """

    columns: tuple[int, ...]
    log_values: Tensor


class ComponentTensor(nn.Module, ABC):
    """Nonnegative weights A over the component indices (i_1, ..., i_D), summing to one.

    A contraction needs only the columns present: a column left out is marginalised. To add a
    tensor, implement the abstract methods and register the class in `io/model_files.py`.
    """

    kind: str

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """The number of columns D and of components M."""

    def order(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the columns in the order in which this tensor expects their leaf values."""
        return tuple(sorted(columns))

    @abstractmethod
    def log_value(self, values: LeafValues, backend: Backend = QUERY) -> Tensor:
        """Contract: the log of sum_i A_i prod_j exp(log_values[j, :, i_j]), (B,)."""

    def condense(self, values: LeafValues, requested: Sequence[int]) -> LeafValues:
        """Contract the leaf values as far as possible before columns `requested` are added.

        The result stands in for `values` next to the leaf values of `requested` in a call of
        `log_value`. Its columns may be names that only this tensor understands.
        """
        return values

    @abstractmethod
    def log_ratio(
        self,
        given: LeafValues,
        requested: Tensor,
        place: Tensor | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Contract both together, relative to `given` alone: the log of a conditional, (B,).

        Every weight on the way is normalised given the evidence below it, so conditionals sum to
        one however unlikely the evidence is. The difference of two calls of `log_value` would
        lose its digits where the values are large.

        Args:
            given: leaf values of the evidence, 0 in columns without any, (n, U, M).
            requested: leaf values of the requested cells, 0 elsewhere, (n, B, M), same columns.
            place: the row of `given` for each requested row, (B,); None if they go together.
            backend: how to compute.
        """

    @abstractmethod
    def log_outside(self, values: LeafValues) -> Tensor:
        """Return the log weight of each column's components given all other columns, (n, B, M).

        It is the log derivative of the contraction with respect to the leaf's value, computed in
        log space by one upward and one downward pass, so tiny weights keep their precision.
        """

    def log_posterior(self, values: LeafValues) -> Tensor:
        """Return the log probability of each component of each column, (n, B, M).

        It equals the gradient of `log_value` with respect to the leaf values.
        """
        joint = self.log_outside(values) + values.log_values
        return joint - logsumexp(joint)[..., None]

    @abstractmethod
    def sample(
        self, values: LeafValues, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw the component of each column given the evidence, (n, B, S)."""

    @abstractmethod
    def start(self, weights: Tensor | None = None) -> None:
        """Initialise near the diagonal: component k of one column goes with k of every other.

        Args:
            weights: of the components, (M,); even by default.
        """

    @abstractmethod
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Initialise as in the paper's appendix."""

    @abstractmethod
    def draw_cost(self) -> int:
        """Return the number of floats that one draw for one row holds at once."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the JSON configuration that rebuilds the tensor."""
