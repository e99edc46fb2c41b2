"""Several processes that train one model: who they are, and what they share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from marginals.cells.evidence import Evidence
from marginals.densities.density import Density
from marginals.runtime.backend import Backend

_ALONE: list[bool] = []  # not empty while this process trains a model of its own


def rank() -> int:
    """Return the number of this process, 0 if it is alone."""
    return dist.get_rank() if is_shared() else 0


def world() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if is_shared() else 1


def is_shared() -> bool:
    """Say whether several processes train together."""
    return dist.is_available() and dist.is_initialized() and not _ALONE


@contextmanager
def alone() -> Iterator[None]:
    """Train a model of this process's own inside a `with` block."""
    _ALONE.append(True)
    try:
        yield
    finally:
        _ALONE.pop()


def gathered(part: Any) -> list[Any]:
    """Return the parts of all processes, in their order."""
    if not is_shared():
        return [part]
    parts: list[Any] = [None] * world()
    dist.all_gather_object(parts, part)
    return parts


def join() -> bool:
    """Join the other processes if torchrun started this one; say whether it did."""
    if is_shared() or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return is_shared()
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpu else "gloo", **_own_store())
    return True


def _own_store() -> dict[str, Any]:
    """Return a store without the addresses of processes that ended, if all are on one machine.

    torchrun's restarts share one store, in which a process may find the address that another had
    before it was killed. On several machines the numbers of their restarts may differ.
    """
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
        return {}
    store, rank, world = next(rendezvous("env://"))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    own = PrefixStore(f"attempt-{attempt}", store)
    return {"store": own, "rank": rank, "world_size": world}


def wait() -> None:
    """Wait until all processes have come here."""
    if is_shared():
        dist.barrier()


def leave() -> None:
    """Leave the other processes when all are done."""
    if is_shared():
        wait()
        dist.destroy_process_group()


def agreed(number: float) -> float:
    """Return the number of the first process, so that all take the same decisions."""
    if not is_shared():
        return number
    shared = torch.tensor([number], dtype=torch.float64)
    if dist.get_backend() == "nccl":
        shared = shared.cuda()
    dist.broadcast(shared, 0)
    return float(shared[0])


class _Contraction(nn.Module):
    """The log value of evidence as a module's forward pass, which DistributedDataParallel needs."""

    def __init__(self, model: Density) -> None:
        super().__init__()
        self.model = model

    def forward(self, evidence: Evidence, backend: Backend) -> Tensor:
        """Return the log value of each row, (B,)."""
        return self.model.contract(evidence, backend)


@final
class SharedContraction:
    """The contraction of a model whose gradients are averaged over all processes.

    Args:
        model: the model, with the same parameters in each process.
    """

    def __init__(self, model: Density) -> None:
        alone: Any = _Contraction(model)
        self._call = alone if not is_shared() else self._parallel(alone)

    @staticmethod
    def _parallel(alone: nn.Module) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        # Parameters of columns that are missing in all rows of a batch have no gradient.
        return DistributedDataParallel(alone, find_unused_parameters=True)

    def __call__(self, evidence: Evidence, backend: Backend) -> Tensor:
        """Return the log value of each row, (B,)."""
        value: Tensor = self._call(evidence, backend)
        return value
