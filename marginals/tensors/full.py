"""The full tensor: a weight for every combination of components, for few columns."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.numerics import draw_many, log_normalised, log_shares, logsumexp
from marginals.numerics.logspace import Parametrisation, raw_weights
from marginals.runtime.backend import QUERY, Backend
from marginals.tensors.component_tensor import ComponentTensor, LeafValues

# Beyond this, a single row takes too much memory.
MOST_WEIGHTS = 1 << 24


@final
class FullTensor(ComponentTensor):
    """An unstructured tensor of M^D weights; with D = 2 the paper's bivariate model.

    Args:
        columns: the number of columns D.
        width: the number of components M.
        parametrisation: how weights are normalised, "softmax" or the paper's "softplus".

    >>> tensor = FullTensor(columns=2, width=3)
    >>> tensor.log_weights().exp().sum()
    tensor(1.0000, grad_fn=<SumBackward0>)
    """

    kind = "full"

    def __init__(
        self, columns: int, width: int, parametrisation: Parametrisation = "softmax"
    ) -> None:
        super().__init__()
        if width**columns > MOST_WEIGHTS:
            raise ValueError(
                f"Expected `width` ** `columns` to be at most {MOST_WEIGHTS} for the full tensor; "
                f"got {width} ** {columns}. Use tensor='ht' for this many columns."
            )
        self.columns, self.parametrisation = columns, parametrisation
        self.raw = nn.Parameter(torch.zeros((width,) * columns))
        self.start()

    @property
    def size(self) -> tuple[int, int]:
        """The number of columns D and of components M."""
        return self.columns, self.raw.shape[0]

    def config(self) -> dict[str, Any]:
        """Return the JSON configuration that rebuilds the tensor."""
        columns, width = self.size
        return {"columns": columns, "width": width, "parametrisation": self.parametrisation}

    def log_weights(self) -> Tensor:
        """Return the logarithm of A, (M, ..., M)."""
        return log_normalised(self.raw.flatten(), self.parametrisation).reshape(self.raw.shape)

    def log_value(self, values: LeafValues, backend: Backend = QUERY) -> Tensor:
        """Contract the leaf values, (B,)."""
        return logsumexp(self._log_joint(values).flatten(1))

    def log_ratio(
        self,
        given: LeafValues,
        requested: Tensor,
        place: Tensor | None = None,
        backend: Backend = QUERY,
    ) -> Tensor:
        """Contract both together, relative to `given` alone, (B,)."""
        joint = self._log_joint(given)  # (U, M, ..., M)
        weights = log_shares(joint.flatten(1))[0].reshape(joint.shape)
        weights = weights if place is None else weights[place]
        return logsumexp(_times_leaves(weights, requested).flatten(1))

    def log_outside(self, values: LeafValues) -> Tensor:
        """Return the log weight of each column's components given the others, (n, B, M)."""
        modes = range(len(values.columns))
        rest = [self._log_joint(values, without=j).movedim(1 + j, -1) for j in modes]
        return torch.stack([logsumexp(joint[:, None].flatten(1, -2), dim=1) for joint in rest])

    def sample(
        self, values: LeafValues, draws: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw a combination per row and draw, and split it by columns, (n, B, S)."""
        joint = self._log_joint(values)
        chosen = draw_many(joint.flatten(1), draws, generator)
        return torch.stack(torch.unravel_index(chosen, joint.shape[1:]))

    @torch.no_grad()
    def start(self, weights: Tensor | None = None) -> None:
        """Put 0.9 of the mass on the diagonal, evenly or by weights, and the rest evenly off it."""
        columns, width = self.size
        off = max(width**columns - width, 1)
        mass = torch.full_like(self.raw, 0.1 / off)
        diagonal = torch.arange(width, device=self.raw.device)
        even = torch.full((width,), 1 / width)
        share = 0.9 if columns > 1 and width > 1 else 1.0
        mass[(diagonal,) * columns] = share * (even if weights is None else weights).to(mass)
        self.raw.copy_(raw_weights(mass, self.parametrisation))

    @torch.no_grad()
    def start_as_paper(self, generator: torch.Generator | None = None) -> None:
        """Draw the raw weights from a standard Gaussian."""
        noise = torch.randn(self.raw.shape, generator=generator, device=self.raw.device)
        self.raw.copy_(noise)

    def draw_cost(self) -> int:
        """Return the number of floats that one draw for one row holds at once."""
        return self.raw.numel()

    def _log_joint(self, values: LeafValues, without: int | None = None) -> Tensor:
        """Return the log weight of every combination of the columns present, (B, M, ..., M)."""
        count, rows, width = values.log_values.shape
        joint = self._marginal(values.columns).expand(rows, *[width] * count)
        return _times_leaves(joint, values.log_values, without)

    def _marginal(self, columns: Sequence[int]) -> Tensor:
        """Sum the weights over the columns that are absent."""
        weights = self.log_weights()
        if tuple(columns) == tuple(range(self.columns)):
            return weights
        absent = [c for c in range(self.columns) if c not in columns]
        shape = [self.size[1]] * len(columns)
        return logsumexp(weights.permute(*columns, *absent).reshape(*shape, -1))


def _times_leaves(joint: Tensor, leaves: Tensor, without: int | None = None) -> Tensor:
    """Add the log values (n, B, M) of all leaves but one to log weights (B, M, ..., M)."""
    count, rows, width = leaves.shape
    for j, leaf in enumerate(leaves):
        if j != without:
            joint = joint + leaf.reshape(
                rows, *[width if mode == j else 1 for mode in range(count)]
            )
    return joint
