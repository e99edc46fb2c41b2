"""Where the members of a mixture are fitted: by processes of torchrun, or by workers of Ray."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, final

from marginals.engines.ray_cluster import join_cluster
from marginals.runtime.threads import one_thread
from marginals.selection.ensemble import Job, Member, fit_member
from marginals.selection.processes import ends_of, fit_by
from marginals.training import ranks


@final
class RankPool:
    """The processes that torchrun started: each fits its share, and all get all members."""

    @property
    def count(self) -> int:
        """How many members are fitted at a time."""
        return ranks.world()

    def fit(self, jobs: Sequence[Job], device: str) -> list[Member | None]:
        """Fit members, and return them in the order of the jobs; None for those that failed."""
        ends, mine = ends_of(jobs, self.count), range(ranks.rank(), len(jobs), self.count)
        with ranks.alone():
            own = {i: _on_cpu(fit_by(jobs[i], device, ends[i])) for i in mine}
        every = {i: member for part in ranks.gathered(own) for i, member in part.items()}
        return [every[i] for i in range(len(jobs))]


@final
class RayPool:
    """The workers of a Ray cluster, one for each core, or for each GPU if there are some.

    Ray runs a job again if its worker dies.

    Args:
        workers: the most members at a time; None for as many as there are cores or GPUs.
        address: of the cluster; None starts one on this machine, or joins that of RAY_ADDRESS.
    """

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self._ray, cpus, self._gpus = join_cluster(address)
        self.count = max(1, workers or self._gpus or cpus)

    def fit(self, jobs: Sequence[Job], device: str) -> Iterable[Member | None]:
        """Fit members, and yield them in the order of the jobs; None for those that failed."""
        options: dict[str, Any] = {"num_gpus": 1} if self._gpus else {"num_cpus": 1}
        task = self._ray.remote(**options)(_fit_there)
        where = "cuda" if self._gpus else "cpu"
        waiting: list[Any] = []
        for job in jobs:
            if len(waiting) >= self.count:  # as many at a time as there are workers
                self._ray.wait(waiting, num_returns=len(waiting) - self.count + 1)
            waiting.append(task.remote(job, where))
        return (self._ray.get(one) for one in waiting)


def _fit_there(job: Job, device: str) -> Member | None:
    """Fit a member in a worker, within the seconds of its recipe."""
    with one_thread():
        return _on_cpu(fit_member(job, device))


def _on_cpu(member: Member | None) -> Member | None:
    """Return a member as other processes can receive it."""
    return None if member is None else replace(member, model=member.model.cpu())
