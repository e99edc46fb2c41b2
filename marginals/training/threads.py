"""How many threads a fit uses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Floats that a step works on. Below, the threads of one operation wait for each other longer than
# they work, and much longer if another program runs on their core.
_WORTH_IT = 8_000_000


class _Small:
    """Small fits under way in this process; the first sets the threads, the last sets them back."""

    lock = threading.Lock()
    count = 0
    before = 1


@contextmanager
def threads_for(floats: int) -> Iterator[None]:
    """Use one thread for small steps, and torch's own number for large ones."""
    if floats >= _WORTH_IT:
        yield
        return
    with _Small.lock:
        if _Small.count == 0:
            _Small.before = torch.get_num_threads()
            torch.set_num_threads(1)
        _Small.count += 1
    try:
        yield
    finally:
        with _Small.lock:
            _Small.count -= 1
            if _Small.count == 0:
                torch.set_num_threads(_Small.before)
