"""How many threads the linear algebra of NumPy and SciPy uses."""

from contextlib import AbstractContextManager, nullcontext

from threadpoolctl import threadpool_limits

from marginals.runtime.overlapping import Overlapping

# Floats that each round of EM works on. Below, threads wait for each other longer than they work:
# its products are of many rows with few columns.
_WORTH_IT = 32_000_000
_ONE_THREAD = Overlapping(lambda: threadpool_limits(1, user_api="blas").restore_original_limits)


def blas_threads_for(floats: int) -> AbstractContextManager[None]:
    """Use one thread for small works, and the library's own number for large ones."""
    return nullcontext() if floats >= _WORTH_IT else _ONE_THREAD.on()
