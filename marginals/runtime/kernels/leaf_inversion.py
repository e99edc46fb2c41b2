"""Inversion of the paper's leaves, one chosen leaf per cell, by a fused kernel."""

from collections.abc import Sequence

import torch
from torch import Tensor

from marginals.runtime.kernels.leaf_values import pack


@torch.no_grad()
def invert_chosen(
    log_u: Tensor,
    log_1mu: Tensor,
    components: Tensor,
    columns: Tensor,
    ends: tuple[Tensor, Tensor, Tensor] | None,
    raw: Sequence[Tensor],
    depth: int,
) -> Tensor:
    """Return where the leaves of cells (n, N) reach levels u, in units of the networks.

    Args:
        log_u, log_1mu: log u and log(1 - u), (n, N).
        components: the leaf of each cell, (n, N).
        columns: the column of each row of cells, (n,).
        ends: lower end, upper end and length of the interval within which u is a level, infinite
            where open; None if all are open.
        raw: raw weights of all layers, then their biases, then the gates, (..., D, M).
        depth: the number of hidden layers.
    """
    from marginals.runtime.kernels import leaf_inversion_triton

    cells = [part.contiguous() for part in (log_u, log_1mu, *(ends or ()))]
    planes = pack(raw)
    return leaf_inversion_triton.invert_chosen(
        cells, components.contiguous(), columns, planes, depth
    )
