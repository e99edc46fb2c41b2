"""How many threads a fit uses."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from marginals.runtime.overlapping import Overlapping

# Floats that a step works on. Below, the threads of one operation wait for each other longer than
# they work, and much longer if another program runs on their core.
_WORTH_IT = 8_000_000


def _take_one() -> Callable[[], None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return lambda: torch.set_num_threads(before)


_ONE_THREAD = Overlapping(_take_one)


def threads_for(floats: int) -> AbstractContextManager[None]:
    """Use one thread for small steps, and torch's own number for large ones."""
    return nullcontext() if floats >= _WORTH_IT else _ONE_THREAD.on()
