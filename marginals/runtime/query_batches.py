"""Run the batches of a query, several at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from marginals.runtime.threads import answering, own_threads

_MOST_WORKERS = 8  # each holds a batch in memory

Part = TypeVar("Part")
Result = TypeVar("Result")


def map_batches(
    function: Callable[[Part], Result], batches: Iterable[Part], device: torch.device
) -> list[Result]:
    """Apply a function to each batch of a query, on a CPU several batches at a time.

    Each batch runs on one thread, and as many run at a time as torch has threads. With gradients,
    batches run one after the other on torch's threads.

    Args:
        function: computes the answer of a batch; it may run in any thread.
        batches: the batches.
        device: where they are.

    >>> with torch.no_grad():
    ...     map_batches(lambda x: x.sum().item(), torch.ones(4).split(2), torch.device("cpu"))
    [2.0, 2.0]
    """
    parts = list(batches)
    if len(parts) <= 1 or device.type != "cpu" or torch.is_grad_enabled():
        with answering():
            return [function(part) for part in parts]
    workers = min(own_threads(), len(parts), _MOST_WORKERS)
    with answering():
        if workers == 1:
            return [function(part) for part in parts]
        return _map_in_threads(function, parts, workers)


def _map_in_threads(
    function: Callable[[Part], Result], parts: list[Part], workers: int
) -> list[Result]:
    inference = torch.is_inference_mode_enabled()

    def work(part: Part) -> Result:
        # Each thread has its own modes, and a new one records gradients.
        with torch.inference_mode(inference), torch.no_grad():
            return function(part)

    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            return list(pool.map(work, parts))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
