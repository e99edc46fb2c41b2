"""Settings of the whole process that works beside each other share."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final


@final
class Overlapping:
    """A setting that the first of overlapping works makes and the last one undoes.

    In between it would be wrong to undo it: works in other threads still need it.

    Args:
        make: sets it, and returns what undoes it.

    >>> calls = []
    >>> setting = Overlapping(lambda: calls.append("make") or (lambda: calls.append("undo")))
    >>> with setting.on(), setting.on():
    ...     pass
    >>> calls
    ['make', 'undo']
    """

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._count = 0
        self._undo: Callable[[], object] = lambda: None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Have the setting for a while."""
        with self._lock:
            if self._count == 0:
                self._undo = self._make()
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if self._count == 0:
                    self._undo()
