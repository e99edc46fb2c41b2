r"""Regression inside normal components: columns given the others, for rows with the same columns.

In component k the rows are :math:`N(m_k, S_k R_k S_k)`. The mean of column j given columns E is
affine in :math:`y_E` and its variance is constant, so one product with y serves all rows.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from marginals.numerics.matmul import exact_matmul


@final
@dataclass(frozen=True)
class Regression:
    r"""Normal columns given others, in each of K components.

    Args:
        matrix: the weights of the given columns and, last, of one more of ones, (n, E + 1, K).
        log_width: log standard deviations, (n, 1, K).

    >>> L = torch.tensor([[[0.6], [0.8]]]); zero = torch.zeros(1, 2)
    >>> found = Regression.of(zero, zero, L, 1 - L.square().sum(-1), given=1)
    >>> found.mean(torch.ones(1, 1)), found.log_width
    (tensor([[[0.4800]]]), tensor([[[-0.1309]]]))
    """

    matrix: Tensor
    log_width: Tensor

    @staticmethod
    def of(
        location: Tensor, log_scale: Tensor, loadings: Tensor, unique: Tensor, given: int
    ) -> "Regression":
        r"""Make it in float64, because a unique variance may be small.

        Args:
            location, log_scale: of all columns, (K, J), the given ones first.
            loadings, unique: of the correlation :math:`R = L L^\top + d`, (K, J, r) and (K, J).
            given: the number of given columns E.
        """
        spread = log_scale.double().exp()  # (K, J)
        factor = loadings.double() * spread[..., None]
        covariance = factor @ factor.mT + (unique.double() * spread.square()).diag_embed()
        within, across = covariance[:, :given, :given], covariance[:, given:, :given]
        own = covariance[:, given:, given:].diagonal(dim1=-2, dim2=-1)  # (K, n)
        slopes = _solved(within, across)  # (K, n, E)
        variance = own - (slopes * across).sum(-1)
        # Rounding must not push the variance below the column's unique variance.
        least = (unique.double() * spread.square())[:, given:]
        log_width = 0.5 * torch.maximum(variance, least).log()
        middle = location.double()
        shift = middle[:, given:] - (slopes @ middle[:, :given, None])[..., 0]  # (K, n)
        matrix = torch.cat([slopes, shift[..., None]], -1).permute(1, 2, 0)
        return Regression(matrix.to(location), log_width.T[:, None].to(location))

    def mean(self, y: Tensor) -> Tensor:
        """Return the means (n, B, K) given exact values y (B, E)."""
        ones = torch.cat([y, y.new_ones(len(y), 1)], 1)
        return exact_matmul(ones.expand(len(self.matrix), -1, -1), self.matrix)


def _solved(within: Tensor, across: Tensor) -> Tensor:
    """Return across @ within^-1, (K, n, E)."""
    if within.shape[-1] == 0:
        return across
    return torch.linalg.solve(within, across, left=False)
