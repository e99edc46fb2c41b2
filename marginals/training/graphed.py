"""A training step on a GPU, recorded once as a CUDA graph and replayed.

A step of a small model is about a hundred kernels of a few microseconds each. Launched one by one
they wait for the host; replayed, they do not.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from marginals.training.batches import Noise, Rows, moved

_WARM_UPS = 3
_RECORDING = threading.Lock()  # one at a time in a process


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Work on a separate stream on a GPU, unless the current one already is.

    Concurrent fits then do not wait for each other, and steps and evaluations share one workspace
    for matrix products.
    """
    if device.type != "cuda":
        yield
        return
    outer = torch.cuda.current_stream(device)
    if outer != torch.cuda.default_stream(device):
        yield
        return
    inner = torch.cuda.Stream(device)
    inner.wait_stream(outer)
    try:
        with torch.cuda.stream(inner):
            yield
    finally:
        outer.wait_stream(inner)


class GraphedStep:
    """A step whose kernels were recorded, from gathering its rows to the new weights.

    Args:
        step: Runs forward, backward and update for a batch, all on the device, and returns its
            summed losses and weights, (2,).
        rows: All training rows, on the device.
        size: Rows per batch.
        noise: Noise to add to each batch, if any.
        restore: Restores weights and optimiser, because recording takes a few steps.
    """

    def __init__(
        self,
        step: Callable[[Rows], Tensor],
        rows: Rows,
        size: int,
        noise: Noise | None,
        restore: Callable[[], None],
    ) -> None:
        device = rows.weight.device
        self.index = torch.arange(size, device=device)
        self.change = None if noise is None else rows.evidence.lower.new_zeros(size, len(noise))

        def whole() -> Tensor:
            batch = rows.take(self.index)
            if noise is not None and self.change is not None:
                batch = moved(batch, noise, self.change)
            return step(batch)

        self.graph = torch.cuda.CUDAGraph()
        # Recording must not happen on the default stream, and kernels must have run before.
        with _RECORDING, own_stream(device):
            stream = torch.cuda.current_stream()
            for _ in range(_WARM_UPS):
                whole()
            stream.synchronize()
            with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
                self.added = whole()
        restore()

    def __call__(self, index: Tensor, change: Tensor | None) -> Tensor:
        """Take a step on the rows at an index, with noise; return its sums, (2,)."""
        self.index.copy_(index)
        if self.change is not None and change is not None:
            self.change.copy_(change)
        self.graph.replay()
        return self.added
