"""How many threads a fit uses, and settings that concurrent fits in one process share."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import final

import torch
from threadpoolctl import threadpool_limits

# Floats per training step, and per EM iteration. Below, threads spend more time waiting for each
# other than computing: EM multiplies tall, narrow matrices, which scale worse.
_WORTH_THREADS = 8_000_000
_WORTH_BLAS_THREADS = 32_000_000


@final
class SharedSetting:
    """A setting of the process that the first of several users makes and the last one undoes.

    Args:
        make: makes the setting and returns a function that undoes it.

    >>> calls = []
    >>> setting = SharedSetting(lambda: calls.append("make") or (lambda: calls.append("undo")))
    >>> with setting.on(), setting.on():
    ...     pass
    >>> calls
    ['make', 'undo']
    """

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._undo: Callable[[], object] = lambda: None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Hold the setting inside a `with` block."""
        with self._lock:
            if self._users == 0:
                self._undo = self._make()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._undo()


def _use_one_thread() -> Callable[[], None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return lambda: torch.set_num_threads(before)


_ONE_THREAD = SharedSetting(_use_one_thread)
_ONE_BLAS_THREAD = SharedSetting(
    lambda: threadpool_limits(1, user_api="blas").restore_original_limits
)


def threads_for(floats: int) -> AbstractContextManager[None]:
    """Use one torch thread for training steps on few floats, else torch's default number."""
    return nullcontext() if floats >= _WORTH_THREADS else _ONE_THREAD.on()


def blas_threads_for(floats: int) -> AbstractContextManager[None]:
    """Use one thread in NumPy's and SciPy's linear algebra for few floats, else their default."""
    return nullcontext() if floats >= _WORTH_BLAS_THREADS else _ONE_BLAS_THREAD.on()
