"""A training step on a GPU, recorded once as a CUDA graph and replayed.

A step of a small model is some hundred kernels of a few microseconds each. Launched one by one they
wait for the host; replayed, they do not.
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
    """Work on a stream of its own on a GPU, unless there is one already.

    Fits beside each other then do not wait for each other, and one workspace of the matrix products
    serves steps and evaluations.
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
    """A step whose kernels were recorded, from the gathering of its rows to the new weights.

    Args:
        step: takes a batch and does forward, backward and update, all on the device; returns what
            it adds to the sums of losses, (2,).
        rows: all training rows, on the device.
        size: of a batch.
        noise: on the rows of each batch, if any.
        restore: sets weights and optimiser back to what they were: recording needs a few steps.
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
        """Do a step on some rows, moved by noise; return what it adds to the sums, (2,)."""
        self.index.copy_(index)
        if self.change is not None and change is not None:
            self.change.copy_(change)
        self.graph.replay()
        return self.added
