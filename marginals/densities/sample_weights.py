"""Sample weights: checks, and rows drawn in proportion to them."""

import torch
from torch import Tensor


def checked_weight(weight: Tensor, rows: int, called: str, of: str) -> Tensor:
    """Return weights of rows relative to the largest, (N,) in float64; refuse wrong ones.

    Args:
        weight: one for each row.
        rows: the number of rows.
        called: the name of the argument with the weights.
        of: the name of the argument with the rows.
    """
    weight = torch.as_tensor(weight, dtype=torch.float64).detach().flatten()
    if len(weight) != rows:
        raise ValueError(
            f"Expected `{called}` to hold one weight for each of the {rows} rows of `{of}`; got "
            f"{len(weight)}."
        )
    if not bool((weight.isfinite() & (weight >= 0)).all()) or not bool(weight.sum() > 0):
        raise ValueError(
            f"Expected `{called}` to be finite, nonnegative and not all zero; got "
            f"{float(weight.min())} to {float(weight.max())}."
        )
    # Only proportions matter; relative to the largest, no sum overflows.
    return weight / weight.max()


def drawn_by_weight(weight: Tensor, seed: int = 0) -> Tensor:
    """Draw N of N rows in proportion to their weights, and return their positions, (N,).

    Systematic resampling: each row is drawn as often as expected, rounded up or down, and equal
    weights draw each row once.

    Args:
        weight: the weight of each row, not all zero.
        seed: seed of the order of rows, as a regular order could coincide with the regular marks.

    >>> drawn_by_weight(torch.tensor([1.0, 0.0, 2.0, 1.0])).tolist()
    [0, 2, 2, 3]
    """
    order = torch.randperm(len(weight), generator=torch.Generator().manual_seed(seed))
    edges = weight.double().cpu()[order].cumsum(0)
    marks = (torch.arange(len(weight), dtype=torch.float64) + 0.5) / len(weight) * edges[-1]
    place = torch.searchsorted(edges, marks, right=True).clamp_max(len(weight) - 1)
    return order[place].sort().values
