"""Run requests off the event loop: outdated ones are dropped, and slow ones block no quick one."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, final

import torch

Result = TypeVar("Result")

# Pages and kinds of requests that are remembered, and requests that wait at a time.
_MOST_KEYS = 4096
_MOST_WAITING = 512
# Seconds after which a page is told that its request takes too long.
PATIENCE = 60.0


class OutdatedError(Exception):
    """A newer request of the same page and kind has arrived."""


class BusyError(Exception):
    """More requests wait than can be answered, or one takes too long."""


@final
class Workers:
    """Two pools of threads: for quick requests, and for slow ones.

    Args:
        quick, slow: the number of threads of each.
        patience: seconds after which a request is given up.
    """

    def __init__(self, quick: int = 2, slow: int = 2, patience: float = PATIENCE) -> None:
        def pool(count: int, name: str) -> ThreadPoolExecutor:
            # Torch's threads would wait for each other; several requests run side by side instead.
            one = (torch.set_num_threads, (1,))
            return ThreadPoolExecutor(count, name, initializer=one[0], initargs=one[1])

        self._quick, self._slow = pool(quick, "quick"), pool(slow, "slow")
        self._patience = patience
        self._latest: OrderedDict[Any, int] = OrderedDict()
        self._lock = threading.Lock()
        self._waiting = 0

    def arrive(self, key: Any, number: int) -> None:
        """Note that a request has arrived: older ones with the same key are outdated."""
        with self._lock:
            self._latest[key] = max(number, self._latest.get(key, number))
            self._latest.move_to_end(key)
            while len(self._latest) > _MOST_KEYS:
                self._latest.popitem(last=False)

    def is_outdated(self, key: Any, number: int) -> bool:
        """Say whether a newer request with the same key has arrived."""
        with self._lock:
            return self._latest.get(key, number) > number

    async def run(
        self, key: Any, number: int, function: Callable[[], Result], quick: bool
    ) -> Result:
        """Run a function in a thread, unless a newer request arrives before it starts.

        Args:
            key: of the page and the kind of request.
            number: of the request; the page counts up.
            function: computes the answer.
            quick: whether the request must not wait for slow ones.
        """
        if self._waiting >= _MOST_WAITING:
            raise BusyError("Too many requests wait for an answer. Try again in a moment.")
        self.arrive(key, number)

        def work() -> Result:
            if self.is_outdated(key, number):
                raise OutdatedError
            return function()

        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            job = loop.run_in_executor(self._quick if quick else self._slow, work)
            return await asyncio.wait_for(job, self._patience)
        except TimeoutError:
            raise BusyError("The answer takes too long. Take back some evidence.") from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Start nothing new."""
        for pool in (self._quick, self._slow):
            pool.shutdown(wait=False, cancel_futures=True)
