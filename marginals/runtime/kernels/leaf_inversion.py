"""The inversion of the paper's leaves, one chosen leaf per cell, by a fused kernel."""

from collections.abc import Sequence

import torch
from torch import Tensor

from marginals.runtime.kernels.leaf_values import pack

# Beyond this, a leaf no longer fits into the registers of its lane.
_MOST_PLANES = 160


def fits(raw: Sequence[Tensor]) -> bool:
    """Say whether the fused kernel can take these parameters."""
    return sum(part.shape[:-2].numel() for part in raw) <= _MOST_PLANES


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
        columns: the leaves' column of each row of cells, (n,).
        ends: the interval that u refers to, lower, upper and their difference, infinite where it
            is open; None if all are.
        raw: the raw weights of all layers, then their biases, then the gates, (..., D, M).
        depth: the number of hidden layers.
    """
    from marginals.runtime.kernels import leaf_inversion_triton as inversion_triton

    parts = (log_u, log_1mu, *(ends or ()))
    cells = [part.contiguous() for part in parts]
    return inversion_triton.invert_chosen(cells, components.contiguous(), columns, pack(raw), depth)
