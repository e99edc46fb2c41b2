"""The CP tensor: one component index shared by all columns, a plain mixture of products."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.numerics import draw_many, log_normalised, log_shares, logsumexp, sum_of_others
from marginals.numerics.logspace import Parametrisation, raw_weights
from marginals.runtime.backend import QUERY, Backend
from marginals.tensors.component_tensor import ComponentTensor, LeafValues


@final
class CPTensor(ComponentTensor):
    r"""Weights :math:`A_{i_1 \dots i_D} = a_i` if all indices are equal to i, else 0.

    Args:
        columns: the number of columns D.
        width: the number of components M.
        parametrisation: how weights are normalised, "softmax" or the paper's "softplus".

    >>> tensor = CPTensor(columns=3, width=4)
    >>> tensor.log_value(LeafValues((0, 1, 2), torch.zeros(3, 5, 4)))
    tensor([0., 0., 0., 0., 0.], grad_fn=<WhereBackward0>)
    """

    kind = "cp"

    def __init__(
        self, columns: int, width: int, parametrisation: Parametrisation = "softmax"
    ) -> None:
        super().__init__()
        self.columns, self.parametrisation = columns, parametrisation
        self.raw = nn.Parameter(torch.zeros(width))
        self.start()

    @property
    def size(self) -> tuple[int, int]:
        """The number of columns D and of components M."""
        return self.columns, len(self.raw)

    def config(self) -> dict[str, Any]:
        """Return the JSON configuration that rebuilds the tensor."""
        columns, width = self.size
        return {"columns": columns, "width": width, "parametrisation": self.parametrisation}

    def log_value(self, values: LeafValues, backend: Backend = QUERY) -> Tensor:
        """Contract the leaf values, (B,)."""
        return logsumexp(self._log_joint(values))

    def condense(self, values: LeafValues, requested: Sequence[int]) -> LeafValues:
        """Multiply the leaf values; the product takes the name of their first column."""
        return LeafValues(values.columns[:1], values.log_values.sum(0, keepdim=True))

    def log_ratio(
        self,
        given: LeafValues,
        requested: Tensor,
        place: Tensor | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Contract both together, relative to `given` alone, (B,)."""
        weights, _ = log_shares(self._log_joint(given))  # (U, M)
        return logsumexp(requested.sum(0) + (weights if place is None else weights[place]))

    def log_outside(self, values: LeafValues) -> Tensor:
        """Return the log weight of each column's components given the others, (n, B, M)."""
        weights = log_normalised(self.raw, self.parametrisation)
        return weights + sum_of_others(values.log_values, 0)

    def sample(
        self, values: LeafValues, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw one component per row and draw, shared by all columns, (n, B, S)."""
        chosen = draw_many(self._log_joint(values), draws, generator)
        return chosen.expand(len(values.columns), -1, -1)

    @torch.no_grad()
    def start(self, weights: Tensor | None = None) -> None:
        """Give the components equal weights, or those given."""
        even = torch.full_like(self.raw, 1 / len(self.raw))
        self.raw.copy_(raw_weights(even if weights is None else weights, self.parametrisation))

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Draw the raw weights from a standard Gaussian, as the authors' CP model does."""
        noise = torch.randn(self.raw.shape, generator=generator, device=self.raw.device)
        self.raw.copy_(noise)

    def draw_cost(self) -> int:
        """Return the number of floats that one draw for one row holds at once."""
        return len(self.raw)

    def _log_joint(self, values: LeafValues) -> Tensor:
        weights = log_normalised(self.raw, self.parametrisation)
        return weights + values.log_values.sum(0)  # (B, M)
