"""A training step on a GPU, recorded once as a CUDA graph and replayed.

A step of a small model is some hundred kernels of a few microseconds each. Launched one by one they
wait for the host; replayed, they do not.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from marginals.numerics import host_free
from marginals.training.batches import Rows

_WARM_UPS = 3
_RECORDING = threading.Lock()  # one at a time in a process


class GraphedStep:
    """A step whose kernels were recorded for batches of one size and kind.

    Args:
        step: takes a batch and does forward, backward and update, all on the device; returns what
            it adds to the sums of losses, (2,).
        batch: an example; its tensors are where later batches are copied to.
        restore: sets weights and optimiser back to what they were: recording needs a few steps.
    """

    def __init__(
        self, step: Callable[[Rows], Tensor], batch: Rows, restore: Callable[[], None]
    ) -> None:
        known = batch.evidence
        lower = known.lower.clone()
        upper = lower if known.upper is known.lower else known.upper.clone()
        self.buffer = Rows(replace(known, lower=lower, upper=upper), batch.weight.clone())
        # Recording must not happen on the default stream, and kernels must have run before.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        self.graph = torch.cuda.CUDAGraph()
        with _RECORDING, host_free():
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    step(self.buffer)
            torch.cuda.current_stream().wait_stream(stream)
            stream.synchronize()
            with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
                self.added = step(self.buffer)
        restore()

    def fits(self, batch: Rows) -> bool:
        """Say whether a batch is of the kind that was recorded."""
        known, own = batch.evidence, self.buffer.evidence
        return (
            known.lower.shape == own.lower.shape
            and (known.complete, known.patterns) == (own.complete, own.patterns)
            and known.intervals == own.intervals
            and not known.sets
        )

    def __call__(self, batch: Rows) -> Tensor:
        """Do a step; return what it adds to the sums of losses, (2,)."""
        known, own = batch.evidence, self.buffer.evidence
        own.lower.copy_(known.lower)
        if own.upper is not own.lower:
            own.upper.copy_(known.upper)
        self.buffer.weight.copy_(batch.weight)
        self.graph.replay()
        return self.added
