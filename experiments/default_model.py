"""Our default, for experiments that need no more."""

from contextlib import nullcontext
from typing import Any

import numpy as np

from benchmarks.clock import cpu_seconds
from marginals import MDMA, Continuous

Rows = np.ndarray[Any, np.dtype[np.float64]]


def fit_default(
    train: Rows, validation: Rows, *, seed: int, device: str, **options: Any
) -> tuple[MDMA, dict[str, Any]]:
    """Fit `MDMA` to continuous columns; return it with the number of members that have a weight.

    On a CPU it has one thread, and its limit is in seconds of the process, not of the wall.
    """
    model = MDMA(
        columns={column: Continuous() for column in range(train.shape[1])},
        n_jobs=1,
        device=device,
        progress=False,
        random_state=seed,
        **options,
    )
    with nullcontext() if device == "cuda" else cpu_seconds():
        model.fit(train, validation=validation)
    return model, {"members": sum(member["weight"] > 0 for member in model.members_)}
