"""Weights of rows: what they must be, and rows drawn by them."""

import torch
from torch import Tensor


def checked_weight(weight: Tensor, rows: int, called: str, of: str) -> Tensor:
    """Return weights of rows as shares of the largest, (N,) in float64, or say what is wrong.

    Args:
        weight: one for each row.
        rows: their number.
        called: what the argument is called.
        of: what the argument with the rows is called.
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
    # Only proportions matter; as shares of the largest, no sum of them overflows.
    return weight / weight.max()


def drawn_by_weight(weight: Tensor, seed: int = 0) -> Tensor:
    """Return as many places of rows as there are, each as often as its weight says, (N,).

    Evenly spaced marks on the sum of weights: no row is taken more than once too often or too
    seldom, and equal weights take each row once.

    Args:
        weight: of each row, not all zero.
        seed: of the order of the rows on the sum; in their own, marks could fall into step with it.

    >>> drawn_by_weight(torch.tensor([1.0, 0.0, 2.0, 1.0])).tolist()
    [0, 2, 2, 3]
    """
    order = torch.randperm(len(weight), generator=torch.Generator().manual_seed(seed))
    edges = weight.double().cpu()[order].cumsum(0)
    marks = (torch.arange(len(weight), dtype=torch.float64) + 0.5) / len(weight) * edges[-1]
    place = torch.searchsorted(edges, marks, right=True).clamp_max(len(weight) - 1)
    return order[place].sort().values
