r"""Regression inside normal components: columns given the others, for rows with the same columns.

In component k the rows are :math:`N(m_k, S_k R_k S_k)`. The mean of column j given columns E is
affine in :math:`y_E` and its variance is constant, so one product with y serves all rows.
"""

import torch
from torch import Tensor

from marginals.numerics.matmul import exact_matmul


def conditional_of_rows(
    y: Tensor,
    location: Tensor,
    log_scale: Tensor,
    loadings: Tensor,
    unique: Tensor,
    requested: int,
) -> tuple[Tensor, Tensor]:
    r"""Compute the means (n, B, K) and log standard deviations (n, 1, K) of columns given others.

    The matrices are computed in float64, because a unique variance may be small.

    Args:
        y: exact values of the given columns, (B, E).
        location, log_scale: of all columns, (K, J), the given ones first.
        loadings, unique: of the correlation :math:`R = L L^\top + d`, (K, J, r) and (K, J).
        requested: the number n of requested columns, which come last.

    >>> L = torch.tensor([[[0.6], [0.8]]]); zero = torch.zeros(1, 2)
    >>> conditional_of_rows(torch.ones(1, 1), zero, zero, L, 1 - L.square().sum(-1), 1)
    (tensor([[[0.4800]]]), tensor([[[-0.1309]]]))
    """
    given = y.shape[1]
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
    # The shift is the weight of one more column, of ones.
    matrix = torch.cat([slopes, shift[..., None]], -1).permute(1, 2, 0).to(y.dtype)  # (n, E + 1, K)
    ones = torch.cat([y, y.new_ones(len(y), 1)], 1)
    mean = exact_matmul(ones.expand(requested, -1, -1), matrix)
    return mean, log_width.T[:, None].to(y.dtype)


def _solved(within: Tensor, across: Tensor) -> Tensor:
    """Return across @ within^-1, (K, n, E)."""
    if within.shape[-1] == 0:
        return across
    return torch.linalg.solve(within, across, left=False)
