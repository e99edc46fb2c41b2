"""Draws that keep the order of columns: rows that break it are drawn again.

A mixture smooths the sharp edge at a = b of a table in which a never exceeds b, so that some draws
cross it. Without these, draws are exact draws of the model given that a <= b. Queries know of no
order, so draws and queries differ by at most the share of rows that are drawn again. Orders that
too many draws break are therefore not kept: the model has not learned them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from marginals.columns import Schema, decode
from marginals.columns.row_orders import out_of_order
from marginals.densities import Density
from marginals.queries.positions import seeded

__all__ = ["in_order", "with_likely_orders"]

# The most draws that may break one of the orders that are kept, as found by so many draws.
_MOST_BROKEN, _DRAWS = 0.25, 2000

_TRIES = 20  # new draws of a row; the few that are left break the order, as evidence may make them


def in_order(schema: Schema, rows: Tensor, again: Callable[[Tensor], Tensor]) -> Tensor:
    """Return draws of which those that break an order of the schema are replaced by new ones.

    Args:
        schema: The schema, with the orders.
        rows: Draws, (N, D).
        again: Draws new rows for places (B,) among the N, (B, D).
    """
    orders = schema.orders
    if not orders or not len(rows):
        return rows
    names = list(dict.fromkeys(name for pair in orders for name in pair))
    columns = list(schema.positions(names))
    rows, left = rows.clone(), torch.arange(len(rows), device=rows.device)
    for turn in range(_TRIES + 1):
        frame = decode(schema, rows[left][:, columns], names)
        left = left[torch.from_numpy(out_of_order(frame, orders)).to(left.device)]
        if not len(left) or turn == _TRIES:
            break
        rows[left] = again(left).reshape(len(left), -1)
    return rows


@torch.inference_mode()
def with_likely_orders(schema: Schema, density: Density) -> Schema:
    """Return the schema with the orders that nearly all draws of a density keep anyway.

    Args:
        schema: The schema, with the orders of its table.
        density: The fitted density.
    """
    if not schema.orders:
        return schema
    drawn = decode(schema, density.sample(_DRAWS, generator=seeded(density, 0)).reshape(_DRAWS, -1))
    broken = {pair: out_of_order(drawn, [pair]) for pair in schema.orders}
    kept, union = set(), np.zeros(_DRAWS, dtype=bool)
    for pair in sorted(broken, key=lambda pair: broken[pair].mean()):
        if (union | broken[pair]).mean() > _MOST_BROKEN:
            break
        kept.add(pair)
        union |= broken[pair]
    columns = (
        replace(c, above=tuple(low for low in c.above if (low, c.name) in kept)) if c.above else c
        for c in schema.columns
    )
    return Schema(tuple(columns))
