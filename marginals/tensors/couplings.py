"""Component weights, and the low-rank correlation of columns inside each component."""

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from marginals.numerics import log_normalised
from marginals.runtime.derived import Derived


@final
class Couplings(nn.Module):
    r"""Weights of K components and, in each, the correlation :math:`R = \mathrm{diag}(d) + L L^T`.

    With raw loadings W of J columns on r factors, :math:`L_j = W_j \sqrt{(1 - \delta) / (1 +
    |W_j|^2)}` and :math:`d_j = \delta + (1 - \delta) / (1 + |W_j|^2)`: the diagonal of R is one,
    and no column is a function of the others. Some factors belong to one component. Common factors
    share W across components, up to a scale per component and factor.

    Args:
        columns: the number of columns J that are coupled.
        width: the number of components K.
        own: the number of factors that belong to each component.
        common: the number of factors that all components share.
        least: the least unique variance delta, which keeps the likelihood bounded where columns are
            linearly dependent.
    """

    def __init__(
        self, columns: int, width: int, own: int = 2, common: int = 0, least: float = 1e-4
    ) -> None:
        super().__init__()
        for name, number in (("own", own), ("common", common)):
            if number < 0:
                raise ValueError(f"Expected `{name}` to be at least 0; got {number}.")
        if not 0 < least < 1:
            raise ValueError(f"Expected `least` to lie between 0 and 1; got {least}.")
        self.least = float(least)
        self.raw = nn.Parameter(torch.zeros(width))
        self.own = nn.Parameter(torch.zeros(width, columns, own))
        self.common = nn.Parameter(torch.zeros(columns, common))
        self.log_scale = nn.Parameter(torch.zeros(width, common))
        self._weights, self._loadings = Derived(), Derived()

    @property
    def size(self) -> tuple[int, int]:
        """The number of coupled columns J and of components K."""
        return self.own.shape[1], len(self.raw)

    @property
    def rank(self) -> int:
        """The number of factors, own and common."""
        return self.own.shape[2] + self.common.shape[1]

    def config(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, as JSON."""
        columns, width = self.size
        own, common = self.own.shape[2], self.common.shape[1]
        sizes = {"columns": columns, "width": width, "own": own, "common": common}
        return {**sizes, "least": self.least}

    def log_weights(self) -> Tensor:
        """Return the log weights of the components, (K,)."""
        return self._weights.get("log", (self.raw,), lambda: log_normalised(self.raw, "softmax"))

    def loadings(self) -> tuple[Tensor, Tensor]:
        """Return the loadings L (K, J, r) and the unique variances d (K, J)."""
        raw = (self.own, self.common, self.log_scale)
        return self._loadings.get("both", raw, self._make_loadings)

    def _make_loadings(self) -> tuple[Tensor, Tensor]:
        shared = self.log_scale.exp()[:, None] * self.common  # (K, J, common)
        raw = torch.cat([self.own, shared], -1)
        total = 1 + raw.square().sum(-1)
        free = 1 - self.least
        return raw * (free / total).sqrt()[..., None], self.least + free / total

    @torch.no_grad()
    def start(self, data: Tensor, generator: torch.Generator | None = None) -> None:
        """Initialise near the principal directions of data (N, J), NaN where missing."""
        columns, width = self.size
        self.raw.fill_(0.0)
        self.log_scale.fill_(0.0)
        directions = _principal(data.double().cpu(), max(self.own.shape[2], self.common.shape[1]))
        both = 0.3 if self.common.shape[1] else 1.0
        own = both * directions[:, : self.own.shape[2]].expand(width, columns, -1)
        noise = torch.randn(own.shape, generator=generator, dtype=own.dtype)
        self.own.copy_(own + 0.1 * noise)
        self.common.copy_(directions[:, : self.common.shape[1]])

    @torch.no_grad()
    def start_as(self, weights: Tensor, correlation: Tensor) -> None:
        """Initialise from weights (K,) and correlations (K, J, J), as closely as own factors allow.

        A correlation minus its smallest eigenvalue has rank J - 1: that many factors reproduce it
        up to the least unique variance.
        """
        self.raw.copy_(weights.log())
        self.log_scale.fill_(0.0)
        self.common.fill_(0.0)
        values, vectors = torch.linalg.eigh(correlation.double())  # ascending
        rank = min(self.own.shape[2], correlation.shape[-1])
        above = (values - values[:, :1]).clamp_min(0)[:, None, values.shape[1] - rank :]
        loadings = vectors[..., values.shape[1] - rank :] * above.sqrt()  # (K, J, rank)
        # L_j = W_j sqrt(f / (1 + |W_j|^2)) and d_j = 1 - |L_j|^2, solved for W_j.
        unique = 1 - loadings.square().sum(-1, keepdim=True)
        self.own.zero_()
        self.own[..., :rank] = (loadings / (unique - self.least).clamp_min(self.least).sqrt()).to(
            self.own.dtype
        )


def _principal(data: Tensor, rank: int) -> Tensor:
    """Return the first principal directions (J, r) of standardised data, times their deviations.

    Missing cells count as the mean. Directions beyond the number of columns are zero.
    """
    columns = data.shape[1]
    scaled = data - data.nanmean(0)
    scaled = torch.nan_to_num(scaled / scaled.square().nanmean(0).sqrt())
    correlation = scaled.T @ scaled / max(1, len(data))
    values, vectors = torch.linalg.eigh(torch.nan_to_num(correlation))
    order = values.argsort(descending=True)[:rank]
    found = vectors[:, order] * values[order].clamp_min(0).sqrt()
    # A factor that explains everything would leave no gradient.
    found = found.clamp(-2.0, 2.0) / math.sqrt(max(1, min(rank, 3)))
    return torch.cat([found, found.new_zeros(columns, rank - found.shape[1])], 1)
