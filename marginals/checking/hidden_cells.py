"""Which observed cells of a table to hide, so that a model can be asked for them."""

from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]

# Share of the cells to hide in a table without gaps.
_SHARE = 0.3


def hidden_cells(observed: Flags, gaps: Flags | None, random: Any) -> Flags:
    """Return which observed cells (B, n) to hide: as gaps (G, n) fall, or at random without any.

    Each row takes the gaps of a random row that has some. A row in which they hide nothing hides
    one cell, in a column drawn by its share of gaps.

    >>> gaps = np.array([[False, True], [False, False]])
    >>> hidden_cells(np.ones((3, 2), dtype=bool), gaps, np.random.default_rng(0))[:, 0].any()
    np.False_
    """
    rows, columns = observed.shape
    some = np.empty((0, columns), dtype=bool) if gaps is None else gaps[gaps.any(1) & ~gaps.all(1)]
    if len(some):
        chosen, share = some[random.integers(len(some), size=rows)], some.mean(0)
    else:
        chosen, share = random.random((rows, columns)) < _SHARE, np.full(columns, 1.0)
    hidden = chosen & observed
    # The largest of uniform numbers to the power of 1 / share is drawn by share.
    with np.errstate(divide="ignore"):
        level = np.log(random.random((rows, columns))) / share
    level[~observed] = -np.inf
    bare = ~hidden.any(1) & (level.max(1, initial=-np.inf) > -np.inf)
    hidden[bare, level[bare].argmax(1)] = True
    return hidden
