"""How many threads the linear algebra of NumPy and SciPy uses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

# Floats that each round of EM works on. Below, threads wait for each other longer than they work:
# its products are of many rows with few columns.
_WORTH_IT = 32_000_000


class _Small:
    """Small works under way in this process; the first sets the threads, the last sets them back.

    The number of threads is the process's own: works that overlap in several threads would
    otherwise set back what another has set.
    """

    lock = threading.Lock()
    count = 0
    limits: Any = None


@contextmanager
def blas_threads_for(floats: int) -> Iterator[None]:
    """Use one thread for small works, and the library's own number for large ones."""
    if floats >= _WORTH_IT:
        yield
        return
    with _Small.lock:
        if _Small.count == 0:
            _Small.limits = threadpool_limits(1, user_api="blas")
        _Small.count += 1
    try:
        yield
    finally:
        with _Small.lock:
            _Small.count -= 1
            if _Small.count == 0:
                _Small.limits.restore_original_limits()
