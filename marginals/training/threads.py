"""How many threads a fit uses."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Floats that a step works on. Below, the threads of one operation wait for each other longer than
# they work, and much longer if another program runs on their core.
_WORTH_IT = 8_000_000


@contextmanager
def threads_for(floats: int) -> Iterator[None]:
    """Use one thread for small steps, and torch's own number for large ones."""
    before = torch.get_num_threads()
    if floats < _WORTH_IT:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
