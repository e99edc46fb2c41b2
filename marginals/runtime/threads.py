"""How many threads a fit or a query uses, and settings that fits in one process share."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import final

import torch

# Floats per training step. Below, threads spend more time waiting for each other than computing.
_WORTH_THREADS = 8_000_000


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
        if hasattr(os, "register_at_fork"):  # a thread that the child lacks may hold the lock
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the torch operations of the calling thread on one thread inside a `with` block.

    torch's number of threads belongs to the thread that sets it, so calls in several threads do not
    disturb each other. It is also the default of threads that use torch for the first time
    meanwhile: these keep to one thread.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(floats: int) -> AbstractContextManager[None]:
    """Use one torch thread for training steps on few floats, else torch's default number."""
    return nullcontext() if floats >= _WORTH_THREADS else one_thread()


# Queries ------------------------------------------------------------------------------------------


# torch's own number of threads, for each thread that answers a query.
_THREADS_OF: dict[int, int] = {}


@contextmanager
def answering() -> Iterator[None]:
    """Run the operations of a query on one thread; only `map_batches` uses several.

    If torch's threads share an operation, they wait for each other at its end. For small operations
    that takes longer than the work, and beside other busy processes many times as long. With
    gradients nothing changes, because the backward pass runs on torch's threads.

    >>> with torch.no_grad(), answering():
    ...     torch.get_num_threads()
    1
    """
    caller = threading.get_ident()
    if torch.is_grad_enabled() or caller in _THREADS_OF or torch.get_num_threads() == 1:
        yield
        return
    _THREADS_OF[caller] = torch.get_num_threads()
    try:
        with one_thread():
            yield
    finally:
        del _THREADS_OF[caller]


def own_threads() -> int:
    """Return torch's number of threads, as it is outside of a query."""
    return _THREADS_OF.get(threading.get_ident(), torch.get_num_threads())


# Forks --------------------------------------------------------------------------------------------


def _after_fork() -> None:
    """Keep a forked process from waiting for threads that only its parent has.

    OpenMP's threads do not survive a fork, but its records of them do: an operation on several
    threads would wait for them forever.
    """
    _THREADS_OF.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
