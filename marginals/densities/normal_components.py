"""Normal components of coupled columns, on their learned scales."""

from typing import NamedTuple

import torch
from torch import Tensor


class Components(NamedTuple):
    """Normal components of n coupled columns on the learned scale."""

    location: Tensor  # (n, K)
    log_scale: Tensor  # (n, K)
    loadings: Tensor  # (K, n, r)
    unique: Tensor  # (K, n)

    def with_floor(self, log_floor: Tensor) -> "Components":
        """Add independent noise to each column, with log deviations (n,); -inf is none."""
        wide = 0.5 * torch.logaddexp(2 * self.log_scale, 2 * log_floor[:, None])
        kept = (self.log_scale - wide).exp().T  # (K, n)
        added = (2 * (log_floor[:, None] - wide)).exp().T
        return Components(
            self.location,
            wide,
            self.loadings * kept[..., None],
            self.unique * kept.square() + added,
        )

    def rows_first(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the same with components first: (K, n), (K, n), (K, n, r), (K, n)."""
        return self.location.T, self.log_scale.T, self.loadings, self.unique
